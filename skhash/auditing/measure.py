"""One code of an audit: made, timed, and scored for its search."""

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial

import numpy as np
from sklearn.frozen import FrozenEstimator

from skhash.auditing.timing import seconds_of, timed
from skhash.codes import packed_width
from skhash.metrics import mean_average_precision_score, neighbor_recall_score
from skhash.neighbors import HammingNeighbors, HashedNeighbors

# Numbers of candidates to try, in multiples of k, until the target is reached.
OVERSAMPLING = 1, 3, 10, 30
# Few rows to fit before, so that imports and compilation are not timed.
FEW = np.random.RandomState(0).standard_normal((128, 8))


@dataclass(frozen=True)
class AuditRow:
    """Measurements of one search, of one method at one code length.

    ``search`` is "hamming", for Hamming distance between codes, or "asymmetric", for
    uncompressed queries that are compared with decoded codes. Codes of `sign` are
    searched in both ways, and have two rows.

    `recall` is the share of the true neighbours that are found, averaged over the
    queries; for Hamming distance, in expectation over the order of ties. Every code is
    compared, so recall is lost only to compression. `recall_reranked` is the share
    among the first `rerank` codes, which re-ranking by their vectors finds. Both have a
    standard error. `depth` is the number of codes to re-rank for the target recall: the
    least of k, 3 k, 10 k and 30 k that suffices for k neighbours, or None.

    The search holds ``bytes_per_vector`` in memory: the ``code_bytes`` and, for most
    searches by uncompressed queries, a byte or more stored with the code.
    ``codebook_bytes`` is the one-off cost of the decoder.

    Times are wall-clock times on this machine. ``fit_seconds`` is None for codes that
    were truncated from longer ones; the row of the longest has the time of the fit.
    Speeds are per second, after a first run that is not timed, and the fastest of
    several runs if these are short; None if the search was not timed.
    ``mean_average_precision`` is measured with labels.
    """

    method: str
    n_bits: int
    code_bytes: int
    bytes_per_vector: int
    codebook_bytes: int
    _: KW_ONLY
    search: str
    recall: float
    recall_error: float
    recall_reranked: float
    recall_reranked_error: float
    depth: int | None
    mean_average_precision: float | None = None
    fit_seconds: float | None
    encode_per_second: float
    search_per_second: float | None = None


@dataclass(frozen=True)
class Task:
    """The task of every method: rows, true neighbours, metric, target.

    n_candidates : those that are re-ranked, or k, where none are
    """

    data: object
    truth: np.ndarray
    n_candidates: int
    metric: str
    target: float

    @property
    def cuts(self) -> list[int]:
        """Numbers of candidates whose recall is measured; first k, then all."""
        k, most = self.truth.shape[1], self.data.database.shape[0]
        return [k, self.n_candidates, *(min(k * times, most) for times in OVERSAMPLING)]


@lru_cache
def warm_up(kind, **params) -> None:
    """Import and compile what fits of this class need, once a process."""
    kind(1, **params).fit(FEW)


def timed_fit(encoder, X) -> float:
    """Fit and return the seconds."""
    warm_up(type(encoder), device=encoder.device)
    return seconds_of(lambda: encoder.fit(X))[1]


def measure_encoder(encoder, method, fit_seconds, task) -> AuditRow:
    """Return the measurements of a fitted encoder."""
    data = task.data
    packed, encode_seconds = timed(lambda: encoder.transform_packed(data.database))
    n_bytes = packed_width(encoder.n_bits)
    return AuditRow(
        method=method,
        n_bits=encoder.n_bits,
        code_bytes=n_bytes,
        bytes_per_vector=n_bytes,
        codebook_bytes=0,
        fit_seconds=fit_seconds,
        encode_per_second=len(packed) / encode_seconds,
        **by_hamming(encoder.transform_packed(data.queries), packed, task),
    )


def measure_bytes(quantizer, task) -> AuditRow:
    """Return the measurements of a quantizer, which is fitted here."""
    data, n_bytes = task.data, quantizer.n_bytes
    warm_up(HashedNeighbors, metric=task.metric)
    _, fit_seconds = seconds_of(lambda: quantizer.fit(data.train))
    search = code_search(quantizer, task.metric, task.n_candidates)
    _, encode_seconds = seconds_of(lambda: search.fit(data.database))
    find = partial(search.kneighbors, data.queries, return_distance=False)
    _, seconds = timed(find)
    store = search.index_._store
    return AuditRow(
        method="bytes",
        n_bits=quantizer.n_bits_,
        code_bytes=n_bytes,
        bytes_per_vector=n_bytes + store.bytes_beside,
        codebook_bytes=store.decoder.nbytes,
        fit_seconds=fit_seconds,
        encode_per_second=data.database.shape[0] / encode_seconds,
        search_per_second=data.queries.shape[0] / seconds,
        **found_recalls(find(n_neighbors=max(task.cuts)), task),
    )


def code_search(encoder, metric, n_neighbors) -> HashedNeighbors:
    """Return a search by the codes of a fitted encoder or quantizer alone."""
    options = {"metric": metric, "n_neighbors": n_neighbors}
    return HashedNeighbors(FrozenEstimator(encoder), **options)


def by_hamming(queries, database, task) -> dict:
    """Return speed, recalls and mAP of packed codes, searched by Hamming distance."""
    index = HammingNeighbors(task.n_candidates, packed=True).fit(database)
    _, seconds = timed(lambda: index.kneighbors(queries))
    # True neighbours among the first candidates are those that ranking these by float
    # distance brings to the top.
    options = {"n_retrieved": task.cuts, "packed": True, "average": None}
    shares = neighbor_recall_score(queries, database, task.truth, **options)
    precision = _mean_average_precision(queries, database, task.data.labels)
    return {
        "search": "hamming",
        "search_per_second": len(queries) / seconds,
        **_means_of(shares, task),
        "mean_average_precision": precision,
    }


def found_recalls(candidates, task) -> dict:
    """Return the recalls and the depth of a search by uncompressed queries.

    candidates : of each query, the nearest first, as many as the largest cut
    """
    shares = [
        [np.isin(near, positions[:n]).mean() for n in task.cuts]
        for near, positions in zip(task.truth, candidates, strict=True)
    ]
    return {"search": "asymmetric", **_means_of(np.array(shares), task)}


def _means_of(shares, task) -> dict:
    """Return the recalls with standard errors, and the depth, of shares at the cuts."""
    means, errors = shares.mean(axis=0), shares.std(axis=0) / np.sqrt(len(shares))
    depths = zip(task.cuts[2:], means[2:], strict=True)
    result = {"depth": next((n for n, recall in depths if recall >= task.target), None)}
    for place, key in enumerate(("recall", "recall_reranked")):
        result |= {key: float(means[place]), f"{key}_error": float(errors[place])}
    return result


def _mean_average_precision(queries, database, labels) -> float | None:
    """Return mAP over the queries that have something relevant, or None without any."""
    if labels is None:
        return None
    precisions = mean_average_precision_score(
        queries, database, *labels, packed=True, average=None
    )
    defined = precisions[~np.isnan(precisions)]
    return float(defined.mean()) if len(defined) else None
