"""Rows with their labels: a sample of them, and parts of a stream together."""

import numpy as np
from scipy import sparse


def drawn(X, y, rows, n_rows, rng):
    """Return at most so many of these rows and their labels, drawn at random."""
    if len(rows) > n_rows:
        rows = np.sort(rng.permutation(rows)[:n_rows])
    elif len(rows) == X.shape[0]:
        return X, y
    return X[rows], None if y is None else y[rows]


def joined(first, second):
    """Return rows and labels of two parts of a stream together."""
    (X, y), (other_X, other_y) = first, second
    if (y is None) != (other_y is None):
        raise ValueError(
            "Give y in all calls of partial_fit or in none; -1 marks rows whose class "
            "is not known."
        )
    if y is not None and (y.ndim, y.shape[1:]) != (other_y.ndim, other_y.shape[1:]):
        raise ValueError(
            f"y had shape (n, *{y.shape[1:]}) in the calls of partial_fit before, and "
            f"has (n, *{other_y.shape[1:]}) now; give labels of one kind."
        )
    if y is not None and (y.dtype.kind == "U") != (other_y.dtype.kind == "U"):
        raise ValueError(
            "y has strings in some calls of partial_fit and numbers in others; give "
            "labels of one kind."
        )
    return _stacked(X, other_X), None if y is None else _stacked(y, other_y)


def _stacked(first, second):
    if sparse.issparse(first) or sparse.issparse(second):
        return sparse.vstack(
            [sparse.csr_array(first), sparse.csr_array(second)], format="csr"
        )
    return np.concatenate([first, second])
