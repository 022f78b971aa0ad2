"""Linear encoders against independent implementations of the same mathematics."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skhash import ITQHash, PCAHash
from skhash.linear import RandomHyperplaneHash
from skhash.numerics import _projection
from skhash.numerics._rotation import fit_itq_rotation, random_rotation


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0]


@pytest.fixture
def gaussian():
    """A spectrum without ties, so that every axis is determined."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    return (rng.normal(size=(400, 20)) * 1.3 ** -np.arange(20.0)) @ mixing + 5


def principal_components(X, n_components):
    return PCA(n_components, svd_solver="full").fit(X).components_


def assert_same_axes(axes, expected, atol):
    """Equal up to the sign of each row."""
    signs = np.sign(np.einsum("ij,ij->i", axes, expected))
    np.testing.assert_allclose(axes * signs[:, None], expected, atol=atol)


def projection_of(components):
    """The orthogonal projection on the span of the rows."""
    return np.linalg.pinv(components) @ components


# PCAHash


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_axes_are_those_of_scikit_learn(gaussian, make, dtype):
    pca = PCAHash(n_bits=8).fit(make(gaussian.astype(dtype)))
    expected = principal_components(gaussian, 8)
    assert pca.components_.dtype == np.float32
    assert_same_axes(
        pca.components_, expected, atol=1e-3 if dtype == np.float32 else 1e-4
    )
    np.testing.assert_allclose(pca.mean_, gaussian.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(pca.intercept_, np.zeros(8))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("rows_a_chunk", [None, 17])
def test_subspace_iteration_finds_the_same_axes(
    gaussian, make, rows_a_chunk, monkeypatch
):
    monkeypatch.setattr(_projection, "MAX_COVARIANCE_WIDTH", 10)
    monkeypatch.setattr(_projection, "OVERSAMPLING", 4)
    if rows_a_chunk:
        budget = rows_a_chunk * gaussian[0].nbytes
        monkeypatch.setattr(_projection.dense_chunks, "__defaults__", (budget,))
    pca = PCAHash(n_bits=5, random_state=0).fit(make(gaussian))
    assert_same_axes(pca.components_, principal_components(gaussian, 5), atol=1e-3)


def test_sign_of_an_axis_does_not_hang_on_the_solver(gaussian, monkeypatch):
    exact = PCAHash(n_bits=5).fit(gaussian)
    monkeypatch.setattr(_projection, "MAX_COVARIANCE_WIDTH", 10)
    iterated = PCAHash(n_bits=5, random_state=0).fit(gaussian)
    np.testing.assert_allclose(iterated.components_, exact.components_, atol=1e-3)
    largest = np.abs(exact.components_).argmax(axis=1)
    assert (exact.components_[np.arange(5), largest] > 0).all()


def test_random_rotation_keeps_the_span(gaussian):
    plain = PCAHash(n_bits=6).fit(gaussian)
    rotated = PCAHash(n_bits=6, rotation="random", random_state=0).fit(gaussian)
    gram = rotated.components_ @ rotated.components_.T
    np.testing.assert_allclose(gram, np.eye(6), atol=1e-6)
    np.testing.assert_allclose(
        projection_of(rotated.components_), projection_of(plain.components_), atol=1e-4
    )
    other = PCAHash(n_bits=6, rotation="random", random_state=1).fit(gaussian)
    assert np.abs(other.components_ - rotated.components_).max() > 0.1


def test_random_rotations_are_uniform():
    """Each entry of a uniform rotation has mean 0 and variance 1 / size."""
    generator = torch.Generator().manual_seed(0)
    n = 2000
    draws = np.stack([random_rotation(3, generator).numpy() for _ in range(n)])
    gram = draws @ draws.transpose(0, 2, 1)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), gram.shape), atol=1e-12)
    assert np.abs(draws.mean(axis=0)).max() < 5 / np.sqrt(3 * n)
    # Fourth moment of an entry: 3 / (size (size + 2)).
    error = np.sqrt((3 / 15 - 1 / 9) / n)
    assert np.abs((draws**2).mean(axis=0) - 1 / 3).max() < 5 * error
    determinants = np.linalg.det(draws)
    assert abs((determinants > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(n)


# ITQHash


def itq_in_numpy(projected, rotation, n_iter):
    """Gong and Lazebnik's algorithm, step by step."""
    objective = []
    for _ in range(n_iter):
        codes = np.where(projected @ rotation > 0, 1.0, -1.0)
        error = codes - projected @ rotation
        objective.append((error**2).sum() / len(projected))
        left, _, right = np.linalg.svd(codes.T @ projected)
        rotation = right.T @ left.T
    return rotation, np.array(objective)


def test_same_steps_as_in_numpy(digits):
    X = (digits - digits.mean(axis=0)) / 10
    projected = X @ principal_components(X, 8).T
    start = random_rotation(8, torch.Generator().manual_seed(0))
    rotation, objective = fit_itq_rotation(
        torch.from_numpy(projected).float(), start, max_iter=5
    )
    expected_rotation, expected_objective = itq_in_numpy(projected, start.numpy(), 5)
    np.testing.assert_allclose(objective, expected_objective, rtol=1e-4)
    np.testing.assert_allclose(rotation.numpy(), expected_rotation, atol=1e-2)


def test_components_are_the_rotated_axes(digits):
    itq = ITQHash(n_bits=9, random_state=0).fit(digits)
    axes = PCAHash(n_bits=9).fit(digits).components_
    np.testing.assert_allclose(itq.components_, itq.rotation_.T @ axes, atol=1e-6)


# RandomHyperplaneHash


def test_collisions_estimate_the_angle():
    """P(bits differ) = angle / pi, within a z-bound over many hyperplanes."""
    n_bits, z = 50_000, 5
    angles = np.array([0.01, 0.3, 1.0, np.pi / 2, 2.5, 3.1])
    X = np.zeros((len(angles) + 1, 4))
    X[0, 1] = 2.0
    X[1:, 1] = 3 * np.cos(angles)
    X[1:, 3] = 3 * np.sin(angles)
    encoder = RandomHyperplaneHash(n_bits=n_bits, center=False, random_state=0)
    bits = encoder.fit_transform(X)
    differing = (bits[0] != bits[1:]).mean(axis=1)
    p = angles / np.pi
    assert (np.abs(differing - p) < z * np.sqrt(p * (1 - p) / n_bits)).all()


def test_angles_are_seen_from_the_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) + 100
    centred = RandomHyperplaneHash(n_bits=500, random_state=0).fit(X)
    around_origin = RandomHyperplaneHash(n_bits=500, center=False, random_state=0)
    around_origin.fit(X)
    np.testing.assert_array_equal(centred.components_, around_origin.components_)
    np.testing.assert_allclose(centred.mean_, X.mean(axis=0))
    np.testing.assert_array_equal(around_origin.mean_, np.zeros(6))
    # Far from the origin, all rows lie in nearly the same direction.
    assert (around_origin.transform(X).var(axis=0) == 0).mean() > 0.5
    assert (centred.transform(X).var(axis=0) == 0).mean() < 0.1
    shifted = around_origin.transform(X - X.mean(axis=0))
    np.testing.assert_array_equal(shifted, centred.transform(X))


def test_normalize_is_the_normalizer(digits):
    unit = digits / np.linalg.norm(digits, axis=1, keepdims=True)
    for encoder in (ITQHash(16), PCAHash(16), RandomHyperplaneHash(16)):
        expected = encoder.set_params(random_state=0).fit_transform(unit)
        inside = encoder.set_params(normalize=True).fit(digits)
        assert (inside.transform(digits) != expected).mean() < 0.001
        np.testing.assert_array_equal(
            inside.transform(digits * 8), inside.transform(digits)
        )
