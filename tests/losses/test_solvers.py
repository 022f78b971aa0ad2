"""Proximal maps, and solvers with a copy: fixed points, the dual that stays zero."""

import numpy as np
import pytest
import torch
from cases import each

from skhash.losses._dual import (
    SOLVERS,
    conjugate_prox,
    soft_threshold,
    w_prox,
    weakly_convex_prox,
)

COPYING = [name for name in SOLVERS if SOLVERS[name]().has_copy]
# The penalty that each split applies to u, times `w_weight`. The dual's is the convex
# hull of W.
PENALTIES = {
    "dual": lambda u: (u.abs() - 1).clamp(min=0),
    "dual_dc": lambda u: (u.abs() - 1).abs(),
    "prox": lambda u: (u.abs() - 1).abs(),
    "wcr": lambda u: (u.square() - 1).abs(),
}

N, M = 12, 5


def steps(solver, w_weight=0.3, penalty=2.0, **params):
    """Return the update of a copy and its dual, as a function of the outputs too."""
    solver = SOLVERS[solver](**{"u_step": 0.25} | params)
    return lambda u, v, outputs: solver.update(u, v, outputs, w_weight, penalty)


def uniform(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(-1, 1, shape)
    return torch.from_numpy(values).float()


def iterate(solver, outputs, u, n, **params):
    update, v = steps(solver, **params), torch.zeros_like(u)
    for _ in range(n):
        u, v = update(u, v, outputs)
    return u, v


def test_every_solver_is_tested():
    assert PENALTIES.keys() == set(COPYING), "PENALTIES needs its penalty"
    assert set(SOLVERS) == {None, "subgradient", *COPYING}


@each("solver", COPYING)
def test_repeated_steps_end_at_the_minimum(solver):
    """Of ``rho/2 (u - D)^2 + lambda penalty(u)``, from u = D, against a fine grid."""
    outputs = torch.tensor([[-1.7, -1.05, -0.6, 0.2, 0.8, 1.4]])
    grid = torch.linspace(-2, 2, 4001)[:, None]
    values = (grid - outputs).square() + 0.3 * PENALTIES[solver](grid)
    u, _ = iterate(solver, outputs, outputs.clone(), 400)
    np.testing.assert_allclose(u[0], grid[values.argmin(dim=0), 0], atol=1.1e-3)


# The dual variable


@each("extrapolation", [0.0, 0.5, 1.0])
@each("weight", [0.05, 3.0])
@each("dual_step", [1e-3, 1.0, 30.0])
def test_the_dual_stays_zero_and_u_averages(extrapolation, weight, dual_step):
    """Outputs and u within [-1, 1] and (1 + extrapolation) tau rho = 1 (or less)."""
    # Exact in floating point: signs and halves make no rounding at the boundary.
    rate = {0.0: 1.0, 0.5: 0.5, 1.0: 0.5}[extrapolation]
    update = steps(
        "dual",
        w_weight=weight,
        penalty=2.0,
        u_step=rate / 2,
        dual_step=dual_step,
        extrapolation=extrapolation,
    )
    u, v = uniform(50, M, seed=1).sign(), torch.zeros(50, M)
    average = u.clone()
    for seed in range(40):
        outputs = uniform(50, M, seed=seed)
        u, v = update(u, v, outputs)
        average = (1 - rate) * average + rate * outputs
        assert not v.any()
    torch.testing.assert_close(u, average)


# Solvers that apply the penalty


def test_the_automatic_step_follows_the_penalty():
    """1 / (4 penalty) with a dual variable, else 1 / penalty."""
    outputs, u, v = (uniform(N, M, seed=seed) for seed in range(3))
    for solver in COPYING:
        share = 0.25 if SOLVERS[solver]().has_dual else 1.0
        for penalty in (0.5, 2.0):
            found = steps(solver, penalty=penalty, u_step="auto")(u, v, outputs)
            expected = steps(solver, penalty=penalty, u_step=share / penalty)
            for one, other in zip(found, expected(u, v, outputs), strict=True):
                assert torch.equal(one, other)


# Proximal maps

GRID = torch.linspace(-8, 8, 16001, dtype=torch.float64)  # in steps of 0.001
POINTS = torch.from_numpy(np.random.default_rng(0).uniform(-3, 3, 200))
POINTS = torch.cat([POINTS, torch.tensor([-1.0, 1.0])])


def brute_force(x, penalty):
    """Minimize (z - x)^2 / 2 + penalty(z) over a grid."""
    objective = (GRID - x[:, None]).square() / 2 + penalty(GRID)
    return GRID[objective.argmin(dim=1)]


@pytest.mark.parametrize(
    ("weight", "step"), [(0.05, 0.2), (0.5, 0.2), (0.5, 2.0), (2.0, 0.7), (2.0, 3.0)]
)
def test_proximal_maps_against_brute_force(weight, step):
    inside = torch.where(GRID.abs() <= weight, 0.0, torch.inf)
    for result, penalty in [
        (soft_threshold(POINTS, step), step * GRID.abs()),
        (conjugate_prox(POINTS, step, weight), step * GRID.abs() + inside),
        (w_prox(POINTS, step), step * (GRID.abs() - 1).abs()),
    ]:
        expected = brute_force(POINTS, lambda _, penalty=penalty: penalty)
        torch.testing.assert_close(result, expected, atol=1.1e-3, rtol=0)


@each("threshold", [0, 0.2, 0.49, 0.5, 0.51, 1, 2.5, 5])
def test_weakly_convex_prox_against_brute_force(threshold):
    result = weakly_convex_prox(POINTS, threshold)
    expected = brute_force(POINTS, lambda z: threshold * (z.square() - 1).abs())
    torch.testing.assert_close(result, expected, atol=1.1e-3, rtol=0)
    assert (result.sign() == POINTS.sign()).all()


def test_zero_goes_to_plus_one():
    zero = torch.zeros(1)
    assert w_prox(zero, 0.25) == 0.25 and w_prox(zero, 7.0) == 1.0
    assert weakly_convex_prox(zero, 0.49) == 0.0  # there is no jump yet
    assert weakly_convex_prox(zero, 0.5) == 1.0
