"""The result of an audit: data, recommendation, texts and charts."""

from dataclasses import dataclass

from skhash.auditing.chart import draw_recall
from skhash.auditing.choices import SEARCH_NAMES, Choice, recommend
from skhash.auditing.measure import AuditRow
from skhash.auditing.page import fragment, whole_page


@dataclass(frozen=True, repr=False)
class AuditResult:
    """The measurements of an audit, and the recommended code and search.

    Attributes
    ----------
    rows : list of AuditRow
        One for each method and length, in the given order.
    recommended : AuditRow
        The recommended method and length.
    search : {"hamming", "asymmetric"}
        How to search its codes: by Hamming distance, or by uncompressed queries and a
        decoder.
    choice : Choice
        Both of these, with their cost: ``n_bytes`` of a vector in memory and
        ``decoder_bytes`` once, ``recall`` and its standard ``error``. It is the choice
        of least memory, for the given vectors, that reaches the target recall. Of equal
        memory, or if none reaches it, it is the choice of best recall.
    reason : str
        The reason, in a sentence.
    encoder : object
        The recommended encoder, fitted; beside a decoder, one of the same length.
    decoder : AdditiveQuantizer or None
        The fitted decoder that makes and decodes the codes for uncompressed queries;
        None where the recommended search is by Hamming distance.
    settings : dict
        Settings of the audit: sizes, metric, `k`, `rescore`, target, random state; and
        the date, the processor and the cores.
    skipped : list of str
        Methods and lengths that could not be measured, with the reason.
    alternatives : list of str
        Other choices: for more vectors, without re-ranking, and of other engines.
    evidence : object or None
        Scores of true neighbours and of random pairs by the recommended search, and
        examples of queries, for `to_html`.
    """

    rows: list[AuditRow]
    choice: Choice
    reason: str
    encoder: object
    decoder: object
    settings: dict
    skipped: list[str]
    alternatives: list[str]
    evidence: object = None

    def __repr__(self) -> str:
        best = self.recommended
        return (
            f"<{type(self).__name__}: {len(self.rows)} codes measured, recommended "
            f"{best.method} at {best.n_bits} bits by {SEARCH_NAMES[self.search]}>"
        )

    @property
    def recommended(self) -> AuditRow:
        return self.choice.row

    @property
    def search(self) -> str:
        return self.choice.search

    @property
    def is_rescored(self) -> bool:
        """Whether candidates are ranked again by the float vectors."""
        return self.settings["rescore"] > self.settings["k"]

    @property
    def storage(self) -> dict:
        """Bytes that the recommended search stores.

        ``code``, ``beside`` and ``vector`` are those of one vector; ``vector`` is not
        needed in memory, and 0 without re-ranking. ``decoder`` is for all vectors.
        """
        best, code = self.choice, self.recommended.code_bytes
        vector = self.settings["float_bytes_per_vector"]
        return {
            "code": code,
            "beside": best.n_bytes - code,
            "vector": vector if self.is_rescored else 0,
            "decoder": best.decoder_bytes,
        }

    @property
    def keeps_vectors(self) -> bool:
        """Whether an index can rank candidates by the vectors, which may not be sparse.

        Where it cannot, it finds the candidates alone, `rescore` of them.
        """
        return self.is_rescored and not self.settings["sparse"]

    @property
    def usage(self) -> str:
        """Python code of the recommended search, to be fitted to all vectors.

        Of sparse vectors it finds the candidates that are to be ranked again.
        """
        return self.usage_of()

    def usage_of(self, encoder=None, decoder=None) -> str:
        """Return `usage`; `encoder` and `decoder` stand for those that it would fit."""
        settings = self.settings
        k, metric, rescore = (settings[key] for key in ("k", "metric", "rescore"))
        options = "" if metric == "euclidean" else f", metric={metric!r}"
        count = f"{rescore if self.is_rescored else k}"
        if self.keeps_vectors:
            count = f"{k}, n_candidates={rescore}"
        if self.search == "hamming" and not self.keeps_vectors:
            parts = f"HammingNeighbors({count})"
        else:
            parts = f"AsymmetricNeighbors({count}{options})"
            if self.decoder is not None:
                parts += f", decoder={decoder or repr(self.decoder)}"
            parts += ", keep_vectors=True" * self.keeps_vectors
        return f"HashedNeighbors({encoder or repr(self.encoder)}, {parts})"

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return all but encoder and decoder as plain data, ready for JSON."""
        best = self.choice
        return {
            "settings": self.settings,
            "rows": [vars(row) for row in self.rows],
            "recommended": {
                "method": best.row.method,
                "n_bits": best.row.n_bits,
                "search": best.search,
                "bytes_per_vector": best.n_bytes,
                "decoder_bytes": best.decoder_bytes,
                "recall": best.recall,
                "recall_error": best.error,
                "reason": self.reason,
                "storage": self.storage,
                "usage": self.usage,
            },
            "alternatives": self.alternatives,
            "skipped": self.skipped,
        }

    @classmethod
    def from_rows(cls, rows, fitted, settings, skipped):
        """Choose among the rows that are fitted here, and compare with the others.

        fitted : dict of tuples (encoder, decoder), by the place of their row
        """
        own = [rows[place] for place in fitted]
        peers = [row for place, row in enumerate(rows) if place not in fitted]
        best, reason, alternatives = recommend(own, peers, settings)
        pair = fitted[next(n for n in fitted if rows[n] is best.row)]
        return cls(rows, best, reason, *pair, settings, skipped, alternatives)

    def to_html(
        self, *, image_shape=None, texts=None, name=None, vectors=None, folder=None
    ):
        """Return a page with the whole result, as the text of one HTML file.

        It needs no network and can be read without JavaScript, which sorts the table.
        Charts and pictures need matplotlib; without it the page says so.

        Parameters
        ----------
        image_shape : tuple of int, default=None
            Height and width where rows are grey images, and 3 before or behind them
            where they are coloured: examples are then shown as pictures.
        texts : sequence or mapping of str, default=None
            The text of each row, by its position in the vectors: examples are then
            shown as texts.
        name : str, default=None
            The name of the vectors; by default `vectors`.
        vectors : str, default=None
            The file of the vectors, for the commands on the page.
        folder : str, default=None
            The folder of the saved ``encoder`` or ``decoder``, for the commands on the
            page; by default these fit it again.

        Returns
        -------
        html : str

        Raises
        ------
        ValueError
            If `image_shape` is none, or rows have not as many numbers as such an image;
            if `texts` has no text of a row that is shown.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import audit
        >>> X, _ = load_digits(return_X_y=True)
        >>> result = audit(X, n_bits=[16], methods=["pca"])
        >>> html = result.to_html(image_shape=(8, 8))
        >>> html.count("<img") > 10
        True
        """
        return whole_page(self, image_shape, texts, name, vectors, folder)

    def _repr_html_(self) -> str:
        return fragment(self)

    def plot(self, ax=None):
        """Draw recall against bytes per vector in memory, and the recommendation.

        A colour is a search, by Hamming distance or uncompressed queries, and a line is
        solid after re-ranking and dotted without. A strong line is the best method of
        each length; thin ones are the others. Marks are other engines. The legend
        stands right of the axes, where it hides no curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure. Make a figure with
            ``layout="constrained"``, so that it leaves room for the legend.

        Returns
        -------
        ax : matplotlib Axes
        """
        return draw_recall(self, ax)
