"""Rotations of leading axes, where nested codes start."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse

from skhash.numerics import _rotation
from skhash.numerics._projection import principal_axes
from skhash.numerics._rotation import rotated_axes


def projected_rows(n=400, d=12, seed=0):
    """Rows of falling spread on their principal axes, in two groups."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, d) @ np.diag(np.linspace(3, 0.5, d))
    X[:, 0] += 4 * np.sign(rng.randn(n))
    X -= X.mean(axis=0)
    generator = torch.Generator().manual_seed(0)
    axes = principal_axes(X, np.zeros(d), d, torch.device("cpu"), generator)
    return torch.from_numpy(X @ axes.T).float()


@each("kind", [np.asarray, sparse.csr_array])
def test_axes_of_few_wide_rows_are_singular_vectors(kind):
    X = np.random.RandomState(0).randn(20, 50) * np.linspace(0.1, 3, 50)
    mean, generator = X.mean(axis=0), torch.Generator()
    axes = principal_axes(kind(X), mean, 20, torch.device("cpu"), generator)
    expected = np.linalg.svd(X - mean, full_matrices=False)[2]
    # The last one has no variance.
    np.testing.assert_allclose(
        np.abs(axes @ expected.T)[:19, :19], np.eye(19), atol=1e-5
    )
    np.testing.assert_allclose(axes @ axes.T, np.eye(20), atol=1e-12)


def directions_of(lengths, rows=None):
    rows = projected_rows() if rows is None else rows
    return rotated_axes(rows, lengths, torch.Generator().manual_seed(0))


@each("lengths", [[8], [4, 8], [3, 4, 12], [5, 12]])
def test_columns_of_a_block_are_orthonormal_on_its_axes_alone(lengths):
    directions = directions_of(lengths)
    assert directions.shape == (12, lengths[-1])
    for start, stop in pairwise([0, *lengths]):
        block = directions[:, start:stop]
        np.testing.assert_allclose(block.T @ block, np.eye(stop - start), atol=1e-12)
        np.testing.assert_array_equal(block[stop:], 0)
        assert (np.abs(block[:stop]).max(axis=1) > 0.01).all()


@each("lengths", [[40], [8, 16, 40], [12, 13], [8, 30]])
def test_bits_beyond_the_axes_are_more_rotations_of_all(lengths):
    directions = directions_of(lengths)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=0), 1, rtol=1e-12)
    assert directions.shape == (12, lengths[-1])
    for start, stop in pairwise([0, *lengths]):
        for first in range(start, stop, 12):
            block = directions[:, first : min(first + 12, stop)]
            np.testing.assert_allclose(
                block.T @ block, np.eye(block.shape[1]), atol=1e-12
            )
    similarity = np.abs(directions.T @ directions) - np.eye(lengths[-1])
    assert similarity.max() < 1 - 1e-3  # no bit is there twice


@each("n_bits", [4, 8, 12])
def test_rotations_lower_the_objective_of_itq(n_bits):
    """Most of the way to the best of twenty starts with a hundred steps."""
    rows = projected_rows()[:, :n_bits].numpy().astype(np.float64)

    def objective(rotation):
        turned = rows @ rotation
        return ((np.sign(turned) - turned) ** 2).sum(axis=1).mean()

    def converged(rng):
        rotation = np.linalg.qr(rng.randn(n_bits, n_bits))[0]
        for _ in range(100):
            left, _, right = np.linalg.svd(np.sign(rows @ rotation).T @ rows)
            rotation = (left @ right).T
        return objective(rotation)

    found = objective(directions_of([n_bits])[:n_bits])
    rng = np.random.RandomState(0)
    random = np.mean(
        [objective(np.linalg.qr(rng.randn(n_bits, n_bits))[0]) for _ in range(20)]
    )
    best = min(converged(rng) for _ in range(20))
    assert found < objective(np.eye(n_bits))
    assert found - best < (random - best) / 3


@pytest.mark.parametrize("n_used, step", [(100, 4), (399, 2), (400, 1), (500, 1)])
def test_rows_at_equal_steps_say_how_to_rotate(n_used, step, monkeypatch):
    rows = projected_rows()
    expected = directions_of([4, 12], rows[::step])
    monkeypatch.setattr(_rotation, "ROTATION_ROWS", n_used)
    np.testing.assert_array_equal(directions_of([4, 12], rows), expected)
    assert (directions_of([4, 12], rows[1:]) != expected).any()
