"""ScalableGraphHash against its similarities written out, row by row."""

import numpy as np
import pytest
import torch
from cases import each
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel

from skhash.linear import ScalableGraphHash, _scalable_graph
from skhash.linear._scalable_graph import learn_directions, similarity_of, whitening_of

E = np.e


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 8))
    return centers[rng.integers(0, 5, 200)] + 0.4 * rng.normal(size=(200, 8)) + 3


def transforms(X, rho):
    """P and Q of the paper, for rows centred and within a ball of radius 1."""
    damping = np.exp(-(X**2).sum(axis=1) / rho)[:, None]
    shared = [
        np.sqrt(2 * (E**2 - 1) / (E * rho)) * damping * X,
        np.sqrt((E**2 + 1) / E) * damping,
    ]
    ones = np.ones_like(damping)
    return np.hstack([*shared, ones]), np.hstack([*shared, -ones])


def scaled(X):
    centered = X - X.mean(axis=0)
    return centered / np.linalg.norm(centered, axis=1).max()


@each("rho", [2.0, 5.0])
def test_similarity_is_that_of_all_pairs(X, rho):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 6)).astype(np.float32)
    features -= features.mean(axis=0)
    P, Q = transforms(scaled(X), rho)
    expected = features.T.astype(float) @ (P @ Q.T) @ features
    found = similarity_of(X, X.mean(axis=0), rho, features)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_whitened_features_are_orthonormal(X):
    features = rbf_kernel(X, X[:30], gamma=0.2).astype(np.float32)
    features -= features.mean(axis=0)
    white = features @ whitening_of(features)
    np.testing.assert_allclose(white.T @ white, np.eye(30), atol=1e-2)
    # Anchors twice: what they span is white, and the rest is nothing.
    white = np.hstack([features, features]).astype(np.float32)
    white = white @ whitening_of(white)
    values = np.linalg.eigvalsh(white.T @ white)
    np.testing.assert_allclose(values[30:], 1, atol=1e-2)
    np.testing.assert_allclose(values[:30], 0, atol=1e-2)


def test_each_bit_solves_the_generalised_eigenproblem(X):
    """The paper's pass over the bits with all of R in memory, then one again."""
    features = rbf_kernel(X, X[:20], gamma=0.2).astype(np.float32)
    features -= features.mean(axis=0)
    whitening = whitening_of(features)
    white = (features @ whitening).astype(np.float32)
    n_bits, order = 6, np.array([0, 1, 2, 3, 4, 5, 3, 1])
    P, Q = transforms(scaled(X), 2.0)
    similarity = n_bits * similarity_of(X, X.mean(axis=0), 2.0, white)
    scatter = features.T.astype(float) @ features
    signs = {}
    for step, bit in enumerate(order, start=1):
        # Bits learned up to here do not depend on those after.
        so_far = learn_directions(white, similarity, order[:step], torch.device("cpu"))
        w = whitening @ so_far[bit]
        signs.pop(bit, None)
        residual = n_bits * P @ Q.T - sum(np.outer(b, b) for b in signs.values())
        left = features.T.astype(float) @ residual @ features
        value = (w @ left @ w) / (w @ scatter @ w)
        largest = eigh(left, scatter, eigvals_only=True)[-1]
        np.testing.assert_allclose(value, largest, rtol=1e-3)
        error = left @ w - value * scatter @ w
        assert np.linalg.norm(error) < 0.01 * np.linalg.norm(left @ w)
        signs[bit] = np.where(features @ w > 0, 1.0, -1.0)


@each("gamma", ["auto", 0.3])
def test_logits_are_projections_of_centred_kernel_features(X, gamma):
    encoder = ScalableGraphHash(n_bits=7, n_anchors=25, gamma=gamma, random_state=0)
    encoder.fit(X)
    anchors = encoder.anchors_ + encoder.mean_
    squares = ((X[:, None] - anchors) ** 2).sum(axis=2)
    width = 0.3 if gamma == 0.3 else 1 / (2 * squares.mean())
    np.testing.assert_allclose(encoder.gamma_, width, rtol=1e-6)
    features = np.exp(-encoder.gamma_ * squares)
    expected = (features - features.mean(axis=0)) @ encoder.coef_.T
    logits = encoder.decision_function(X)
    np.testing.assert_allclose(logits, expected, atol=1e-3)
    np.testing.assert_allclose(logits.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose((logits**2).mean(axis=0), 1, atol=0.01)


def test_a_kernel_that_tells_no_rows_apart_makes_dead_bits(X):
    with pytest.warns(UserWarning, match="4 of 4 bits are the same"):
        ScalableGraphHash(4, gamma=1e-30, random_state=0).fit(X)


def test_fit_draws_distinct_anchors_and_a_second_round(X, monkeypatch):
    calls = []

    def recorded(features, similarity, order, device):
        calls.append((features, similarity, order))
        return learn_directions(features, similarity, order, device)

    monkeypatch.setattr(_scalable_graph, "learn_directions", recorded)
    anchors = []
    for seed in (0, 1):
        encoder = ScalableGraphHash(n_bits=9, n_anchors=150, random_state=seed).fit(X)
        anchors.append(encoder.anchors_ + encoder.mean_)
        distances = np.linalg.norm(anchors[-1][:, None] - X, axis=2)
        drawn = distances.argmin(axis=1)
        assert distances.min(axis=1).max() < 1e-5 and len(set(drawn)) == 150
        features, similarity, order = calls[-1]
        expected = 9 * similarity_of(X, X.mean(axis=0), 2.0, features)
        np.testing.assert_allclose(similarity, expected)
        assert order[:9].tolist() == sorted(order[9:]) == list(range(9))
        assert order[9:].tolist() != list(range(9))
    assert np.abs(anchors[0] - anchors[1]).max() > 0.1
    assert calls[0][2].tolist() != calls[1][2].tolist()
