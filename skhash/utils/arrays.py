"""Validation of given arrays, which refuses masked ones.

NumPy and scikit-learn drop a mask silently, and would compute with the values behind
it. NumPy does not know bfloat16 either. So all input becomes arrays here. The functions
wrap scikit-learn's of the same names, which nothing else in skhash imports.
"""

from functools import wraps

import numpy as np
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.preprocessing import normalize
from sklearn.utils import check_array as _check_array
from sklearn.utils import column_or_1d as _column_or_1d
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import FLOAT_DTYPES, assert_all_finite
from sklearn.utils.validation import validate_data as _validate_data

from skhash.utils import _sklearn
from skhash.utils.chunks import dense_chunks

# Squares of values within these bounds, summed over any data, fit into float32.
SMALLEST_VALUE, LARGEST_VALUE = 1e-15, 1e15
# The values of a few rows.
FEW_VALUES = 2**16
# Magnitudes up to this power of two, and from the power of its negative on, are
# ordinary. scikit-learn takes lengths below some 2**-19 for zero.
ORDINARY_EXPONENT = 10
# Types of columns that may hold float64: polars', nullable, Arrow's, and objects.
DOUBLES = {"Float64", "double", "double[pyarrow]", "object"}


def as_readable(array):
    """Return `array`, tensors of bfloat16 or float8 as float32; refuse masked ones."""
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(
            "A masked array would lose its mask here; pass array.filled(...), or only "
            "the rows without masked values."
        )
    dtype = getattr(array, "dtype", None)
    if isinstance(dtype, np.dtype):  # its text takes as long as a step of a search
        return array
    is_wider = str(dtype).startswith(("torch.bfloat16", "torch.float8"))
    return array.float() if is_wider else array


def with_readable(function):
    """Wrap a function so that its arguments are those of `as_readable`."""

    @wraps(function)
    def checked(*args, **kwargs):
        kwargs = {name: as_readable(value) for name, value in kwargs.items()}
        return function(*map(as_readable, args), **kwargs)

    return checked


def keeping_float64(function, place):
    """Wrap a function so that it keeps float64 in lists, frames and any byte order.

    scikit-learn finds float64 in native arrays and ordinary frames only; it would round
    others, objects too, to the first type of its list. `place` is that of the rows
    among the arguments: the type of labels says nothing.
    """

    @wraps(function)
    def checked(*args, **kwargs):
        allowed = kwargs.get("dtype")
        is_listed = isinstance(allowed, (list, tuple)) and np.float64 in allowed
        if is_listed and _holds_float64(args[place]):
            kwargs["dtype"] = np.float64
        return function(*args, **kwargs)

    return checked


def _holds_float64(X):
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X)
        except ValueError:  # which scikit-learn explains
            return False
    if isinstance(X, np.ndarray):
        return X.dtype.newbyteorder("=") in (np.float64, object)
    types = getattr(X, "dtypes", getattr(getattr(X, "schema", None), "types", ()))
    types = types if np.iterable(types) else [types]
    return not DOUBLES.isdisjoint(map(str, types))


def in_numpy(function):
    """Wrap a function so that tensors become arrays, with array API dispatch too."""
    without_dispatch = config_context(array_api_dispatch=False)(function)

    @wraps(function)
    def checked(*args, **kwargs):
        # A context takes as long as a check of few rows.
        dispatches = get_config()["array_api_dispatch"]
        return (without_dispatch if dispatches else function)(*args, **kwargs)

    return checked


as_array = with_readable(np.asarray)
check_array = with_readable(keeping_float64(in_numpy(_check_array), 0))
check_sample_weight = with_readable(_sklearn.check_sample_weight)
column_or_1d = with_readable(in_numpy(_column_or_1d))
validate_data = with_readable(keeping_float64(in_numpy(_validate_data), 1))


def validate_rows(estimator, X, *, all_finite=True, **options):
    """Validate rows of floats for `fit`, or a fitted estimator.

    Those of float16, perhaps in a file, stay as they are: convert chunks.

    Parameters
    ----------
    estimator : estimator
    X : array-like or sparse matrix of shape (n_samples, n_features)
    all_finite : bool
        Whether to look for NaN and infinity.
    **options
        Of scikit-learn's `validate_data`.
    """
    if not options.get("reset", True) and is_checked(estimator, X):
        return X
    is_half = isinstance(X, np.ndarray) and X.dtype == np.float16
    options["dtype"] = np.float16 if is_half else [np.float32, np.float64]
    options["ensure_all_finite"] = all_finite and not is_half
    X = validate_data(estimator, X, **options)
    # scikit-learn would allocate a mask of the finite values.
    if is_half and all_finite:
        name = type(estimator).__name__
        for _, chunk in dense_chunks(X):
            assert_all_finite(chunk, estimator_name=name, input_name="X")
    return X


def check_magnitude(X, smallest=SMALLEST_VALUE) -> None:
    """Raise ``ValueError`` where squares of the values would overflow or vanish."""
    largest = max(X.max(), -X.min())
    if largest > LARGEST_VALUE or 0 < largest < smallest:
        raise ValueError(
            f"The largest magnitude in X is {largest:.3g}, but it must be from "
            f"{smallest:g} to {LARGEST_VALUE:g}. Check X for wrong values, or multiply "
            "all rows by a constant; codes do not depend on the scale."
        )


def contiguous_rows(X):
    """Return contiguous rows in float32 or float64, for sums and kernels.

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


def unit_rows(X, norm="l2"):
    """Return rows divided by their norms, of any magnitude; zeros stay.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
    norm : {"l2", "l1"}
    """
    X = contiguous_rows(X if sparse.issparse(X) else as_array(X))
    if not is_plain(X):
        X = check_array(X, accept_sparse="csr", dtype=FLOAT_DTYPES, input_name="X")
    if sparse.issparse(X) or norm != "l2":
        return normalize(with_safe_squares(X), norm=norm)
    X = with_safe_squares(X)  # scikit-learn would check it again
    norms = row_norms(X)
    norms[norms == 0] = 1
    return X / norms[:, None]


def is_checked(estimator, X) -> bool:
    """Return whether a fitted estimator would accept plain rows as they are."""
    if hasattr(estimator, "feature_names_in_") or not is_plain(X):
        return False
    return X.shape[1] == getattr(estimator, "n_features_in_", X.shape[1])


def is_plain(X) -> bool:
    """Return whether scikit-learn would return `X` as it is, for a few rows of floats.

    Its check takes longer than a small search.
    """
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.flags.c_contiguous
        and X.ndim == 2
        and 0 < X.size <= FEW_VALUES
        and bool(np.isfinite(X).all())
    )


def are_zero(X):
    """Return whether each row holds zeros alone, of any magnitude, (n_samples,).

    X : array-like or sparse matrix of shape (n_samples, n_features)
    """
    return (
        largest_magnitudes(X) == 0 if sparse.issparse(X) else ~as_array(X).any(axis=1)
    )


def largest_magnitudes(X):
    """Return the largest magnitude of each row, (n_samples,)."""
    largest = abs(X).max(axis=1)
    return largest.toarray().ravel() if sparse.issparse(X) else largest


def with_safe_squares(X):
    """Return rows times powers of two, so that squares neither overflow nor vanish.

    Most rows stay as they are: those whose largest magnitude is ordinary, and zeros.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features), float32 or float64
    """
    exponents = np.frexp(largest_magnitudes(X))[1]
    exponents[np.abs(exponents) <= ORDINARY_EXPONENT] = 0
    return times_powers_of_two(X, -exponents) if exponents.any() else X


def times_powers_of_two(X, exponents):
    """Return rows times powers of two, an exponent for each row."""
    if not sparse.issparse(X):
        return np.ldexp(X, exponents[:, None])
    X = X.copy()
    X.data = np.ldexp(X.data, np.repeat(exponents, np.diff(X.indptr)))
    return X


def is_numeric(X) -> bool:
    """Return whether `X` is a matrix of numbers, in whatever form; texts are none."""
    if sparse.issparse(X):
        return True
    try:
        X = as_array(X)
        X = X.astype(float) if X.dtype.kind == "O" else X  # of a data frame, say
    except (TypeError, ValueError):
        return False
    return X.ndim == 2 and X.dtype.kind in "biuf"
