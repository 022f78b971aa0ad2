"""The number beside a code: it costs no neighbours, whatever other codes there are."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.preprocessing import normalize

from skhash import AdditiveQuantizer, HashedNeighbors
from skhash.neighbors import AsymmetricNeighbors
from skhash.neighbors.store.decoder import METRICS


@pytest.fixture(scope="module", params=["euclidean", "cosine"])
def fitted(request):
    X = datasets.load_digits().data
    return X, AdditiveQuantizer(4).fit(X), request.param


def indexed(fitted, X, index=None):
    _, decoder, metric = fitted
    codes, errors = decoder.transform(X), None
    if metric == "euclidean":
        errors = decoder.reconstruction_error(X, codes)
    if index is not None:
        return index.partial_fit(codes, errors=errors)
    index = AsymmetricNeighbors(10, metric=metric, packed=True)
    return index.fit(codes, decoder=decoder, errors=errors)


@pytest.mark.parametrize("times", [1e-4, 100.0])
def test_a_far_row_changes_no_answer_about_the_others(fitted, times):
    X, queries = fitted[0][:1500], fitted[0][1500:]
    fresh, index = indexed(fitted, X), indexed(fitted, X[:700])
    expected, narrow = fresh.kneighbors(queries), index._store.bytes_beside
    far = times * X[:1] if times < 1 else times * X[:1] + 1e4
    indexed(fitted, far, index)
    if fitted[2] == "euclidean" and times > 1:
        assert index._store.bytes_beside > narrow
    indexed(fitted, X[700:], index)
    mask = np.arange(1501) != 700
    scores, found = index.kneighbors(queries, mask=mask)
    np.testing.assert_array_equal(scores, expected[0])
    np.testing.assert_array_equal(found - (found > 700), expected[1])
    index.remove([700]).compact()
    for found, own in zip(index.kneighbors(queries), expected, strict=True):
        np.testing.assert_array_equal(found, own)
    np.testing.assert_array_equal(index._store.levels, fresh._store.levels)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_of_zeros_are_at_a_right_angle(metric):
    """Those of failed embeddings: codes decode to short vectors of any direction."""
    rng = np.random.default_rng(0)
    X = normalize(rng.normal(size=(600, 24)))
    zeros = rng.permutation(600)[:30]
    X[zeros] = 0
    queries = normalize(rng.normal(size=(50, 24)))
    search = HashedNeighbors(4, n_neighbors=600, metric=metric)
    search.fit(X[:300]).partial_fit(X[300:])
    scores, found = search.kneighbors(queries)
    expected = {"euclidean": 1, "inner_product": 0, "cosine": 1}[metric]
    np.testing.assert_array_equal(scores[np.isin(found, zeros)], expected)
    # Distances of a query of zeros are those of unit vectors, too.
    scores, found = search.kneighbors(np.zeros((1, 24)))
    own = np.where(np.isin(found, zeros), expected - 1, expected)
    np.testing.assert_array_equal(scores, own if metric == "euclidean" else expected)
    for radius, n in ((0.5, 30), (1.5, 600)):
        n = n if metric == "euclidean" else np.sum(expected <= radius) * 600
        (inside,) = search.radius_neighbors(np.zeros((1, 24)), radius)[1]
        assert len(inside) == n
