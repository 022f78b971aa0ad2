"""SphericalHash against the paper's iteration, written with plain pivots."""

import numpy as np
import pytest
import torch
from cases import each

from skhash.linear import SphericalHash, _spherical
from skhash.linear._spherical import products_with, spread_pivots


@pytest.fixture
def gaussian():
    return np.random.default_rng(0).normal(size=(600, 10))


def imbalance_of(bits):
    """Mean magnitude and standard deviation of what pairs of balls share too much."""
    quarter = len(bits) / 4
    overlaps = bits.T.astype(float) @ bits
    excess = overlaps[~np.eye(len(overlaps), dtype=bool)] / quarter - 1
    return np.abs(excess).mean(), excess.std()


@pytest.mark.parametrize(("n_rows", "n_inside"), [(600, 300), (599, 299)])
def test_half_of_the_rows_are_inside_each_ball(gaussian, n_rows, n_inside, monkeypatch):
    X = gaussian[:n_rows]
    for max_rows in (n_rows, 100):  # radii look at all rows, whatever moved the pivots
        monkeypatch.setattr(_spherical, "MAX_ROWS", max_rows)
        encoder = SphericalHash(n_bits=24, random_state=0).fit(X)
        assert (encoder.transform(X).sum(axis=0) == n_inside).all()
        assert encoder.decision_function(X).all()  # or else rounding would decide


def test_bits_say_who_is_inside(gaussian):
    encoder = SphericalHash(n_bits=12, random_state=0).fit(gaussian)
    pivots = encoder.pivots_ + encoder.mean_
    distances = np.linalg.norm(gaussian[:, None] - pivots, axis=2)
    np.testing.assert_allclose(
        encoder.decision_function(gaussian), encoder.radii_ - distances, atol=1e-5
    )


def test_moves_are_those_of_the_paper(gaussian):
    rng = np.random.default_rng(1)
    pivots = first = rng.normal(size=(9, 10)) * 0.3
    n, expected = len(gaussian), []
    for _ in range(6):
        distances = np.linalg.norm(gaussian[:, None] - pivots, axis=2)
        bits = distances <= np.sort(distances, axis=0)[n // 2 - 1]
        expected.append(imbalance_of(bits))
        overlaps = bits.T.astype(float) @ bits
        forces = np.zeros_like(pivots)
        for i in range(9):
            for j in range(9):
                if i != j:
                    strength = 0.5 * (overlaps[i, j] - n / 4) / (n / 4)
                    forces[i] += strength * (pivots[i] - pivots[j]) / 9
        assert np.abs(forces.sum(axis=0)).max() < 1e-12
        pivots = pivots + forces
    products, squares = products_with(
        gaussian, np.zeros(10), first, torch.device("cpu")
    )
    mixing, imbalance = spread_pivots(products, squares, first @ first.T, max_iter=5)
    # Float32 puts a row on the other side of a ball now and then.
    np.testing.assert_allclose(imbalance, expected, atol=0.01)
    # Forces sum to zero, so the sum of the pivots stays.
    np.testing.assert_allclose((mixing @ first).sum(axis=0), first.sum(axis=0))


def test_balls_share_a_quarter_of_the_rows(gaussian):
    encoder = SphericalHash(n_bits=16, random_state=0).fit(gaussian)
    imbalance = imbalance_of(encoder.transform(gaussian))
    np.testing.assert_allclose(imbalance, encoder.imbalance_[-1], atol=1e-3)
    assert 0 < encoder.n_iter_ < 100
    assert imbalance[0] <= 0.101 and imbalance[1] <= 0.151
    assert imbalance[0] < encoder.imbalance_[0, 0] / 2
    # Not one move too many.
    early = (encoder.imbalance_[:-1] <= [0.10, 0.15]).all(axis=1)
    assert not early.any()


def test_it_ends_where_balls_do_not_settle_with_the_best_of_them():
    # Ten points, many times each: balls hold whole groups, and shares are coarse.
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 20, axis=0)
    encoder = SphericalHash(n_bits=30, max_iter=40, random_state=0).fit(X)
    assert encoder.n_iter_ == 40
    best = encoder.imbalance_[:, 0].argmin()
    shorter = SphericalHash(n_bits=30, max_iter=int(best), random_state=0).fit(X)
    np.testing.assert_array_equal(shorter.pivots_, encoder.pivots_)
    assert np.isfinite(encoder.decision_function(X)).all()


def test_one_bit_needs_no_move(gaussian):
    encoder = SphericalHash(n_bits=1, random_state=0).fit(gaussian)
    assert encoder.n_iter_ == 0
    np.testing.assert_array_equal(encoder.imbalance_, [[0, 0]])


@pytest.mark.filterwarnings("ignore:.*bits are the same")
@each("n_bits", [4, 40])
def test_pivots_do_not_run_away_from_equal_rows(n_bits):
    X = np.zeros((100, 4))
    X[:5] = np.random.default_rng(0).normal(size=(5, 4))
    encoder = SphericalHash(n_bits, random_state=0).fit(X)
    assert np.abs(encoder.pivots_).max() < 20 * np.abs(X).max()


def test_the_first_of_the_best_moves_is_kept():
    """Of two points most moves change nothing of what balls share."""
    X = np.repeat(np.eye(2, 5), 50, axis=0)
    moved = SphericalHash(8, random_state=0).fit(X)
    first = int(moved.imbalance_[:, 0].argmin())
    still = SphericalHash(8, max_iter=first, random_state=0).fit(X)
    np.testing.assert_array_equal(moved.pivots_, still.pivots_)
