"""Proximal maps against brute force, worked values and Moreau's identity."""

import numpy as np
import pytest
import torch

from skhash.losses._prox import (
    conjugate_prox,
    soft_threshold,
    w_prox,
    weakly_convex_prox,
)

GRID = torch.linspace(-8, 8, 16001, dtype=torch.float64)  # in steps of 0.001
POINTS = torch.from_numpy(np.random.default_rng(0).uniform(-3, 3, 200))
SETTINGS = [(0.05, 0.2), (0.5, 0.2), (0.5, 2.0), (2.0, 0.7), (2.0, 3.0)]


def brute_force(x, penalty):
    """Minimise (z - x)^2 / 2 + penalty(z) over a grid."""
    objective = (GRID - x[:, None]).square() / 2 + penalty(GRID)
    return GRID[objective.argmin(dim=1)]


def w_penalty(u, weight):
    return weight * (u.abs() - 1).abs()


def convex_hull(u, weight):
    """The largest convex function below the W penalty."""
    return weight * (u.abs() - 1).clamp(min=0)


@pytest.mark.parametrize(("weight", "step"), SETTINGS)
def test_against_brute_force(weight, step):
    inside = torch.where(GRID.abs() <= weight, 0.0, torch.inf)
    for result, penalty in [
        (soft_threshold(POINTS, step), step * GRID.abs()),
        (conjugate_prox(POINTS, step, weight), step * GRID.abs() + inside),
        (w_prox(POINTS, step), w_penalty(GRID, step)),
    ]:
        expected = brute_force(POINTS, lambda _, penalty=penalty: penalty)
        torch.testing.assert_close(result, expected, atol=1.1e-3, rtol=0)


@pytest.mark.parametrize("threshold", [0, 0.2, 0.49, 0.5, 0.51, 1, 2.5, 5])
def test_weakly_convex_prox_against_brute_force(threshold):
    result = weakly_convex_prox(POINTS, threshold)
    expected = brute_force(POINTS, lambda z: threshold * (z.square() - 1).abs())
    torch.testing.assert_close(result, expected, atol=1.1e-3, rtol=0)
    assert (result.sign() == POINTS.sign()).all()


@pytest.mark.parametrize("weight", [0.05, 0.5, 2.0])
def test_conjugate_by_definition(weight):
    """sup_u (u v - g(u)) is |v| up to `weight`, and grows without bound beyond it."""
    for share in (0.0, 0.3, -0.9, 1.0):
        v = share * weight
        assert (GRID * v - w_penalty(GRID, weight)).max() == pytest.approx(abs(v))
    slope = [
        (u * 1.1 * weight - w_penalty(u, weight)).item() for u in GRID[[-1000, -1]]
    ]
    assert slope[1] > slope[0]


def test_worked_values():
    # soft threshold by 0.2, then clip at 0.5
    x = torch.tensor([-2, -0.6, -0.1, 0.05, 0.3, 0.65, 0.7, 5], dtype=torch.float64)
    expected = torch.tensor([-0.5, -0.4, 0, 0, 0.1, 0.45, 0.5, 0.5]).double()
    torch.testing.assert_close(conjugate_prox(x, 0.2, 0.5), expected, atol=1e-7, rtol=0)
    # to the nearer of -1 and 1 by 0.3
    x = torch.tensor([-2, -0.9, 0.2, 0.69, 0.71, 1.2, 1.4, 0.05]).double()
    expected = torch.tensor([-1.7, -1, 0.5, 0.99, 1, 1, 1.1, 0.35]).double()
    torch.testing.assert_close(w_prox(x, 0.3), expected, atol=1e-7, rtol=0)
    # 1.5 / 1.2, the kink, 0.4 / 0.8, the maximum
    x = torch.tensor([1.5, 1.1, 0.4, 0.0]).double()
    expected = torch.tensor([1.25, 1.0, 0.5, 0.0]).double()
    torch.testing.assert_close(weakly_convex_prox(x, 0.1), expected, atol=1e-7, rtol=0)


def test_w_prox_at_zero_takes_plus():
    zero = torch.zeros(1)
    assert w_prox(zero, 0.25) == 0.25
    assert w_prox(zero, 7.0) == 1.0


def test_weakly_convex_prox_at_zero_takes_plus_once_it_jumps():
    zero = torch.zeros(1)
    assert weakly_convex_prox(zero, 0.49) == 0.0
    assert weakly_convex_prox(zero, 0.5) == 1.0


@pytest.mark.parametrize(("weight", "step"), SETTINGS)
def test_conjugate_prox_is_odd_nonexpansive_and_bounded(weight, step):
    result = conjugate_prox(POINTS, step, weight)
    torch.testing.assert_close(conjugate_prox(-POINTS, step, weight), -result)
    moved = (result[:, None] - result).abs()
    assert (moved <= (POINTS[:, None] - POINTS).abs() + 1e-15).all()
    assert result.abs().max() <= weight


def test_the_hull_and_the_concave_part_are_the_penalty():
    concave = 0.7 * (1 - GRID.abs()).clamp(min=0)
    torch.testing.assert_close(convex_hull(GRID, 0.7) + concave, w_penalty(GRID, 0.7))


@pytest.mark.parametrize(("weight", "step"), SETTINGS)
def test_moreau_identity_with_the_hull(weight, step):
    """x = prox_{s g*}(x) + s prox_{g** / s}(x / s); with g for g** it fails."""
    x = POINTS
    z, t = x / step, weight / step
    hull_prox = torch.where(
        z.abs() <= 1, z, z.sign() * torch.maximum(z.abs() - t, torch.ones(1).double())
    )
    result = conjugate_prox(x, step, weight)
    torch.testing.assert_close(result, x - step * hull_prox, atol=1e-12, rtol=0)
    assert (result - (x - step * w_prox(z, t))).abs().max() > 0.01


@pytest.mark.parametrize("threshold", [0.01, 0.3, 2.0])
def test_signs_are_the_fixed_points_of_the_w_prox(threshold):
    signs = torch.tensor([-1.0, 1.0])
    torch.testing.assert_close(w_prox(signs, threshold), signs, atol=0, rtol=0)
    others = torch.tensor([-1.5, -0.99, -0.3, 0.3, 0.99, 1.5])
    assert (w_prox(others, threshold) != others).all()
