"""Rows of an audit: drawn, checked, and split into queries and database.

Only the drawn rows are read, so that a memory-mapped file may be larger than memory.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite

from skhash.metrics import mean_average_precision_score
from skhash.utils.arrays import as_array, as_readable, check_array, unit_rows

# Rows to fit encoders on: more would only cost time.
MAX_TRAIN_ROWS = 100_000


@dataclass(frozen=True)
class Split:
    """Vectors of an audit: float32 or float64, dense or CSR.

    Those compared by cosine have unit length. ``query_rows`` and
    ``database_rows`` are their positions. ``labels`` are those of queries and database,
    or None without any. A vector of `X` takes ``float_bytes``, as numbers of its
    ``kind``.
    """

    queries: object
    database: object
    train: object
    labels: tuple | None
    query_rows: np.ndarray
    database_rows: np.ndarray
    n_rows: int
    float_bytes: int
    kind: str


def split_rows(X, y, metric, sample, n_queries, n_candidates, random_state) -> Split:
    """Draw rows from `as_rows`, and split them into queries and database.

    `sample` is the number of rows, or None for all; a search has `n_candidates`.
    """
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}.")
    n_all = X.shape[0]
    if y is not None:
        y = y.tocsr() if sparse.issparse(y) else as_array(y)
        if y.shape[0] != n_all:
            raise ValueError(
                f"X has {n_all} rows, but y has {y.shape[0]}; give one label per row."
            )
    n_rows = n_all if sample is None else min(sample, n_all)
    n_queries = _count_queries(n_rows, n_queries, n_candidates)
    order = random_state.permutation(n_all)[:n_rows]
    # In file order: a memory map is read from front to back.
    query_rows, database_rows = np.sort(order[:n_queries]), np.sort(order[n_queries:])
    queries, database = read_rows(X, query_rows), read_rows(X, database_rows)
    size = _size_of(X, database)
    if metric == "cosine":
        queries, database = unit_rows(queries), unit_rows(database)
    labels = None if y is None else (y[query_rows], y[database_rows])
    if labels:
        _check_labels(*labels)
    train = database
    if database.shape[0] > MAX_TRAIN_ROWS:
        drawn = random_state.permutation(database.shape[0])[:MAX_TRAIN_ROWS]
        train = database[np.sort(drawn)]
    rows = query_rows, database_rows
    return Split(queries, database, train, labels, *rows, n_all, *size)


def read_rows(X, rows):
    """Return finite rows of `X` as float32, or as float64 if `X` is that.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Any numbers; may be memory-mapped.
    rows : slice or ndarray of int
        Which ones.

    Raises
    ------
    ValueError
        If a value is NaN or infinite; the message names its row in `X`.
    """
    # None of the other rows is touched.
    options = {"dtype": [np.float32, np.float64], "ensure_all_finite": False}
    taken = check_array(X[rows], accept_sparse="csr", **options)
    try:
        assert_all_finite(taken)
    except ValueError:
        first = _first_bad_row(taken)
        row = np.arange(X.shape[0])[rows][first]
        raise ValueError(f"Row {row} (from 0) holds NaN or infinity.") from None
    return taken


def as_rows(X):
    """Return an array whose rows can be indexed, without reading values if possible."""
    if sparse.issparse(X):
        return X.tocsr()
    if isinstance(X, np.ndarray):
        return as_readable(X)
    return check_array(X, ensure_all_finite=False)


def _count_queries(n_rows, n_queries, n_candidates) -> int:
    n_queries = min(n_queries, n_rows // 5)
    if n_queries < 1:
        raise ValueError(
            f"Got {n_rows} rows; at least 5 are needed, as one fifth become queries."
        )
    if n_rows - n_queries < n_candidates:
        raise ValueError(
            f"{n_rows} rows are too few: {n_queries} become queries, and the other "
            f"{n_rows - n_queries} are fewer than the {n_candidates} that a search "
            "must find. Lower rerank or n_neighbors, or use more rows."
        )
    return n_queries


def _check_labels(query_labels, database_labels) -> None:
    """Check labels as the metric does, before minutes are spent on encoders."""
    labels = query_labels, database_labels
    codes = [np.zeros((rows.shape[0], 1), np.uint8) for rows in labels]
    mean_average_precision_score(*codes, *labels, packed=True, average=None)


def _first_bad_row(X) -> int:
    if sparse.issparse(X):
        position = np.flatnonzero(~np.isfinite(X.data))[0]
        return int(np.searchsorted(X.indptr, position, side="right")) - 1
    return int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])


def _size_of(X, drawn) -> tuple[int, str]:
    """Return the bytes of a vector of `X`, and its kind of numbers.

    If it is sparse, these are float32 with an int32 index each, as in the `drawn` rows.
    """
    if sparse.issparse(X):
        return max(1, round(8 * drawn.nnz / drawn.shape[0])), "sparse float32"
    return X.dtype.itemsize * X.shape[1], X.dtype.name
