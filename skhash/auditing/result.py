"""The result of an audit: data, recommendation, texts and charts."""

from dataclasses import dataclass
from typing import Any, Self

from skhash.auditing.chart import draw_recall
from skhash.auditing.choices import SEARCHES, Choice, name_in, recommend
from skhash.auditing.measure import AuditRow
from skhash.auditing.page import fragment, whole_page
from skhash.auditing.texts import quoted
from skhash.linear import RandomHyperplaneHash


@dataclass(frozen=True, repr=False)
class AuditResult:
    """The measurements of an audit, and the search that it recommends.

    Attributes
    ----------
    rows : list of AuditRow
        Measurements of each method, length and search, in the order given to `audit`.
    recommended : AuditRow
        Row of the recommended method, length and search: among those that reach the
        target recall, the one that needs the least memory for the given vectors, and
        among equals the one with the best recall. If none reaches the target, the one
        with the best recall.
    choice : Choice
        The recommended row, with the ``recall`` for which it was chosen, the standard
        ``error`` of that recall, and ``memory(n_vectors)`` in bytes.
    reason : str
        Why it is recommended, as part of a sentence.
    encoder : estimator
        The recommended encoder or quantizer, fitted.
    settings : dict
        Settings of the audit: sizes, `n_neighbors`, `rerank`, `metric`, target recall,
        random state, date, processor and number of cores.
    skipped : list of str
        Methods and lengths that could not be measured, with the reasons.
    alternatives : list of str
        Sentences on what to choose for more vectors or without re-ranking, and on
        whether another engine does better.
    evidence : object or None
        Scores of true neighbours and of random pairs with the recommended search, and
        example queries, for `to_html`.
    growth : object or None
        With `n_vectors`, the ``recalls`` of the recommended method among vectors that
        were not fitted, for growing ``sizes``, and the recall ``expected`` among
        `n_vectors`. Otherwise None.
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
        return (
            f"<{type(self).__name__}: {len(self.rows)} searches measured, recommended "
            f"{name_in(self)} by {SEARCHES[self.recommended.search]}>"
        )

    @property
    def recommended(self) -> AuditRow:
        """Measurements of the recommended search."""
        return self.choice.row

    @property
    def is_reranked(self) -> bool:
        """Whether candidates are re-ranked by their vectors."""
        return self.settings["rerank"] is not None

    @property
    def storage(self) -> dict:
        """Bytes that the recommended search stores.

        ``code`` and ``beside`` (numbers stored with the code) are bytes per vector. So
        is ``vector``, which may stay on disk and is 0 without re-ranking. ``codebook``
        is a one-off cost for all vectors.
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
        """Whether the search re-ranks candidates by their vectors, which must be dense.

        If not, the search of `usage` returns the `rerank` candidates themselves.
        """
        return self.is_reranked and not self.settings["sparse"]

    @property
    def usage(self) -> str:
        """Python code that fits the recommended search to all vectors ``X``.

        For sparse vectors, the search returns the candidates, which you can re-rank.
        """
        return self.usage_of()

    def usage_of(self, X="X", vectors="True", encoder=None) -> str:
        """Return `usage`, with other Python code for its arguments."""
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
        """Lines of Python code that import what `usage` needs."""
        name, line = type(self.encoder).__name__, "from skhash import HashedNeighbors"
        if self.recommended.method == "bytes":
            return [line]
        if isinstance(self.encoder, RandomHyperplaneHash):
            return [line, f"from skhash.linear import {name}"]
        return [f"{line}, {name}"]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame, with one column per measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return everything except the encoder as plain data, ready for JSON."""
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
    def from_rows(cls, rows, fitted, settings, skipped, needed=None) -> Self:
        """Build a result from measured rows.

        It recommends one of the methods fitted by skhash, and compares it with the
        others. `skhash.audit` calls it.

        Parameters
        ----------
        rows : list of AuditRow
            All measured searches.
        fitted : dict of int to estimator
            Fitted encoders and quantizers, by the position of their row in `rows`.
        settings : dict
            As in the attribute `settings`.
        skipped : list of str
            As in the attribute `skipped`.
        needed : float, default=None
            The recall that the recommended search must reach; by default the target.

        Returns
        -------
        result : AuditResult
            The result.
        """
        measured = [rows[place] for place in fitted]
        peers = [row for place, row in enumerate(rows) if place not in fitted]
        needed = needed or settings["target_recall"]
        best, reason, alternatives = recommend(measured, peers, settings, needed)
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
        """Return a report of the whole result, as the text of a single HTML file.

        The page needs no network, and JavaScript only to sort the table. Charts and
        pictures need matplotlib; without it, the page says so.

        Parameters
        ----------
        image_shape : tuple of int, default=None
            Shape of the images, if rows are images; examples are then shown as
            pictures. Give (height, width) for grey images, and add 3 as the first or
            last number for colour.
        texts : sequence or mapping of str, default=None
            Text of each row, by position; examples are then shown as texts.
        name : str, default=None
            Name of the vectors; by default `vectors`.
        vectors : str, default=None
            Path of the file of vectors, for the commands with `folder` on the page.
        folder : str, default=None
            Directory of the saved ``encoder``, for the commands on the page. By default
            they fit it again.
        options : dict, default=None
            Options of `skhash.datasets.open_vectors` that the file needs.

        Returns
        -------
        html : str
            The page.

        Raises
        ------
        ValueError
            If `image_shape` is not the shape of an image with as many numbers as a row,
            or if `texts` has no text for a row that is shown.

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
        """Plot recall against bytes per vector in memory, and mark the recommendation.

        Colours show the kind of search: by Hamming distance or with uncompressed
        queries. Lines are solid with re-ranking and dotted without. The thick line is
        the best method at each length; thin lines are the others. Markers are other
        engines. The legend is to the right of the axes, where it hides no curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure. Make your own figure with
            ``layout="constrained"``, which leaves room for the legend.

        Returns
        -------
        ax : matplotlib Axes
            The axes, with the plot.
        """
        return draw_recall(self, ax)


def _code_of(encoder) -> str:
    """Return the Python code that makes an encoder, in a line.

    Rows need no `normalize`, as a search by cosine has them of unit length. Codes that
    were truncated need none of the other lengths.
    """
    left_out = "n_bits", "normalize", "nested"
    defaults = type(encoder)().get_params()
    params = encoder.get_params()
    params = {n: v for n, v in params.items() if n not in left_out}
    words = [f"{n}={v!r}" for n, v in params.items() if v != defaults[n]]
    return f"{type(encoder).__name__}({', '.join([f'{encoder.n_bits}', *words])})"
