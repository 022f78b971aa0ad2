"""Labels of any type as integers."""

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skhash.utils.chunks import dense_rows


def encoded_targets(y, estimator) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and labels as columns of int64.

    Parameters
    ----------
    y : array-like of shape (n_samples,), or {array-like, sparse matrix} of shape \
            (n_samples, n_labels)
        Classes of any type, or a 0/1 column for each of several labels.
    estimator : object
        Whose name errors tell.

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
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but "
            "the target y is None."
        )
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        codes = dense_rows(check_array(y, accept_sparse="csr", dtype=np.int64))
        if not np.isin(codes, (0, 1)).all():
            raise ValueError(
                f"y has columns for several labels, but holds {codes.min()} and "
                f"{codes.max()}; give 0 and 1."
            )
        return np.arange(codes.shape[1]), codes
    classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y holds one class only, {classes.tolist()[0]!r}; give 2 or more."
        )
    # As a list, so that classes in an array of objects get a type that can be saved.
    return np.array(classes.tolist()), codes[:, None].astype(np.int64)
