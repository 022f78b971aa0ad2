"""What binary codes would cost on the user's own vectors, measured before they commit.

`audit` is the measurement behind the command ``skhash audit``: methods times lengths,
each fitted on one part of the data and searched with held-out queries, into one result
object.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state

from skhash.codes import packed_width, unpack_bits
from skhash.linear import ITQHash, PCAHash, RandomHyperplaneHash
from skhash.metrics import (
    mean_average_precision_score,
    neighbor_recall_score,
    true_neighbors,
)
from skhash.neighbors import HammingNeighbors
from skhash.neural import SGHEncoder

__all__ = ["AuditResult", "audit"]

METHODS = {
    "sgh": SGHEncoder,
    "itq": ITQHash,
    "pca": PCAHash,
    "lsh": RandomHyperplaneHash,
}
METRICS = ("euclidean", "cosine", "inner_product")
# Rows that statistics of the bits are taken from, and rows that encoders are fitted on:
# more would only cost time.
MAX_STATISTICS_ROWS = 20_000
MAX_TRAIN_ROWS = 100_000


@dataclass(frozen=True)
class AuditRow:
    """One method at one length, measured.

    Times are wall-clock on this machine. Recalls are shares of the `k` true neighbours,
    in expectation over the order of ties, averaged over the queries.
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


@dataclass(frozen=True)
class AuditResult:
    """The measurements of an audit, and the code that they recommend.

    Attributes
    ----------
    rows : list of AuditRow
        One a method and length, in the order in which they were asked for.
    recommended : AuditRow
        The smallest code that reaches the target; the best one where none does.
    reason : str
        Why that one, in a sentence.
    encoder : object
        The recommended encoder, fitted.
    settings : dict
        What was measured: sizes, metric, `k`, `rescore`, target, seed.
    skipped : list of str
        What was asked for and could not be measured, with the reason.
    """

    rows: list[AuditRow]
    recommended: AuditRow
    reason: str
    encoder: object = field(repr=False)
    settings: dict
    skipped: list[str]

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return all but the encoder as plain data, ready for JSON."""
        return {
            "settings": self.settings,
            "rows": [vars(row) for row in self.rows],
            "recommended": {
                "method": self.recommended.method,
                "n_bits": self.recommended.n_bits,
                "reason": self.reason,
            },
            "skipped": self.skipped,
        }

    def plot(self, ax=None):
        """Draw recall against bytes per vector, one curve a method.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """
        from skhash._audit_plot import plot_audit

        return plot_audit(self, ax)


def audit(
    X,
    y=None,
    *,
    n_bits: Sequence[int] = (16, 32, 64, 128),
    methods: Sequence[str] = ("sgh", "itq", "pca", "lsh"),
    metric: str = "euclidean",
    k: int = 10,
    rescore: int = 100,
    sample: int | None = None,
    n_queries: int = 1000,
    target_recall: float = 0.9,
    device: str = "auto",
    random_state=0,
    progress: Callable[[str], None] | None = None,
) -> AuditResult:
    """Measure what binary codes of these vectors cost and keep.

    Queries are drawn at random and held out. The other rows are the database, and what
    the encoders are fitted on (at most 100 000 of them). Each method at each length is
    fitted, timed, and scored by the share of the `k` true float neighbours that a
    search by Hamming distance returns first (``recall``), and that are among its first
    `rescore` candidates (``recall_rescored``), which is the recall after these
    candidates are ranked again by the float vectors.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Real vectors.
    y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
        Labels; with them the mean average precision is measured too.
    n_bits : sequence of int, default=(16, 32, 64, 128)
        Lengths to try.
    methods : sequence of {"sgh", "itq", "pca", "lsh"}, default=all
        Methods to try: `SGHEncoder`, `ITQHash`, `PCAHash`, `RandomHyperplaneHash`, with
        their defaults.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        What makes a true neighbour. For "cosine" the encoders normalise the rows.
    k : int, default=10
        Number of true neighbours to find.
    rescore : int, default=100
        Number of candidates to rank again by the float vectors.
    sample : int, default=None
        Use so many random rows, queries included; by default all. Recall falls as the
        database grows, so a small sample flatters.
    n_queries : int, default=1000
        Number of queries, at most a fifth of the rows.
    target_recall : float, default=0.9
        The recall after re-scoring that the recommended code has to reach.
    device : str, default="auto"
        Where to fit, encode and find true neighbours.
    random_state : int, RandomState instance or None, default=0
        Draws sample and queries, and seeds the encoders.
    progress : callable, default=None
        Called with a line of text before each step.

    Returns
    -------
    result : AuditResult
        With ``rows``, ``recommended``, ``reason``, ``encoder``, ``to_frame()`` and
        ``plot()``.

    Raises
    ------
    ValueError
        If an argument is out of its range, the rows are too few, or no method can make
        any of the lengths.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import audit
    >>> X, y = load_digits(return_X_y=True)
    >>> result = audit(X, y, n_bits=[16, 32], methods=["itq", "lsh"])
    >>> [(row.method, row.n_bits) for row in result.rows]
    [('itq', 16), ('itq', 32), ('lsh', 16), ('lsh', 32)]
    >>> result.recommended.method
    'itq'
    """
    _check_choices(methods, n_bits, metric, k, rescore, target_recall)
    report = progress or (lambda line: None)
    random_state = check_random_state(random_state)
    data = _split(X, y, sample, n_queries, rescore, random_state)
    report(f"true neighbours of {data.queries.shape[0]:,} queries")
    truth = true_neighbors(data.queries, data.database, k, metric=metric, device=device)
    seed = int(random_state.randint(np.iinfo(np.int32).max))
    rows, encoders, skipped = [], {}, []
    for method in methods:
        for bits in n_bits:
            report(f"{method} at {bits} bits")
            encoder = METHODS[method](
                bits, normalize=metric == "cosine", device=device, random_state=seed
            )
            limit = min(data.train.shape)
            if method in ("itq", "pca") and bits > limit:
                skipped.append(
                    f"{method} at {bits} bits: it makes at most {limit} bits"
                )
                continue
            row = _measure(encoder, method, bits, data, truth, k, rescore)
            rows.append(row)
            encoders[method, bits] = encoder
    if not rows:
        raise ValueError(f"Nothing could be measured: {'; '.join(skipped)}.")
    best, reason = _recommend(rows, k, rescore, target_recall)
    settings = {
        "n_database": data.database.shape[0],
        "n_queries": data.queries.shape[0],
        "n_train": data.train.shape[0],
        "n_features": data.database.shape[1],
        "float_bytes_per_vector": data.float_bytes,
        "metric": metric,
        "k": k,
        "rescore": rescore,
        "target_recall": target_recall,
        "seed": seed,
    }
    encoder = encoders[best.method, best.n_bits]
    return AuditResult(rows, best, reason, encoder, settings, skipped)


@dataclass(frozen=True)
class _Split:
    queries: object
    database: object
    train: object
    query_labels: np.ndarray | None
    database_labels: np.ndarray | None
    float_bytes: int


def _check_choices(methods, n_bits, metric, k, rescore, target_recall):
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not len(methods):
        raise ValueError(f"methods={list(methods)}: use some of {', '.join(METHODS)}.")
    if not len(n_bits) or min(n_bits) < 1:
        raise ValueError(f"n_bits={list(n_bits)}: lengths must be 1 or more.")
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(METRICS)}.")
    if k < 1 or rescore < k:
        raise ValueError(f"It takes 1 <= k <= rescore, got {k=}, {rescore=}.")
    if not 0 < target_recall <= 1:
        raise ValueError(f"target_recall={target_recall} is not in (0, 1].")


def _split(X, y, sample, n_queries, rescore, random_state) -> _Split:
    """Draw rows, and part them into queries and database; only these are read."""
    if not sparse.issparse(X) and not isinstance(X, np.ndarray):
        X = check_array(X)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}.")
    if y is not None and len(y) != X.shape[0]:
        raise ValueError(f"{X.shape[0]} vectors, but {len(y)} labels.")
    n_rows = X.shape[0] if sample is None else min(sample, X.shape[0])
    n_queries = min(n_queries, n_rows // 5)
    if n_queries < 1 or n_rows - n_queries < rescore:
        raise ValueError(
            f"{n_rows} rows are too few: it takes {rescore} for a database of at least "
            "`rescore`, and a fifth of the rows for queries. Lower rescore and k."
        )
    order = random_state.permutation(X.shape[0])[:n_rows]
    # In file order: a memory map is read from front to back.
    query_rows, database_rows = np.sort(order[:n_queries]), np.sort(order[n_queries:])
    database = check_array(
        X[database_rows], accept_sparse="csr", dtype=[np.float32, np.float64]
    )
    train_rows = random_state.permutation(database.shape[0])[:MAX_TRAIN_ROWS]
    is_all = len(train_rows) == database.shape[0]
    labels = None if y is None else np.asarray(y)
    return _Split(
        queries=check_array(
            X[query_rows], accept_sparse="csr", dtype=[np.float32, np.float64]
        ),
        database=database,
        train=database if is_all else database[np.sort(train_rows)],
        query_labels=None if y is None else labels[query_rows],
        database_labels=None if y is None else labels[database_rows],
        float_bytes=4 * X.shape[1],
    )


def _measure(encoder, method, n_bits, data, truth, k, rescore) -> AuditRow:
    # Imports and compilation happen once in a process and are no part of a fit.
    clone(encoder).set_params(n_bits=1).fit(data.train[:100])
    fit_seconds = _seconds(lambda: encoder.fit(data.train))
    database, encode_seconds = _timed(lambda: encoder.transform_packed(data.database))
    queries = encoder.transform_packed(data.queries)
    index = HammingNeighbors(n_neighbors=rescore, packed=True).fit(database)
    index.kneighbors(queries[:1])
    search_seconds = _seconds(lambda: index.kneighbors(queries))
    recall, rescored = neighbor_recall_score(
        queries, database, truth, n_retrieved=[k, rescore], packed=True, average=None
    ).T
    mean_average_precision = None
    if data.query_labels is not None:
        mean_average_precision = mean_average_precision_score(
            queries, database, data.query_labels, data.database_labels, packed=True
        )
    balance, correlation = _bit_statistics(
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
        mean_average_precision=mean_average_precision,
        bit_balance=balance,
        bit_correlation=correlation,
    )


def _bit_statistics(bits) -> tuple[float, float]:
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


def _recommend(rows, k, rescore, target) -> tuple[AuditRow, str]:
    """Take the smallest code that reaches the target, and the best of its length."""
    reaching = [row for row in rows if row.recall_rescored >= target]
    if reaching:
        best = min(reaching, key=lambda row: (row.n_bits, -row.recall_rescored))
        reason = (
            f"the smallest code that keeps {target:.0%} of the {k} true neighbours "
            f"among {rescore} candidates"
        )
        rivals = [row for row in reaching if row.n_bits == best.n_bits and row != best]
        if rivals:
            second = max(rivals, key=lambda row: row.recall_rescored)
            reason += (
                f", and ahead of {second.method} at its length "
                f"({best.recall_rescored:.3f} to {second.recall_rescored:.3f})"
            )
        if best.recall_rescored - 2 * best.recall_rescored_error < target:
            reason += "; it is within two standard errors of the target"
        return best, reason
    best = max(rows, key=lambda row: row.recall_rescored)
    return best, (
        f"no code reaches the target of {target:.0%}; this one comes nearest, with "
        f"{best.recall_rescored:.3f}. Try more bits or a larger rescore than {rescore}"
    )


def _timed(call):
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def _seconds(call) -> float:
    return _timed(call)[1]
