"""DualHashLoss: proximal maps, solvers, the likelihood, and the terms of solvers."""

import numpy as np
import pytest
import torch
from cases import each

from skhash.losses import DualHashLoss
from skhash.losses._dual import (
    SOLVERS,
    conjugate_prox,
    soft_threshold,
    w_prox,
    weakly_convex_prox,
)
from skhash.losses._objective import Training, pairwise_likelihood

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


LABELS = torch.arange(N)[:, None] % 3


def objective(solver, warmup_epochs=0, start="codes", **params):
    """Return an objective whose copy starts at numbers, or at outputs for None."""
    solver = SOLVERS[solver]() if solver in SOLVERS else solver
    if solver.has_copy:
        solver.set_params(**{"u_step": 0.25} | params)
    loss = DualHashLoss(
        solver,
        w_weight=0.3,
        penalty=2.0,
        warmup_epochs=warmup_epochs,
        logit_scale=1.0,
        pair_weights=None,
    )
    training = Training(
        n_bits=M, labels=LABELS, n_classes=3, encoder=None, generator=None
    )
    module = loss.objective(training)
    if solver.has_copy and start is not None:
        module.u.copy_(uniform(N, M, seed=3))
        module.start_epoch(warmup_epochs + 1)
    return module


def gradient(module, logits, rows=None):
    rows = torch.arange(N) if rows is None else rows
    logits = logits[rows].clone().requires_grad_()
    module(logits, LABELS[rows], rows, None).backward()
    return logits.grad


LOGITS = 2 * uniform(N, M, seed=5)


@each("solver", COPYING)
def test_the_split_pulls_at_the_network(solver):
    """The gradient gains rho (D - u) (1 - D^2) / (n m); u is not differentiated."""
    module, plain = objective(solver), objective(None)
    u, outputs = module.u.clone(), LOGITS.tanh()
    pull = 2.0 * (outputs - u) * (1 - outputs**2) / (N * M)
    torch.testing.assert_close(gradient(module, LOGITS), gradient(plain, LOGITS) + pull)


def test_subgradient_is_the_penalty_on_the_outputs():
    """|D| < 1, so the slope of lambda (1 - |D|) is -lambda sign(D)."""
    outputs = LOGITS.tanh()
    pull = -0.3 * outputs.sign() * (1 - outputs**2) / (N * M)
    difference = gradient(objective("subgradient"), LOGITS) - gradient(
        objective(None), LOGITS
    )
    torch.testing.assert_close(difference, pull, atol=1e-7, rtol=1e-4)


def test_none_is_the_likelihood():
    loss = objective(None)(LOGITS, LABELS, torch.arange(N), None)
    expected = pairwise_likelihood(LOGITS.tanh(), LABELS, logit_scale=1.0)
    torch.testing.assert_close(loss, expected)


@each("solver", [s for s in SOLVERS if s is not None])
def test_the_likelihood_alone_in_warm_up_and_validation(solver):
    plain = gradient(objective(None), LOGITS)
    warming = objective(solver, warmup_epochs=2)
    warming.start_epoch(1)
    torch.testing.assert_close(gradient(warming, LOGITS), plain, atol=0, rtol=0)
    validating = objective(solver).eval()
    torch.testing.assert_close(gradient(validating, LOGITS), plain, atol=0, rtol=0)
    warming.start_epoch(3)
    assert not torch.equal(gradient(warming, LOGITS), plain)


@each("solver", COPYING)
def test_rows_of_the_batch_step_once_and_others_stay(solver):
    module = objective(solver, u_step=0.4)
    rows = torch.tensor([7, 2, 9])
    u, v = module.u.clone(), torch.zeros(N, M)
    u[rows], v[rows] = steps(solver, u_step=0.4)(u[rows], v[rows], LOGITS[rows].tanh())
    gradient(module, LOGITS, rows)
    torch.testing.assert_close(module.u, u, atol=0, rtol=0)
    if SOLVERS[solver]().has_dual:
        torch.testing.assert_close(module.v, v, atol=0, rtol=0)
        n_active = module.v.count_nonzero().item()
        assert module.n_updates.tolist() == [3 * M, n_active]


def test_u_starts_at_the_outputs_after_the_warm_up():
    """With u = D there is no pull in that epoch; with other outputs there is later."""
    module = objective("prox", warmup_epochs=1, start=None)
    plain = gradient(objective(None), LOGITS)
    for epoch in (0, 1):
        module.start_epoch(epoch)
        torch.testing.assert_close(gradient(module, LOGITS), plain, atol=0, rtol=0)
    expected, _ = steps("prox")(LOGITS.tanh(), None, LOGITS.tanh())
    torch.testing.assert_close(module.u, expected)
    module.start_epoch(2)
    assert not torch.equal(gradient(module, LOGITS), plain)
