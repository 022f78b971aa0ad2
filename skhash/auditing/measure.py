"""One code of an audit: made, timed, and scored for its search."""

from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skhash.auditing.timing import seconds_of, timed
from skhash.codes import packed_width
from skhash.linear import LinearDecoder
from skhash.metrics import mean_average_precision_score, neighbor_recall_score
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, HashedNeighbors

# Numbers of candidates to try, in multiples of k, until the target is reached.
OVERSAMPLING = 1, 3, 10, 30
# Few rows to fit before, so that imports and compilation are not timed.
FEW = np.random.RandomState(0).standard_normal((64, 8))


@dataclass(frozen=True)
class AuditRow:
    """Measurements of one method at one length; None where a method has none.

    Recalls are shares of the `k` true neighbours, averaged over the queries, each with
    its standard error: `recall` by Hamming distance, in expectation over the order of
    ties, and `recall_asymmetric` by uncompressed queries, compared with what codes
    decode to. Those that end in ``rescored`` are found by ranking the first `rescore`
    of the same search again by the float vectors. Recall without re-ranking is the
    ceiling that quantization sets, as the search among codes is exhaustive. `depth` and
    `depth_asymmetric` are the least of k, 3 k, 10 k and 30 k candidates that have to be
    ranked again until the recall reaches the target, or None if these do not suffice.

    A search holds ``code_bytes`` of a vector in memory by Hamming distance, and by
    uncompressed queries ``bytes_per_vector``: the code, and the number beside it unless
    inner products are compared. ``codebook_bytes`` is what decodes the codes, once for
    all vectors.

    Times are wall-clock on this machine. ``fit_seconds`` is None of a code that is cut
    from a longer one, whose row has those of the only fit. Speeds are per second, after
    a first run that is not timed, and the fastest of some runs where one is short.
    """

    method: str
    n_bits: int
    code_bytes: int
    bytes_per_vector: int
    codebook_bytes: int
    _: KW_ONLY
    fit_seconds: float | None = None
    encode_per_second: float
    search_per_second: float | None = None
    asymmetric_per_second: float | None = None
    recall: float | None = None
    recall_error: float | None = None
    recall_rescored: float | None = None
    recall_rescored_error: float | None = None
    depth: int | None = None
    recall_asymmetric: float | None = None
    recall_asymmetric_error: float | None = None
    recall_asymmetric_rescored: float | None = None
    recall_asymmetric_rescored_error: float | None = None
    depth_asymmetric: int | None = None
    mean_average_precision: float | None = None


@dataclass(frozen=True)
class Task:
    """The task of every method: rows, true neighbours, candidates, metric, target."""

    data: object
    truth: np.ndarray
    rescore: int
    metric: str
    target: float

    @property
    def cuts(self) -> list[int]:
        """Numbers of candidates whose recall is measured; first k, then `rescore`."""
        k, most = self.truth.shape[1], self.data.database.shape[0]
        return [k, self.rescore, *(min(k * times, most) for times in OVERSAMPLING)]


def timed_fit(encoder, X) -> float:
    """Fit and return the seconds."""
    clone(encoder).set_params(n_bits=1).fit(FEW)
    return seconds_of(lambda: encoder.fit(X))[1]


def measure_encoder(encoder, method, fit_seconds, task) -> AuditRow:
    """Return the measurements of a fitted encoder."""
    data = task.data
    packed, encode_seconds = timed(lambda: encoder.transform_packed(data.database))
    n_bytes = packed_width(encoder.n_bits)
    return AuditRow(
        *(method, encoder.n_bits, n_bytes, n_bytes, 0),
        fit_seconds=fit_seconds,
        encode_per_second=len(packed) / encode_seconds,
        **by_hamming(encoder.transform_packed(data.queries), packed, task),
    )


def measure_decoder(encoder, task) -> tuple[AuditRow, LinearDecoder]:
    """Return the measurements of codes that start from residuals, and their decoder.

    encoder : fitted, of their length; few rows, coded in blocks of a bit, start by it
    """
    data, decoder = task.data, LinearDecoder(start="residual")
    index, few = AsymmetricNeighbors(metric=task.metric), clone(encoder)
    blocks = clone(decoder).set_params(block_bits=8)
    HashedNeighbors(few.set_params(n_bits=8), index, decoder=blocks).fit(FEW)
    codes = encoder.transform(data.train)
    _, fit_seconds = seconds_of(lambda: decoder.fit(data.train, codes))
    search = code_search(encoder, decoder, task.metric, task.rescore)
    _, encode_seconds = seconds_of(lambda: search.fit(data.database))
    find = partial(search.index_.kneighbors, data.queries, return_distance=False)
    _, seconds = timed(find)
    n_bytes = packed_width(encoder.n_bits)
    n_held = n_bytes + search.index_._store.bytes_beside
    once = decoder.codebook_.nbytes + decoder.offset_.nbytes
    row = AuditRow(
        *("residual", encoder.n_bits, n_bytes, n_held, once),
        fit_seconds=fit_seconds,
        encode_per_second=data.database.shape[0] / encode_seconds,
        asymmetric_per_second=data.queries.shape[0] / seconds,
        **found_recalls(find(n_neighbors=max(task.cuts)), task),
    )
    return row, decoder


def code_search(encoder, decoder, metric, n_neighbors):
    """Return a search by a fitted encoder, or decoder unless that is None."""
    encoder = FrozenEstimator(encoder)
    if decoder is None:
        return HashedNeighbors(encoder, HammingNeighbors(n_neighbors))
    index = AsymmetricNeighbors(n_neighbors, metric=metric)
    return HashedNeighbors(encoder, index, decoder=FrozenEstimator(decoder))


def by_hamming(queries, database, task) -> dict:
    """Return speed, recalls and mAP of packed codes, searched by Hamming distance."""
    index = HammingNeighbors(task.rescore, packed=True).fit(database)
    _, seconds = timed(lambda: index.kneighbors(queries))
    # True neighbours among the first candidates are those that ranking these by float
    # distance brings to the top.
    options = {"n_retrieved": task.cuts, "packed": True, "average": None}
    shares = neighbor_recall_score(queries, database, task.truth, **options)
    precision = _mean_average_precision(queries, database, task.data.labels)
    return {
        "search_per_second": len(queries) / seconds,
        **_means_of("", shares, task),
        "mean_average_precision": precision,
    }


def found_recalls(found, task) -> dict:
    """Return the recalls and the depth of a search by uncompressed queries.

    found : candidates of each query, the nearest first, as many as the largest cut
    """
    shares = [
        [np.isin(own, row[:n]).mean() for n in task.cuts]
        for own, row in zip(task.truth, found, strict=True)
    ]
    return _means_of("_asymmetric", np.array(shares), task)


def _means_of(search, shares, task) -> dict:
    """Return the recalls with standard errors, and the depth, of shares at the cuts."""
    means, errors = shares.mean(axis=0), shares.std(axis=0) / np.sqrt(len(shares))
    depths = zip(task.cuts[2:], means[2:], strict=True)
    depth = next((n for n, it in depths if it >= task.target), None)
    result = {f"depth{search}": depth}
    for place, key in enumerate((f"recall{search}", f"recall{search}_rescored")):
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
