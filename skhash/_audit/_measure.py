"""One encoder of an audit: fitted, timed and scored."""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from skhash.codes import packed_width, unpack_bits
from skhash.metrics import mean_average_precision_score, neighbor_recall_score
from skhash.neighbors import HammingNeighbors

# Rows that statistics of the bits are taken from: more would only cost time.
MAX_STATISTICS_ROWS = 20_000
# What takes less is timed again, until so much has passed.
TIMED_SECONDS = 0.1


@dataclass(frozen=True)
class AuditRow:
    """One method at one length, measured.

    Times are wall-clock on this machine; encoding and searching are per second, the
    fastest of some runs where one is short. Recalls are shares of the `k` true
    neighbours, in expectation over the order of ties, averaged over the queries.
    """

    method: str
    n_bits: int
    bytes_per_vector: int
    compression: float
    fit_seconds: float
    encode_per_second: float
    search_per_second: float
    recall: float
    recall_rescored: float
    recall_rescored_error: float
    mean_average_precision: float | None
    bit_balance: float
    bit_correlation: float


def timed_fit(encoder, X) -> float:
    """Fit and return the seconds that it took."""
    # Imports and compilation happen once in a process and are no part of a fit.
    few = np.random.RandomState(0).standard_normal((64, 8))
    clone(encoder).set_params(n_bits=1).fit(few)
    start = time.perf_counter()
    encoder.fit(X)
    return time.perf_counter() - start


def measure(encoder, method, n_bits, fit_seconds, data, truth, rescore) -> AuditRow:
    database, encode_seconds = _timed(lambda: encoder.transform_packed(data.database))
    queries = encoder.transform_packed(data.queries)
    index = HammingNeighbors(n_neighbors=rescore, packed=True).fit(database)
    index.kneighbors(queries[:1])
    _, search_seconds = _timed(lambda: index.kneighbors(queries))
    # True neighbours among the first `rescore` are those that ranking these candidates
    # by float distance brings to the top.
    recall, rescored = neighbor_recall_score(
        queries,
        database,
        truth,
        n_retrieved=[truth.shape[1], rescore],
        packed=True,
        average=None,
    ).T
    balance, correlation = bit_statistics(
        unpack_bits(database[:MAX_STATISTICS_ROWS], n_bits)
    )
    return AuditRow(
        method=method,
        n_bits=n_bits,
        bytes_per_vector=packed_width(n_bits),
        compression=data.float_bytes / packed_width(n_bits),
        fit_seconds=fit_seconds,
        encode_per_second=len(database) / encode_seconds,
        search_per_second=len(queries) / search_seconds,
        recall=float(recall.mean()),
        recall_rescored=float(rescored.mean()),
        recall_rescored_error=float(rescored.std() / np.sqrt(len(rescored))),
        mean_average_precision=_mean_average_precision(queries, database, data),
        bit_balance=balance,
        bit_correlation=correlation,
    )


def _mean_average_precision(queries, database, data) -> float | None:
    """Return mAP over the queries that have something relevant, or None without any."""
    if data.query_labels is None:
        return None
    precisions = mean_average_precision_score(
        queries,
        database,
        data.query_labels,
        data.database_labels,
        packed=True,
        average=None,
    )
    defined = precisions[~np.isnan(precisions)]
    return float(defined.mean()) if len(defined) else None


def bit_statistics(bits) -> tuple[float, float]:
    """Return balance and correlation of the bits.

    Balance is the mean over bits of the share of the rarer value, 0.5 at best.
    Correlation is the mean magnitude over pairs of bits that vary, 0 at best.
    """
    share = bits.mean(axis=0)
    balance = float(np.minimum(share, 1 - share).mean())
    varying = bits[:, (share > 0) & (share < 1)].astype(np.float32)
    n_varying = varying.shape[1]
    if n_varying < 2:
        return balance, 0.0
    correlation = np.abs(np.corrcoef(varying, rowvar=False))
    total = correlation.sum() - n_varying
    return balance, float(total / (n_varying * (n_varying - 1)))


def _timed(call):
    """Return the result of a call and its seconds: the least of some where it is short.

    A single run of a millisecond says more about what else the machine does.
    """
    start, least = time.perf_counter(), np.inf
    while True:
        before = time.perf_counter()
        result = call()
        after = time.perf_counter()
        least = min(least, after - before)
        if after - start >= TIMED_SECONDS:
            return result, least
