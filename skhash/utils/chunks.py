"""Slices that keep memory bounded, whatever the number of rows."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from scipy import sparse

CHUNK_BYTES = 32 * 2**20


def row_chunks(n_rows: int, bytes_per_row: float, budget: int = CHUNK_BYTES):
    """Yield slices that cover ``range(n_rows)``, each of at most `budget` bytes.

    A slice holds at least one row, even where that row alone passes the budget.

    Examples
    --------
    >>> from skhash.utils.chunks import row_chunks
    >>> list(row_chunks(5, bytes_per_row=8, budget=16))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, int(budget // max(bytes_per_row, 1)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def even_chunks(n_rows: int, n_chunks: int) -> list[slice]:
    """Return `n_chunks` slices that cover ``range(n_rows)`` as evenly as possible.

    Examples
    --------
    >>> from skhash.utils.chunks import even_chunks
    >>> even_chunks(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    bounds = [n_rows * i // n_chunks for i in range(n_chunks + 1)] if n_chunks else []
    return [slice(*pair) for pair in pairwise(bounds)]


def dense_chunks(X, budget: int = CHUNK_BYTES) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield ``(rows, X[rows])`` with dense rows; only one chunk is dense at a time."""
    for rows in row_chunks(X.shape[0], X.shape[1] * X.dtype.itemsize, budget):
        yield rows, dense_rows(X[rows])


def dense_rows(chunk) -> np.ndarray:
    """Return a chunk of rows as a dense array; a dense one as it is."""
    return chunk.toarray() if sparse.issparse(chunk) else chunk


class RowView:
    """Dense rows that are read and prepared when they are used.

    Only the used part of a file is in memory, and the whole is never copied to another
    dtype or to unit length.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), or RowView
        A memory map too.
    rows : ndarray of int or None
        Which rows of `X` these are; None is all of them.
    prepare : callable or None
        Makes floating-point rows of those of `X`.

    Attributes
    ----------
    shape : tuple (n_rows, n_features)
    dtype : dtype
        That of the rows when used, float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.utils.chunks import RowView
    >>> X = np.arange(6, dtype=np.float16).reshape(3, 2)
    >>> RowView(X, prepare=np.float32)[1:]
    array([[2., 3.],
           [4., 5.]], dtype=float32)
    """

    def __init__(self, X, rows=None, prepare: Callable | None = None):
        self.X, self.rows, self.prepare = X, rows, prepare
        self.shape = (X.shape[0] if rows is None else len(rows), X.shape[1])
        self.dtype = self[:1].dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        taken = self.X[rows if self.rows is None else self.rows[rows]]
        return taken if self.prepare is None else self.prepare(taken)


def column_range(X) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest value of each column, in one pass.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.utils.chunks import column_range
    >>> [bounds.tolist() for bounds in column_range(np.array([[1, 5], [2, 3]]))]
    [[1, 3], [2, 5]]
    """
    if sparse.issparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    ranges = [(chunk.min(axis=0), chunk.max(axis=0)) for _, chunk in dense_chunks(X)]
    low, high = zip(*ranges, strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)
