"""The result of an audit: data, recommendation, texts and charts."""

from dataclasses import dataclass
from typing import Any, Self

from skhash.auditing.chart import draw_recall
from skhash.auditing.choices import SEARCHES, Choice, name_of, recommend
from skhash.auditing.measure import AuditRow
from skhash.auditing.page import fragment, whole_page
from skhash.auditing.texts import quoted


@dataclass(frozen=True, repr=False)
class AuditResult:
    """The measurements of an audit, and the recommended code and search.

    Attributes
    ----------
    rows : list of AuditRow
        One for each method, length and search, in the given order.
    recommended : AuditRow
        The recommended method, length and search: that of least memory, for the given
        vectors, that reaches the target recall. Of equal memory, or if none reaches it,
        it is that of best recall.
    choice : Choice
        This row, with the ``recall`` that it was chosen for and the standard ``error``
        of that, and ``memory(n_vectors)``, bytes.
    reason : str
        The reason, in a sentence.
    encoder : estimator
        The recommended encoder or quantizer, fitted.
    settings : dict
        Settings of the audit: sizes, `n_neighbors`, `rerank`, `metric`, target, random
        state; and the date, the processor and the cores.
    skipped : list of str
        Methods and lengths that could not be measured, with the reason.
    alternatives : list of str
        Other choices: for more vectors, without re-ranking, and of other engines.
    evidence : object or None
        Scores of true neighbours and of random pairs by the recommended search, and
        examples of queries, for `to_html`.
    growth : object or None
        With `n_vectors`, the ``recalls`` that were measured among growing ``sizes`` of
        vectors that were not fitted, and the recall ``expected`` among `n_vectors`.
    """

    rows: list[AuditRow]
    choice: Choice
    reason: str
    encoder: object
    settings: dict
    skipped: list[str]
    alternatives: list[str]
    evidence: object = None
    growth: object = None

    def __repr__(self) -> str:
        best = self.recommended
        return (
            f"<{type(self).__name__}: {len(self.rows)} searches measured, recommended "
            f"{name_of(best.method, best.n_bits)} by {SEARCHES[best.search]}>"
        )

    @property
    def recommended(self) -> AuditRow:
        return self.choice.row

    @property
    def is_reranked(self) -> bool:
        """Whether candidates are compared by the vectors."""
        return self.settings["rerank"] is not None

    @property
    def storage(self) -> dict:
        """Bytes that the recommended search stores.

        ``code``, ``beside`` and ``vector`` are those of one vector; ``vector`` is not
        needed in memory, and 0 without re-ranking. ``codebook`` is for all vectors.
        """
        best, vector = self.recommended, self.settings["float_bytes_per_vector"]
        return {
            "code": best.code_bytes,
            "beside": best.bytes_per_vector - best.code_bytes,
            "vector": vector if self.is_reranked else 0,
            "codebook": best.codebook_bytes,
        }

    @property
    def keeps_vectors(self) -> bool:
        """Whether a search can re-rank candidates by the vectors, which must be dense.

        Where it cannot, it finds the candidates alone, `rerank` of them.
        """
        return self.is_reranked and not self.settings["sparse"]

    @property
    def usage(self) -> str:
        """Python code of the recommended search, fitted to all vectors ``X``.

        Of sparse vectors it finds the candidates that are to be re-ranked.
        """
        return self.usage_of()

    def usage_of(self, X="X", vectors="True", encoder=None) -> str:
        """Return `usage`, with other Python code for what is given."""
        settings, best = self.settings, self.recommended
        k, rerank, metric = (settings[n] for n in ("n_neighbors", "rerank", "metric"))
        count = k if self.keeps_vectors or rerank is None else rerank
        is_bytes = best.method == "bytes"
        code = f"{best.code_bytes}" if is_bytes else _code_of(self.encoder)
        options = [encoder or code, f"n_neighbors={count}"]
        if metric != "euclidean":
            options.append(f"metric={quoted(metric)}")
        if self.keeps_vectors:
            options += [f"rerank={rerank}", f"vectors={vectors}"]
        return f"HashedNeighbors({', '.join(options)}).fit({X})"

    @property
    def imports(self) -> list[str]:
        """Python code that imports what `usage` names."""
        lines, maker = ["from skhash import HashedNeighbors"], type(self.encoder)
        if self.recommended.method != "bytes":
            room = ".".join(maker.__module__.split(".")[:2])
            lines.append(f"from {room} import {maker.__name__}")
        return lines

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return all but the encoder as plain data, ready for JSON."""
        best = vars(self.recommended)
        advice = {"reason": self.reason, "storage": self.storage, "usage": self.usage}
        return {
            "settings": self.settings,
            "rows": [vars(row) for row in self.rows],
            "recommended": best | advice,
            "alternatives": self.alternatives,
            "growth": self.growth
            and vars(self.growth) | {"expected": self.growth.expected},
            "skipped": self.skipped,
        }

    @classmethod
    def from_rows(cls, rows, fitted, settings, skipped) -> Self:
        """Choose among the rows that are fitted here, and compare with the others.

        fitted : dict of encoders, by the place of their row
        """
        measured = [rows[place] for place in fitted]
        peers = [row for place, row in enumerate(rows) if place not in fitted]
        best, reason, alternatives = recommend(measured, peers, settings)
        encoder = fitted[next(n for n in fitted if rows[n] is best.row)]
        return cls(rows, best, reason, encoder, settings, skipped, alternatives)

    def to_html(
        self,
        *,
        image_shape=None,
        texts=None,
        name=None,
        vectors=None,
        folder=None,
        options=None,
    ) -> str:
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
            The folder of the saved ``encoder``, for the commands on the page; by
            default these fit it again.
        options : dict, default=None
            Those of `skhash.datasets.open_vectors` that the file needs.

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
        options = options or {}
        return whole_page(self, image_shape, texts, name, vectors, options, folder)

    def _repr_html_(self) -> str:
        return fragment(self)

    def plot(self, ax=None) -> Any:
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


def _code_of(encoder) -> str:
    """Return the Python code that makes an encoder, in a line.

    Rows need no `normalize`, as a search by cosine has them of unit length.
    """
    defaults = type(encoder)().get_params()
    params = encoder.get_params()
    params = {n: v for n, v in params.items() if n not in ("n_bits", "normalize")}
    words = [f"{n}={v!r}" for n, v in params.items() if v != defaults[n]]
    return f"{type(encoder).__name__}({', '.join([f'{encoder.n_bits}', *words])})"
