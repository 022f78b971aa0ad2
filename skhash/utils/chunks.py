"""Slices that keep memory bounded, whatever the number of rows."""

from collections.abc import Iterator
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
    """Return so many slices that cover ``range(n_rows)``, as even as can be.

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
