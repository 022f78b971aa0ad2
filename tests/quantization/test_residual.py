"""Codebooks of residuals against scikit-learn's k-means and sums that are known."""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from skhash.quantization import _residual
from skhash.quantization._codebook import find_codes, squared_errors
from skhash.quantization._residual import kmeans, residual_codebook


def test_kmeans_is_that_of_scikit_learn_with_more_and_more_axes():
    noise = np.random.default_rng(0).normal(size=(1797, 64))  # no two are as near
    rows = (load_digits().data + noise).astype(np.float32)
    centers, own = kmeans(rows, 20, np.random.RandomState(3))
    axes = np.linalg.svd(rows, full_matrices=False)[2].T
    turned = rows @ axes
    first = np.random.RandomState(3).choice(len(rows), 20, replace=False)
    expected = turned[first]
    for n_axes in (1, 2, 3, 6, 10, 15, 25, 40, 64):  # powers of 64 ** (1 / 9)
        for last in (False, True):  # labels are of the centres before they move
            options = {"n_init": 1, "max_iter": _residual.MAX_ITER - (not last)}
            other = KMeans(20, init=expected[:, :n_axes], tol=0, **options)
            labels = other.fit(turned[:, :n_axes]).labels_
            if not last:
                means = np.stack([turned[labels == i].mean(axis=0) for i in range(20)])
        expected = means
    np.testing.assert_allclose(centers, expected @ axes.T, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(own, labels)
    plain = KMeans(20, init=rows[first], n_init=1, max_iter=300).fit(rows)
    assert np.square(rows - centers[own]).sum() < plain.inertia_


def test_kmeans_of_few_wide_rows_is_that_in_their_span():
    rows = np.random.default_rng(0).normal(size=(40, 90)).astype(np.float32)
    axes = np.linalg.svd(rows, full_matrices=False)[2].T
    centers, own = kmeans(rows, 8, np.random.RandomState(3))
    expected, same = kmeans(rows @ axes, 8, np.random.RandomState(3))
    np.testing.assert_allclose(centers, expected @ axes.T, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(own, same)


def test_centers_without_rows_stay():
    rows = np.repeat(np.float32([[3, 1], [5, -2]]), 3, axis=0)
    centers, own = kmeans(rows, 4, np.random.RandomState(0))
    np.testing.assert_allclose(centers[own], rows, rtol=1e-5)
    away = np.abs(centers[:, None] - rows).max(axis=2).min(axis=1)
    assert len(set(own)) == 2 and away.max() < 1e-5


def test_sums_of_entries_are_found():
    """Rows that are the sum of a far and a near vector, of few each."""
    rng = np.random.default_rng(0)
    far, near = 100 * rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    X = (far[:, None] + near).reshape(9, 5)[rng.integers(0, 9, 3000)]
    codebook, offset = residual_codebook(X, 2, 4)
    assert codebook.shape == (2, 16, 5)
    np.testing.assert_allclose(offset, X.mean(axis=0), rtol=1e-5)
    codes = find_codes(X, codebook, offset, 8)
    errors = squared_errors(X, codes, codebook, offset)
    assert errors.max() < 1e-6 * X.var(axis=0).sum()


def test_of_few_rows_each_is_a_center():
    rows = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    centers, own = kmeans(rows, 16, np.random.RandomState(0))
    assert centers.shape == (16, 3)
    np.testing.assert_array_equal(centers[own], rows)


def test_threads_and_chunks_find_the_nearest_centers():
    rng = np.random.default_rng(0)
    rows, centers = rng.normal(size=(3000, 40)), rng.normal(size=(70, 40))
    expected = cdist(rows, centers).argmin(axis=1)
    for n_jobs in (1, 3):
        found = _residual.nearest(rows.astype(np.float32), centers, n_jobs)
        np.testing.assert_array_equal(found, expected)
