"""Steps of preparation that several loaders share."""

import numpy as np


def unit_rows(X: np.ndarray, source) -> np.ndarray:
    """Return float32 rows of Euclidean norm 1; `source` is named where that fails."""
    X = np.array(X, dtype=np.float32)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    wrong = ~(np.isfinite(norms) & (norms > 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{source}: row {row} has norm {norms[row, 0]} and cannot be scaled to 1; "
            "the file is corrupt or another one."
        )
    X /= norms
    return X


def first_of_each_class(labels: np.ndarray, n_rows: int, name: str) -> np.ndarray:
    """Return the positions of the first rows of every class, in the order of the data.

    Parameters
    ----------
    labels : int array of shape (n,)
    n_rows : int
        How many rows to take in all, equally many of every class.
    name : str
        The parameter that `n_rows` comes from, for the message.

    Raises
    ------
    ValueError
        If the classes cannot give equally many rows that add up to `n_rows`.
    """
    classes, counts = np.unique(labels, return_counts=True)
    per_class, rest = divmod(n_rows, len(classes))
    if per_class < 1 or rest or per_class > counts.min():
        raise ValueError(
            f"{name}={n_rows} must be a multiple of the {len(classes)} classes and at "
            f"most {counts.min() * len(classes)}, since every class gives equally "
            "many; None takes all rows."
        )
    firsts = [np.flatnonzero(labels == label)[:per_class] for label in classes]
    return np.sort(np.concatenate(firsts))
