"""KMeansHash against brute force over centres and scikit-learn's k-means."""

import numpy as np
import pytest
import torch
from cases import each
from sklearn.cluster import KMeans

from skhash.linear import KMeansHash
from skhash.linear._kmeans import (
    affinity_kmeans,
    balanced_subspaces,
    corners,
    move_centers,
)


@pytest.fixture
def gaussian():
    rng = np.random.default_rng(0)
    return rng.normal(size=(500, 6)) * [3, 2.5, 2, 1.5, 1.2, 1] + 7


def squared_distances_by_subspace(encoder, X):
    """Of each row to each centre, a list of one array a subspace.

    Centres are orthogonal to those of other subspaces, so a row's part in a subspace
    only adds the same number to all its distances there.
    """
    ends = np.cumsum(2**encoder.subspace_bits_)
    centered = X - encoder.mean_
    for centers in np.split(encoder.components_.astype(float), ends[:-1]):
        yield ((centered[:, None] - centers) ** 2).sum(axis=2)


@pytest.mark.parametrize(("n_bits", "subspace_bits"), [(6, 2), (6, 4), (3, 1), (5, 12)])
def test_code_is_that_of_the_nearest_centers(gaussian, n_bits, subspace_bits):
    encoder = KMeansHash(n_bits=n_bits, subspace_bits=subspace_bits).fit(gaussian)
    bits, logits = [], []
    for squares in squared_distances_by_subspace(encoder, gaussian):
        codes = corners(int(np.log2(squares.shape[1])))
        bits.append(codes[squares.argmin(axis=1)])
        for code in codes.T:
            nearest = squares[:, ~code].min(axis=1), squares[:, code].min(axis=1)
            logits.append((nearest[0] - nearest[1]) / 2)
    np.testing.assert_allclose(
        encoder.decision_function(gaussian), np.transpose(logits), atol=1e-4
    )
    different = encoder.transform(gaussian) != np.concatenate(bits, axis=1)
    assert (np.abs(np.transpose(logits)[different]) < 1e-4).all()
    assert encoder.subspace_bits_.sum() == n_bits


def test_without_affinity_it_is_k_means(gaussian):
    rows = torch.from_numpy(gaussian[:, :3] - gaussian[:, :3].mean(axis=0)).float()
    centers, objective = affinity_kmeans(rows, weight=0.0, max_iter=200)
    assert len(objective) < 200
    assert (np.diff(objective[:, 0]) <= 1e-6).all()
    start = rows.abs().mean().item() * np.where(corners(3), 1.0, -1.0)
    expected = KMeans(8, init=start, n_init=1, max_iter=300, tol=0).fit(rows.numpy())
    np.testing.assert_allclose(centers, expected.cluster_centers_, atol=1e-4)
    np.testing.assert_allclose(objective[-1, 0], expected.inertia_ / 500, rtol=1e-4)


def random_problem(rng, n_bits, dimension):
    k = 2**n_bits
    shares = rng.dirichlet(np.ones(k))
    shares[0] = 0  # a centre without rows
    shares /= shares.sum()
    means = rng.normal(size=(k, dimension))
    hamming = (corners(n_bits)[:, None] != corners(n_bits)).sum(axis=2)
    return means, shares, 1.5 * np.sqrt(hamming)


def objective_of(centers, means, shares, targets, weight):
    """Up to the spread of the rows within their cells, written as loops."""
    value = sum(
        p * ((c - m) ** 2).sum() for p, c, m in zip(shares, centers, means, strict=True)
    )
    for i, p in enumerate(shares):
        for j, q in enumerate(shares):
            distance = np.linalg.norm(centers[i] - centers[j])
            value += weight * p * q * (distance - targets[i, j]) ** 2
    return value


@each("weight", [0.0, 0.3, 10.0, 1000.0])
@each("n_bits", [1, 2, 4])
def test_moves_never_raise_the_objective(weight, n_bits):
    rng = np.random.default_rng(0)
    means, shares, targets = random_problem(rng, n_bits, 3)
    centers = rng.normal(size=means.shape)
    centers[1] = centers[-1]  # one place for two
    values = [objective_of(centers, means, shares, targets, weight)]
    for _ in range(30):
        centers = move_centers(centers, means, shares, targets, weight)
        values.append(objective_of(centers, means, shares, targets, weight))
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < values[0]


@each("weight", [0.3, 3.0])
def test_moves_end_at_a_minimum(weight):
    rng = np.random.default_rng(0)
    means, shares, targets = random_problem(rng, 3, 3)
    centers = rng.normal(size=means.shape)
    for _ in range(1000):
        centers = move_centers(centers, means, shares, targets, weight)
    least = objective_of(centers, means, shares, targets, weight)
    for _ in range(50):
        step = 1e-3 * rng.normal(size=centers.shape)
        higher = objective_of(centers + step, means, shares, targets, weight)
        assert higher > least - 1e-9


def test_objective_is_the_error_of_the_reconstruction(gaussian):
    encoder = KMeansHash(n_bits=6, subspace_bits=3, max_iter=500).fit(gaussian)
    assert encoder.n_iter_ < 500
    total = np.zeros_like(gaussian)
    ends = np.cumsum(2**encoder.subspace_bits_)
    every = np.split(encoder.components_, ends[:-1])
    distances = squared_distances_by_subspace(encoder, gaussian)
    for centers, squares in zip(every, distances, strict=True):
        total += centers[squares.argmin(axis=1)]
    error = ((gaussian - encoder.mean_ - total) ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(encoder.objective_[-1, 0], error, rtol=1e-3)


def test_affinity_is_that_of_all_pairs_of_rows(gaussian):
    """Targets are edges and diagonals of the cube of half edge ``mean |x|``."""
    rows = gaussian[:, :3] - gaussian[:, :3].mean(axis=0)
    of_torch = torch.from_numpy(rows).float()
    centers, objective = affinity_kmeans(of_torch, weight=1.0, max_iter=500)
    assert len(objective) < 500
    nearest = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    found, codes = centers[nearest], corners(3)[nearest]
    distances = np.linalg.norm(found[:, None] - found, axis=2)
    hamming = (codes[:, None] != codes).sum(axis=2)
    targets = 2 * np.abs(rows).mean() * np.sqrt(hamming)
    error = ((distances - targets) ** 2).mean()
    np.testing.assert_allclose(objective[-1, 1], error, rtol=1e-4)


def test_axes_are_shared_out_in_equal_products():
    assert balanced_subspaces(np.array([8.0, 4, 2, 1]), [2, 2]) == [[0, 3], [1, 2]]
    # By products and not by sums, for which [1, 2, 3] would be shared out together.
    variances = np.array([16.0, 5, 5, 1, 1, 1])
    assert balanced_subspaces(variances, [3, 3]) == [[0, 3, 4], [1, 2, 5]]
    # The unit is of no account, and neither are axes without variance.
    assert balanced_subspaces(np.array([8.0, 4, 2, 1]) / 99, [2, 2]) == [[0, 3], [1, 2]]
    shared = balanced_subspaces(np.array([5.0, 4, 3, 2, 1, 0, 0]), [3, 3, 1])
    assert sorted(sum(shared, [])) == list(range(7))
    assert [len(own) for own in shared] == [3, 3, 1]
    assert all(own == sorted(own) for own in shared)
