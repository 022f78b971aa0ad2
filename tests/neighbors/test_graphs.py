"""scikit-learn's estimators on graphs of searches give what they give on vectors."""

import numpy as np
import pytest
from cases import each
from scipy.stats import spearmanr
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.manifold import Isomap
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

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


def by_vectors(metric):
    X = np.random.default_rng(0).normal(size=(200, 5))
    search = HashedNeighbors(2, n_neighbors=K, metric=metric, rerank=200, vectors=True)
    return X, search.fit(X)


def few_rows(metric):
    """Return 12 rows, many times each."""
    X = np.random.default_rng(0).normal(size=(12, 5))[np.arange(200) % 12]
    search = HashedNeighbors(2, n_neighbors=K, metric=metric, rerank=200, vectors=True)
    return X, search.fit(X)


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


@pytest.fixture(scope="module", params=RADII)
def digits(request):
    """Return rows, their labels, queries, the metric and a fitted quantizer."""
    X, y = load_digits(return_X_y=True)
    search = HashedNeighbors(16, metric=request.param).fit(X[:800])
    quantizer = FrozenEstimator(search.encoder_)
    return X[:800], y[:800], X[800:], request.param, quantizer


@pytest.mark.parametrize(
    ("params", "least"),
    [
        ({}, (0.7, 0.92, 0.97)),
        pytest.param(
            {"rerank": 100, "vectors": True},
            (0.95, 0.99, 0.99),
            marks=pytest.mark.long,
        ),
    ],
)
def test_graphs_of_digits_are_about_those_of_the_vectors(digits, params, least):
    X, y, queries, metric, quantizer = digits
    search = HashedNeighbors(quantizer, n_neighbors=K, metric=metric, **params)
    graph = search.fit(X).transform(X)
    clusters = clusters_of(search.radius_neighbors_graph, X, metric, RADII[metric][1])
    assert len(np.unique(clusters[1])) > 9
    assert adjusted_rand_score(*clusters) > least[0]
    near = Isomap(n_neighbors=K, metric="precomputed").fit(graph).dist_matrix_
    true = Isomap(n_neighbors=K, metric=metric).fit(X).dist_matrix_
    assert spearmanr(near.ravel(), true.ravel())[0] > least[1]
    by_graph = make_pipeline(search, KNeighborsClassifier(K, metric="precomputed"))
    found = by_graph.fit(X, y).predict(queries)
    expected = KNeighborsClassifier(K, metric=metric).fit(X, y).predict(queries)
    assert (found == expected).mean() > least[2]
