"""Codebooks of residuals against scikit-learn's k-means and sums that are known."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import skhash
from skhash.linear import LinearDecoder, _decoder, _residual
from skhash.linear._decoder import refine, squared_errors
from skhash.linear._residual import kmeans, residual_codebook


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


def test_centers_without_rows_stay():
    rows = np.repeat(np.float32([[3, 1], [5, -2]]), 3, axis=0)
    centers, own = kmeans(rows, 4, np.random.RandomState(0))
    np.testing.assert_allclose(centers[own], rows, rtol=1e-5)
    away = np.abs(centers[:, None] - rows).max(axis=2).min(axis=1)
    assert len(set(own)) == 2 and away.max() < 1e-5


@pytest.mark.parametrize("n_bits", [8, 7])
def test_sums_of_entries_are_found(n_bits):
    """Rows that are the sum of a far and a near vector, of few each."""
    rng = np.random.default_rng(0)
    far, near = 100 * rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    X = (far[:, None] + near).reshape(9, 5)[rng.integers(0, 9, 3000)]
    codebook, offset = residual_codebook(X, n_bits, 4)
    assert codebook.shape == (2, 16, 5)
    np.testing.assert_allclose(offset, X.mean(axis=0), rtol=1e-5)
    if n_bits == 7:  # the second block has three bits
        assert not codebook[1, 1::2].any()
    codes = refine(X, None, codebook, offset, n_bits=n_bits)
    errors = squared_errors(X, codes, codebook, offset)
    assert errors.max() < 1e-6 * X.var(axis=0).sum()


@pytest.mark.parametrize("n_bits", [16, 21])
@pytest.mark.parametrize("block_bits", [4, 8])
def test_what_starts_from_residuals_knows_no_codes(n_bits, block_bits):
    X = load_digits().data[:900]
    options = {"block_bits": block_bits, "start": "residual", "n_restarts": 2}
    one, other = np.random.default_rng(0).integers(0, 2, (2, len(X), n_bits))
    decoder = LinearDecoder(**options).fit(X, one)
    same = LinearDecoder(**options).fit(X, other)
    np.testing.assert_array_equal(decoder.codebook_, same.codebook_)
    refined = decoder.refine(X)
    np.testing.assert_array_equal(decoder.refine(X, other), refined)
    by_codes = LinearDecoder(**options).set_params(start="codes").fit(X, one)
    errors = by_codes.reconstruction_error(X, by_codes.refine(X, one))
    assert decoder.reconstruction_error(X, refined).mean() < errors.mean()


@pytest.mark.parametrize("rows", [np.asfortranarray, pd.DataFrame, sparse.csr_array])
def test_codes_of_parts_are_the_best_of_all_codes(rows, monkeypatch, tmp_path):
    """Parts have no axis in common: the best codes of each are the best of the sum."""
    monkeypatch.setattr(_decoder, "MAX_ENTRIES", 16)
    X = load_digits().data[:500] + np.random.default_rng(0).normal(100, 1, (500, 64))
    make = partial(LinearDecoder, block_bits=4, start="residual", relaxation=0)
    bits = np.zeros((500, 11), dtype=int)
    decoder = make().fit(rows(X), bits)
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2]
    assert len(decoder.codebook_) == decoder.n_parts_ == 3
    error = 0
    for part, entries in enumerate(decoder.codebook_):
        turned = X @ axes[part::3].T
        alone = make(ridge=decoder.ridge_).fit(turned, bits[:, 4 * part : 4 * part + 4])
        decoded = alone.codebook_[0] @ axes[part::3]
        np.testing.assert_allclose(entries, decoded, rtol=0, atol=1e-3)
        error += alone.error_
    assert decoder.error_ == pytest.approx(error, rel=1e-4)
    codes = np.array(list(itertools.product([0, 1], repeat=11)))
    errors = cdist(X, decoder.inverse_transform(codes), "sqeuclidean")
    decoder.save(tmp_path / "decoder")
    refined = skhash.load(tmp_path / "decoder").refine(rows(X))
    found = decoder.reconstruction_error(X, refined)
    np.testing.assert_allclose(found, errors.min(axis=1), rtol=1e-5)


@pytest.mark.parametrize("options", [{"block_bits": 1}, {"n_alternations": 0}])
def test_where_codes_are_kept_they_are_the_start(options):
    X = load_digits().data[:300]
    bits = np.random.default_rng(0).integers(0, 2, (len(X), 12))
    options = {"block_bits": 4, **options}
    decoder = LinearDecoder(start="residual", **options).fit(X, bits)
    expected = LinearDecoder(**options).fit(X, bits)
    np.testing.assert_array_equal(decoder.codebook_, expected.codebook_)
    np.testing.assert_array_equal(decoder.refine(X, bits), expected.refine(X, bits))
