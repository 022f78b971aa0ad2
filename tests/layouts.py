"""The same values in every form in which arrays come."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse


def with_gaps(X):
    """Return a view whose rows and columns lie apart."""
    room = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    view = room[::2, ::3]
    view[:] = X
    return view


def backwards(X):
    """Return a view with negative steps."""
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def off_by_a_byte(X):
    """Return an array whose numbers stand at odd addresses."""
    room = np.zeros(X.nbytes + 1, dtype=np.uint8)
    view = np.frombuffer(room.data, X.dtype, X.size, offset=1).reshape(X.shape)
    view[:] = X
    return view


def mapped(X, order="C"):
    """Return a memory map of a file, which is removed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, np.asarray(X, order=order))
        return np.load(path, mmap_mode="r")


# Forms of one number type: answers are the same to the last bit.
LAYOUTS = {
    "Fortran": np.asfortranarray,
    "gaps": with_gaps,
    "backwards": backwards,
    "read-only": read_only,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "off by a byte": off_by_a_byte,
    "mapped": mapped,
    "mapped, Fortran": lambda X: mapped(X, "F"),
    "pandas": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(np.ascontiguousarray(X)),
}
# Forms that are computed with in another precision, or another order of sums.
SPARSE = {"CSR": sparse.csr_array, "CSC": sparse.csc_array, "COO": sparse.coo_array}
FLOATS = {
    "float16": lambda X: X.astype(np.float16),
    "float32": lambda X: X.astype(np.float32),
    "float64": lambda X: X.astype(np.float64),
    "list": lambda X: X.tolist(),
}


def vectors(n, n_features, seed=0):
    """Return float32 values, a third of them 0, that float16 holds exactly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.7)
    return X.astype(np.float16).astype(np.float32)
