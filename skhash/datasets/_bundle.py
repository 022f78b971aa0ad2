"""The parts of a retrieval experiment, under the field's usual names."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

METRICS = ("euclidean", "cosine", "inner_product", "hamming")


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalData:
    """Retrieval data set: training vectors, database, queries and labels.

    Attributes
    ----------
    name : str
        Name of the data set, or of the file that it was read from.
    metric : {"euclidean", "cosine", "inner_product", "hamming"}
        Metric that defines the true neighbours.
    train : array of shape (n_train, n_features)
        Rows to fit on; may be the same array as `database`. Matrices are dense or
        sparse CSR. Texts are an object array of ``str`` of shape (n_train,).
    database : array of shape (n_database, n_features)
        Rows to search.
    query : array of shape (n_queries, n_features)
        Queries. Do not use them to choose models or parameters.
    train_labels, database_labels, query_labels : array or None
        One class number per row, or a 0/1 indicator matrix with one column per label.
    true_neighbors : int array of shape (n_queries, n_neighbors) or None
        Positions in `database` of the nearest rows of each query, the nearest first.
    true_distances : array of shape (n_queries, n_neighbors) or None
        Distances of the true neighbours, as stored in the file.
    label_names : array of str or None
        Names of the class numbers, or of the columns of an indicator matrix.
    feature_names : array of str or None
        Names of the columns.

    Raises
    ------
    ValueError
        If numbers of columns, labels or neighbours do not match.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.datasets import RetrievalData
    >>> X = np.eye(4, dtype=np.float32)
    >>> RetrievalData(
    ...     name="corners", metric="euclidean", train=X, database=X, query=X[:1]
    ... )
    RetrievalData('corners', metric='euclidean', train=(4, 4), database=(4, 4), \
query=(1, 4))
    """

    name: str
    metric: str
    train: Any
    database: Any
    query: Any
    train_labels: np.ndarray | None = None
    database_labels: np.ndarray | None = None
    query_labels: np.ndarray | None = None
    true_neighbors: np.ndarray | None = None
    true_distances: np.ndarray | None = None
    label_names: np.ndarray | None = None
    feature_names: np.ndarray | None = None

    def __post_init__(self):
        if self.metric not in METRICS:
            raise ValueError(
                f"{self.name}: metric must be one of {', '.join(METRICS)}, got "
                f"{self.metric!r}."
            )
        for part in ("train", "database", "query"):
            self._check_part(part)
        self._check_neighbors()

    def __repr__(self) -> str:
        arrays = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        shapes = ", ".join(
            f"{name}={array.shape}"
            for name, array in arrays.items()
            if array is not None
        )
        return f"RetrievalData({self.name!r}, metric={self.metric!r}, {shapes})"

    def _check_part(self, part: str) -> None:
        X, labels = getattr(self, part), getattr(self, f"{part}_labels")
        n_labels = X.shape[0] if labels is None else labels.shape[0]
        if X.shape[1:] != self.database.shape[1:] or n_labels != X.shape[0]:
            raise ValueError(
                f"{self.name}: {part} has shape {X.shape} and {n_labels} labels, but "
                f"database has shape {self.database.shape}; rows must have equal "
                "lengths and one label each."
            )

    def _check_neighbors(self) -> None:
        near, distances = self.true_neighbors, self.true_distances
        n_queries, n_rows = self.query.shape[0], self.database.shape[0]
        if near is not None and not (
            near.ndim == 2
            and near.shape[0] == n_queries
            and near.dtype.kind in "iu"
            and ((near >= 0) & (near < n_rows)).all()
        ):
            raise ValueError(
                f"{self.name}: true_neighbors, of shape {near.shape} and dtype "
                f"{near.dtype}, must hold positions below {n_rows} for each of "
                f"{n_queries} queries."
            )
        if distances is not None and distances.shape != np.shape(near):
            raise ValueError(
                f"{self.name}: true_distances has shape {distances.shape}, but "
                f"true_neighbors has {np.shape(near)}; the shapes must be equal."
            )
