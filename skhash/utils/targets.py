"""Conversion of labels of any type to integers, for all estimators.

Labels are classes, one a row, or columns of 0 and 1 for several labels a row. For
learning from partly labelled rows, unknown is -1, or ``None`` or "-1" among strings,
or a row of zeros among several labels.
"""

from numbers import Number

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets

from skhash.utils.arrays import as_array, check_array, column_or_1d
from skhash.utils.chunks import dense_rows

# The class of a row whose class is not known, among numbers and among strings.
UNKNOWN, UNKNOWN_NAME = -1, "-1"


def encoded_targets(y, estimator) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and labels as columns of int64.

    Parameters
    ----------
    y : array-like of shape (n_samples,), or {array-like, sparse matrix} of shape \
            (n_samples, n_labels)
        Classes of any type, or a 0/1 column for each of several labels.
    estimator : object
        Named in errors.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The classes in order, or the numbers of the labels.
    codes : ndarray of shape (n_samples, 1) or (n_samples, n_labels), int64
        Positions among the classes, or the columns of 0 and 1.

    Raises
    ------
    ValueError
        If `y` is None, no labels, or of one class only.
    """
    _check_given(y, f"This {type(estimator).__name__} estimator")
    if _has_columns(y):
        codes = dense_rows(_checked_indicator(y))
        return np.arange(codes.shape[1]), codes
    check_classification_targets(y)
    classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y holds only one class, {classes.tolist()[0]!r}; give 2 or more."
        )
    # As a list, so that classes in an array of objects get a type that can be saved.
    return np.array(classes.tolist()), codes[:, None].astype(np.int64)


def partial_labels(y, *, is_part=False):
    """Return checked labels of partly labelled rows.

    Parameters
    ----------
    y : array-like of shape (n_samples,), or {array-like, sparse matrix} of shape \
            (n_samples, n_labels)
        Classes, unknown as this file says; or a 0/1 column for each of several labels.
    is_part : bool
        Whether these are a part of a stream, whose rows may all be unlabelled.

    Returns
    -------
    y : ndarray of shape (n_samples,), or {ndarray, CSR array} of shape \
            (n_samples, n_labels)
        Numbers, or strings; unknown is `UNKNOWN`, or `UNKNOWN_NAME`. Or int64 columns.

    Raises
    ------
    ValueError
        If `y` is None or no labels; but of a stream, if no row has a label, if those
        that have one have all the same, or if no two rows share one.
    """
    _check_given(y, "Learning from labels")
    y = _checked_indicator(y) if _has_columns(y) else _checked_classes(y)
    if not is_part:
        check_shared(encoded_labels(y))
    return y


def encoded_labels(y) -> np.ndarray:
    """Return `partial_labels` as int64, of shape (n_samples, n_labels).

    That is one column of classes, -1 where unknown, or a 0/1 column for each of several
    labels.
    """
    if y.ndim == 2:
        return np.asarray(dense_rows(y), dtype=np.int64)
    known = y != (UNKNOWN_NAME if y.dtype.kind == "U" else UNKNOWN)
    codes = np.full((len(y), 1), UNKNOWN, dtype=np.int64)
    codes[known, 0] = np.unique(y[known], return_inverse=True)[1]
    return codes


def check_shared(codes):
    """Raise ``ValueError`` if labels make no rows similar, or all.

    Parameters
    ----------
    codes : ndarray of shape (n_samples, n_labels), int64
        As from `encoded_labels`, or `encoded_targets`.
    """
    if codes.shape[1] > 1:
        counts = codes.sum(axis=0)
    else:
        known = codes[codes != UNKNOWN]
        counts = np.bincount(known)
        if 0 < len(known) == counts.max():
            raise ValueError(
                "y holds only one class besides -1, which stands for unknown; give 2 "
                "or more. If -1 is a class, use another number for it."
            )
    if not counts.any():
        raise ValueError(
            "y has no labels: every row has an unknown class (-1), or none of several "
            "labels. Give some labels, or fit without y."
        )
    if counts.max() < 2:
        raise ValueError(
            f"y has {np.count_nonzero(counts)} labels, but no two rows share one, so "
            "no rows are similar; give labels that some rows have in common."
        )


def _check_given(y, who):
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None.")


def _has_columns(y):
    """Return whether labels have a column each."""
    if sparse.issparse(y):
        return True
    shape = as_array(y).shape
    return len(shape) == 2 and shape[1] > 1


def _checked_indicator(y):
    """Return columns of 0 and 1, int64; sparse ones stay so."""
    y = check_array(y, accept_sparse="csr", dtype="numeric", input_name="y")
    values = y.data if sparse.issparse(y) else y
    wrong = values[~np.isin(values, (0, 1))]
    if len(wrong):
        raise ValueError(
            f"y has columns for several labels, but holds {wrong[0]}; give 0 and 1."
        )
    return y.astype(np.int64)


def _checked_classes(y):
    """Return numbers or strings of shape (n,), with the marks of unknown classes."""
    if isinstance(y, list | tuple) and np.asarray(y).dtype.kind == "U":
        y = np.array(y, dtype=object)  # NumPy would make strings of all, NaN too
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "OT":
        y = _named(y)
    check_classification_targets(y)
    return y


def _named(y):
    """Convert an array of objects to one of numbers or of strings."""
    marks = (None, UNKNOWN, UNKNOWN_NAME)
    is_unknown = [isinstance(v, str | Number | None) and v in marks for v in y]
    is_unknown = np.array(is_unknown, dtype=bool)
    known = y[~is_unknown]
    are_names = any(isinstance(label, str) for label in known)
    for label in known:
        fits = isinstance(label, str) if are_names else isinstance(label, Number)
        if not fits or label != label:
            raise ValueError(
                f"y holds {label!r} among {'strings' if are_names else 'numbers'}; "
                "give all numbers or all strings, and mark unknown classes with None "
                "or -1."
            )
    labels = np.where(is_unknown, UNKNOWN_NAME if are_names else UNKNOWN, y)
    return np.array(labels.tolist())
