"""Arrays as the public functions take them: none of them masked.

NumPy and scikit-learn drop a mask in silence, and would compute with what is behind it.
So whatever is given becomes an array here. scikit-learn's functions are those of the
same names, and nothing else in skhash imports them.
"""

from functools import wraps

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import check_array as _check_array
from sklearn.utils import column_or_1d as _column_or_1d
from sklearn.utils.validation import validate_data as _validate_data

from skhash.utils import _sklearn


def check_unmasked(array):
    """Return `array` as it is, or raise ValueError if it is masked."""
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(
            "A masked array would lose its mask here; pass array.filled(...), or only "
            "the rows that are whole."
        )
    return array


def refusing_masks(function):
    """Return a function that raises ValueError where an argument is masked."""

    @wraps(function)
    def checked(*args, **kwargs):
        for value in (*args, *kwargs.values()):
            check_unmasked(value)
        return function(*args, **kwargs)

    return checked


as_array = refusing_masks(np.asarray)
check_array = refusing_masks(_check_array)
check_sample_weight = refusing_masks(_sklearn.check_sample_weight)
column_or_1d = refusing_masks(_column_or_1d)
validate_data = refusing_masks(_validate_data)


def contiguous_rows(X):
    """Return rows as sums and kernels read them: in one piece, in float32 or float64.

    Sums depend, in their last digits, on how rows lie in memory. Sparse rows stay as
    they are.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features), of any float type
    """
    if sparse.issparse(X):
        return X
    dtype = np.float32 if X.dtype.itemsize < 4 else X.dtype.newbyteorder("=")
    return np.require(X, dtype, ["C", "A"])


def unit_rows(X):
    """Return rows of unit length; zeros stay.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
    """
    X = X if sparse.issparse(X) else np.asarray(X)
    return normalize(contiguous_rows(X))
