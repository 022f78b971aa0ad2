"""The parts of a retrieval experiment, under the field's usual names."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

METRICS = ("euclidean", "cosine", "inner_product", "hamming")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RetrievalData:
    """A data set for retrieval: training rows, database, queries and labels.

    Attributes
    ----------
    name : str
        The data set, or the file that it was read from.
    metric : {"euclidean", "cosine", "inner_product", "hamming"}
        The distance that defines the true neighbours of this data.
    train : array of shape (n_train, n_features)
        Rows to fit on. It may be the very array of `database`. Matrices are dense or
        sparse CSR; texts are an object array of ``str`` of shape (n_train,).
    database : array of shape (n_database, n_features)
        Rows to search.
    query : array of shape (n_queries, n_features)
        Rows to search for. Choose nothing on them.
    train_labels, database_labels, query_labels : array or None
        One class number a row, or a 0/1 indicator matrix with one column a label.
    validation, validation_labels : array or None
        Rows for model selection, where the data set comes with them.
    true_neighbors : int array of shape (n_queries, n_neighbors) or None
        Positions in `database` of each query's nearest rows, the nearest first.
    true_distances : array of shape (n_queries, n_neighbors) or None
        Their distances, as the file has them.
    label_names : array of str or None
        The names that class numbers, or the columns of an indicator matrix, stand for.
    feature_names : array of str or None
        The names of the columns.

    Raises
    ------
    ValueError
        If the parts do not fit together: widths, numbers of labels, positions of
        neighbours.

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
    validation: Any = None
    validation_labels: np.ndarray | None = None
    true_neighbors: np.ndarray | None = None
    true_distances: np.ndarray | None = None
    label_names: np.ndarray | None = None
    feature_names: np.ndarray | None = None

    def __post_init__(self):
        if self.metric not in METRICS:
            raise ValueError(
                f"{self.name}: metric must be one of {', '.join(METRICS)}; got "
                f"{self.metric!r}."
            )
        width = self.database.shape[1:]
        for part in ("train", "database", "query", "validation"):
            self._check_part(part, width)
        if self.feature_names is not None and width != (len(self.feature_names),):
            raise ValueError(
                f"{self.name}: feature_names has {len(self.feature_names)} entries for "
                f"rows of shape {width}."
            )
        self._check_neighbors()

    def __repr__(self) -> str:
        arrays = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        shapes = ", ".join(
            f"{name}={array.shape}"
            for name, array in arrays.items()
            if array is not None
        )
        return f"RetrievalData({self.name!r}, metric={self.metric!r}, {shapes})"

    def _check_part(self, part: str, width: tuple[int, ...]) -> None:
        rows, labels = getattr(self, part), getattr(self, f"{part}_labels")
        if rows is None:
            if labels is not None:
                raise ValueError(f"{self.name}: {part}_labels without {part}.")
            return
        if rows.shape[1:] != width:
            raise ValueError(
                f"{self.name}: a row of {part} has shape {rows.shape[1:]} and a row of "
                f"database {width}; they must be equal."
            )
        if labels is not None and labels.shape[0] != rows.shape[0]:
            raise ValueError(
                f"{self.name}: {part}_labels has {labels.shape[0]} entries for the "
                f"{rows.shape[0]} rows of {part}."
            )

    def _check_neighbors(self) -> None:
        neighbors, distances = self.true_neighbors, self.true_distances
        n_queries, n_database = self.query.shape[0], self.database.shape[0]
        if neighbors is not None:
            if neighbors.ndim != 2 or neighbors.shape[0] != n_queries:
                raise ValueError(
                    f"{self.name}: true_neighbors has shape {neighbors.shape} for "
                    f"{n_queries} queries; it must be ({n_queries}, n_neighbors)."
                )
            if neighbors.dtype.kind not in "iu":
                raise ValueError(
                    f"{self.name}: true_neighbors must be integers, got dtype "
                    f"{neighbors.dtype}."
                )
            outside = (neighbors < 0) | (neighbors >= n_database)
            if outside.any():
                raise ValueError(
                    f"{self.name}: true_neighbors holds {neighbors[outside][0]}, which "
                    f"is no position among the {n_database} rows of database."
                )
        if distances is not None:
            expected = None if neighbors is None else neighbors.shape
            if distances.shape != expected:
                raise ValueError(
                    f"{self.name}: true_distances has shape {distances.shape} and "
                    f"true_neighbors {expected}; they must be equal."
                )
