"""What scikit-learn asks of neighbours besides finding them: graphs and a score."""

import numpy as np
from scipy import sparse


class GraphMixin:
    """Graphs, `transform` and `score` of an index that has `kneighbors`."""

    def kneighbors_graph(
        self, X=None, n_neighbors=None, mode="connectivity", *, vectors=None
    ):
        """Return the nearest neighbours of each query as a sparse matrix.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            As in `kneighbors`.
        n_neighbors : int, default=None
            As in `kneighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Whether entries are 1, or the distance; 0 too is an explicit entry.
        vectors : {array-like, sparse matrix} of shape (n_queries, n_features), \
                default=None
            As in `kneighbors`.

        Returns
        -------
        graph : CSR sparse array of shape (n_queries, n_samples_fit_), float64
            The entries of a row are ordered by (distance, position).
        """
        _check_mode(mode)
        distances, positions = self.kneighbors(X, n_neighbors, vectors=vectors)
        starts = np.arange(len(positions) + 1) * positions.shape[1]
        return self._graph(distances.ravel(), positions.ravel(), starts, mode)

    def radius_neighbors_graph(self, X=None, radius=None, mode="connectivity"):
        """Return the neighbours within a distance of each query as a sparse matrix.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            As in `radius_neighbors`.
        radius : int, default=None
            As in `radius_neighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            As in `kneighbors_graph`.

        Returns
        -------
        graph : CSR sparse array of shape (n_queries, n_samples_fit_), float64
            The entries of a row are ordered by (distance, position).
        """
        _check_mode(mode)
        distances, positions = self.radius_neighbors(X, radius)
        starts = np.concatenate([[0], np.cumsum([len(found) for found in positions])])
        return self._graph(
            np.concatenate(distances), np.concatenate(positions), starts, mode
        )

    def transform(self, X):
        """Return the graph of distances that estimators for precomputed ones take.

        As `sklearn.neighbors.KNeighborsTransformer` does, it holds one neighbour more
        than `n_neighbors`, as a fitted code is its own first neighbour.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries in the format of `fit`.

        Returns
        -------
        graph : CSR sparse array of shape (n_queries, n_samples_fit_), float64
            ``n_neighbors + 1`` entries a row, zeros included.

        Raises
        ------
        ValueError
            If there are no more than `n_neighbors` codes.

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
        self._fitted_store()
        return self.kneighbors_graph(X, int(self.n_neighbors) + 1, mode="distance")

    def score(self, X, y):
        """Return the mean average precision of the ranking of the fitted codes.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries in the format of `fit`.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Their labels. A fitted code that shares one is relevant.

        Returns
        -------
        score : float
            In expectation over the order of equally near codes: see
            `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the index was fitted without labels.
        """
        from skhash.metrics import mean_average_precision_score

        store = self._fitted_store().compact()
        if store["y"] is None:
            raise ValueError(
                "score needs the labels of the fitted codes, and this HammingNeighbors "
                "was fitted without any; fit it by fit(codes, y)."
            )
        return mean_average_precision_score(
            self._read_more_codes(X, store),
            store.packed,
            y,
            store["y"],
            packed=True,
            n_jobs=self.n_jobs,
        )

    def _graph(self, distances, positions, starts, mode):
        weights = np.ones(len(distances)) if mode == "connectivity" else distances
        return sparse.csr_array(
            (weights.astype(np.float64), positions, starts),
            shape=(len(starts) - 1, self.n_samples_fit_),
        )


def _check_mode(mode):
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"mode must be 'connectivity' or 'distance', got {mode!r}.")
