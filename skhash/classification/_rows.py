"""Labels and weights of rows to learn from."""

from dataclasses import dataclass

import numpy as np

from skhash.utils.arrays import check_sample_weight


@dataclass(frozen=True)
class Targets:
    """Classes and weights of training rows.

    Attributes
    ----------
    codes : ndarray of shape (n_samples, 1), int64
        The position of each row's class.
    weights : ndarray of shape (n_samples,), float32, or None
    classes : ndarray of shape (n_classes,)
    first_weights : list of ndarray or None
        Of a network of real units that was trained on the same rows.
    """

    codes: np.ndarray
    weights: np.ndarray | None
    classes: np.ndarray
    first_weights: list | None = None


def weighted_rows(X, y, sample_weight):
    """Return the rows that have weight, their labels, and weights of mean 1 or None.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,) or None
    """
    if sample_weight is None:
        return X, y, None
    weights = check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError(f"sample_weight must be at least 0, got {weights.min()}.")
    rows = weights > 0
    if not rows.any():
        raise ValueError("sample_weight is 0 for all rows; give some rows weight.")
    weights = weights[rows] / weights.max()  # whose sum might overflow
    return X[rows], y[rows], (weights / weights.mean()).astype(np.float32)


def positions(y, classes) -> np.ndarray:
    """Return a column of the positions of labels among the classes, int64."""
    known = np.isin(y, classes)
    if not known.all():
        raise ValueError(
            f"y holds {np.unique(y[~known]).tolist()}, which are not among the classes "
            f"{classes.tolist()} of the first call."
        )
    return np.searchsorted(classes, y)[:, None].astype(np.int64)
