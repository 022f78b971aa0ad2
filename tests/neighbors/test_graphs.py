"""scikit-learn's estimators on graphs of searches give what they give on vectors."""

import numpy as np
import pytest
from cases import each
from sklearn.cluster import DBSCAN
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier

from skhash.neighbors import AsymmetricNeighbors, HashedNeighbors

K = 10
# Radii that join some of the rows, and of the digits.
RADII = {"euclidean": (1.1, 21), "cosine": (0.06, 0.06)}
METRICS = pytest.mark.parametrize("metric", RADII)


def by_decoder(metric):
    """Return vectors, and an index of codes that decode to these, without errors."""
    rng = np.random.default_rng(0)
    bits = rng.permutation([*np.ndindex(*8 * (2,))])[:200]
    codebook, offset = rng.normal(size=(8, 5)), np.ones(5)
    index = AsymmetricNeighbors(K, metric=metric)
    return bits @ codebook + offset, index.fit(bits, decoder=(codebook, offset))


def by_vectors(metric, n_rows=200):
    """Return rows, of which `n_rows` differ, and a search of them."""
    X = np.random.default_rng(0).normal(size=(n_rows, 5))[np.arange(200) % n_rows]
    search = HashedNeighbors(2, n_neighbors=K, metric=metric, rerank=200, vectors=True)
    return X, search.fit(X)


def few_rows(metric):
    return by_vectors(metric, 12)


def clusters_of(graph_of, X, metric, radius):
    """Return the clusters on a graph of a search, and on vectors."""
    graph = graph_of(X, radius, mode="distance")
    by_graph = DBSCAN(radius, min_samples=4, metric="precomputed").fit_predict(graph)
    return by_graph, DBSCAN(radius, min_samples=4, metric=metric).fit_predict(X)


@METRICS
@each("make", [by_decoder, by_vectors, few_rows])
def test_clusters(metric, make):
    X, search = make(metric)
    graph_of, radius = search.radius_neighbors_graph, RADII[metric][0]
    found, expected = clusters_of(graph_of, X, metric, radius)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 1


@METRICS
@each("make", [by_decoder, by_vectors])
def test_geodesic_distances(metric, make):
    X, search = make(metric)
    isomap = Isomap(n_neighbors=K, metric="precomputed").fit(search.transform(X))
    expected = Isomap(n_neighbors=K, metric=metric).fit(X).dist_matrix_
    np.testing.assert_allclose(isomap.dist_matrix_, expected, atol=1e-3)


@METRICS
@each("make", [by_decoder, by_vectors, few_rows])
def test_classes_of_neighbors(metric, make):
    X, search = make(metric)
    noise = np.random.default_rng(1).normal(size=X.shape)
    y, queries = np.arange(200) % 12 % 5, X + 0.01 * noise
    params = {"n_neighbors": K, "weights": "distance"}
    by_graph = KNeighborsClassifier(metric="precomputed", **params)
    by_graph.fit(search.transform(X), y)
    expected = KNeighborsClassifier(metric=metric, **params).fit(X, y)
    found = by_graph.predict_proba(search.transform(queries))
    np.testing.assert_allclose(found, expected.predict_proba(queries), atol=1e-3)
