"""Steps of preparation that several loaders share."""

import numpy as np

from skhash.datasets._bundle import RetrievalData


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


def bundle(
    name, metric, database, query, train=None, label_names=None, feature_names=None
) -> RetrievalData:
    """Put labelled parts together, each a pair of rows and labels.

    Where there is no part to train on, it is the database.
    """
    train = database if train is None else train
    return RetrievalData(
        name=name,
        metric=metric,
        train=train[0],
        database=database[0],
        query=query[0],
        train_labels=train[1],
        database_labels=database[1],
        query_labels=query[1],
        label_names=label_names,
        feature_names=feature_names,
    )


def first_of_each_class(part, n_rows: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the first rows of every class, and their labels, in the order of the data.

    Parameters
    ----------
    part : tuple of ndarrays
        Rows and labels.
    n_rows : int
        How many rows to take in all, equally many of every class.
    name : str
        The parameter that `n_rows` comes from, for the message.

    Raises
    ------
    ValueError
        If the classes cannot give equally many rows that add up to `n_rows`.
    """
    X, labels = part
    classes, counts = np.unique(labels, return_counts=True)
    per_class, rest = divmod(n_rows, len(classes))
    if per_class < 1 or rest or per_class > counts.min():
        raise ValueError(
            f"{name}={n_rows} must be a multiple of the {len(classes)} classes and at "
            f"most {counts.min() * len(classes)}, since every class gives equally "
            "many; None takes all rows."
        )
    firsts = [np.flatnonzero(labels == label)[:per_class] for label in classes]
    chosen = np.sort(np.concatenate(firsts))
    return X[chosen], labels[chosen]
