"""Arrays as the public functions take them: none of them masked.

NumPy and scikit-learn drop a mask in silence, and would compute with what is behind it.
So whatever is given becomes an array here. scikit-learn's functions are those of the
same names, and nothing else in skhash imports them.
"""

from functools import wraps

import numpy as np
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
