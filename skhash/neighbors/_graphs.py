"""Neighbours as sparse graphs, for scikit-learn's estimators."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from skhash.neighbors._params import check_params
from skhash.utils._sklearn import CodesOutMixin


class GraphMixin(CodesOutMixin):
    """Adds neighbour graphs to classes with `kneighbors` and `radius_neighbors`."""

    def kneighbors_graph(
        self, X=None, n_neighbors=None, mode="connectivity", **options
    ) -> Any:
        """Return the graph of nearest neighbours as a sparse matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_columns), default=None
            As in `kneighbors`.
        n_neighbors : int, default=None
            As in `kneighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Whether entries are 1 or distances. Distances of 0 are stored explicitly.
        **options
            Other parameters of `kneighbors`, such as `mask`.

        Returns
        -------
        graph : CSR sparse matrix of shape (n_queries, n_samples), float64
            One row per query, with entries ordered by (distance, position).
        """
        check_graph_question(options)
        distances, positions = self.kneighbors(X, n_neighbors, **options)
        return as_graph(distances, positions, self._n_features_out, mode)

    def radius_neighbors_graph(
        self, X=None, radius=None, mode="connectivity", **options
    ) -> Any:
        """Return the graph of all neighbours within a radius as a sparse matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_columns), default=None
            As in `radius_neighbors`.
        radius : float, default=None
            As in `radius_neighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            As in `kneighbors_graph`.
        **options
            Other parameters of `radius_neighbors`, such as `mask`.

        Returns
        -------
        graph : CSR sparse matrix of shape (n_queries, n_samples), float64
            One row per query, with entries ordered by (distance, position).
        """
        check_graph_question(options)
        distances, positions = self.radius_neighbors(X, radius, **options)
        return as_graph(distances, positions, self._n_features_out, mode)

    def transform(self, X) -> Any:
        """Return the distance graph, for estimators with ``metric="precomputed"``.

        Like that of `sklearn.neighbors.KNeighborsTransformer`, the graph holds one
        neighbour more than `n_neighbors`, because a fitted code is its own first
        neighbour.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_columns)
            Queries, as in `kneighbors`.

        Returns
        -------
        graph : CSR sparse matrix of shape (n_queries, n_samples), float64
            One row per query, with ``n_neighbors + 1`` entries, zeros included.

        Raises
        ------
        ValueError
            If there are not more than `n_neighbors` codes.

        Examples
        --------
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> from skhash.neighbors import HammingNeighbors
        >>> codes, y = [[0, 0], [0, 1], [1, 1], [1, 1]], [0, 0, 1, 1]
        >>> classifier = make_pipeline(
        ...     HammingNeighbors(n_neighbors=1),
        ...     KNeighborsClassifier(n_neighbors=1, metric="precomputed"),
        ... )
        >>> classifier.fit(codes, y).predict([[0, 0], [1, 1]])
        array([0, 1])
        """
        check_is_fitted(self)
        check_params(self)
        return self.kneighbors_graph(X, int(self.n_neighbors) + 1, mode="distance")

    @property
    def _n_features_out(self):
        return self.n_samples_fit_


def check_graph_question(question):
    """Raise ``TypeError`` for options of a search that a graph cannot have."""
    for name in question.keys() & {"return_distance", "return_ids"}:
        raise TypeError(f"A graph holds distances by position; leave out {name}.")


def as_graph(distances, positions, n_samples, mode):
    """Return neighbours, one row of any length per query, as a sparse matrix.

    It is an array where scikit-learn's own graphs are: see its `sparse_interface`.
    """
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"mode must be 'connectivity' or 'distance', got {mode!r}.")
    starts = np.cumsum([0, *map(len, positions)])
    nothing = np.empty(0, dtype=np.int64)  # where there are no queries either
    weights = np.concatenate([nothing, *distances]).astype(np.float64)
    if mode == "connectivity":
        weights[:] = 1
    graph = weights, np.concatenate([nothing, *positions]), starts
    as_arrays = get_config().get("sparse_interface") == "sparray"
    kind = sparse.csr_array if as_arrays else sparse.csr_matrix
    return kind(graph, shape=(len(positions), n_samples))
