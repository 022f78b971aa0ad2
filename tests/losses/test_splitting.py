"""The split solvers: fixed points, the dual that stays zero, and its boundary."""

import numpy as np
import pytest
import torch

from skhash import DualHashEncoder
from skhash.losses._likelihood_of_pairs import PairwiseLikelihood
from skhash.losses._prox import w_prox, weakly_convex_prox
from skhash.losses._splitting import SPLIT_SOLVERS, SplitObjective, SplitSteps

(OF_ENCODER,) = DualHashEncoder._parameter_constraints["split_solver"]
SOLVERS = sorted(OF_ENCODER.options)
# What each split applies to u, times `w_weight`. The dual's is the convex hull of W.
PENALTIES = {
    "dual": lambda u: (u.abs() - 1).clamp(min=0),
    "dual_dc": lambda u: (u.abs() - 1).abs(),
    "prox": lambda u: (u.abs() - 1).abs(),
    "wcr": lambda u: (u.square() - 1).abs(),
}

N, M = 12, 5
LABELS = torch.arange(N)[:, None] % 3


def steps(solver, **params):
    defaults = {
        "w_weight": 0.3,
        "penalty": 2.0,
        "u_step": 0.25,
        "dual_step": 1.0,
        "extrapolation": 1.0,
    }
    return SplitSteps(solver, **defaults | params)


def uniform(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(-1, 1, shape)
    return torch.from_numpy(values).float()


def iterate(solver, outputs, u, n, **params):
    update, v = steps(solver, **params), torch.zeros_like(u)
    for _ in range(n):
        u, v = update(u, v, outputs)
    return u, v


def test_every_solver_is_tested():
    assert PENALTIES.keys() == set(SPLIT_SOLVERS), "PENALTIES needs its penalty"
    assert set(SOLVERS) == {"none", "subgradient", *SPLIT_SOLVERS}


@pytest.mark.parametrize("solver", SPLIT_SOLVERS)
def test_repeated_steps_end_at_the_minimum(solver):
    """Of ``rho/2 (u - D)^2 + lambda penalty(u)``, from u = D, against a fine grid."""
    outputs = torch.tensor([[-1.7, -1.05, -0.6, 0.2, 0.8, 1.4]])
    grid = torch.linspace(-2, 2, 4001)[:, None]
    values = (grid - outputs).square() + 0.3 * PENALTIES[solver](grid)
    u, _ = iterate(solver, outputs, outputs.clone(), 400)
    np.testing.assert_allclose(u[0], grid[values.argmin(dim=0), 0], atol=1.1e-3)


# The dual variable


@pytest.mark.parametrize("extrapolation", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", [0.05, 3.0])
@pytest.mark.parametrize("dual_step", [1e-3, 1.0, 30.0])
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


def test_the_boundary_of_the_inert_region():
    """From u = -1 to D = 1 the extrapolated point is 4 tau rho - 1: v = that - 1."""
    for rate, expected in [(0.5, 0.0), (0.6, 0.4), (1.0, 2.0)]:
        _, v = iterate(
            "dual", torch.ones(1, 1), -torch.ones(1, 1), 1, u_step=rate / 2, w_weight=9
        )
        assert v.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("weight", [0.05, 0.5])
def test_outputs_beyond_one_move_the_dual(weight):
    """At D = 1.5 the hull has slope lambda: u = D - lambda / rho, v = lambda."""
    u, v = iterate(
        "dual", torch.full((1, 1), 1.5), torch.zeros(1, 1), 400, w_weight=weight
    )
    assert v.item() == pytest.approx(weight, rel=1e-5)
    assert u.item() == pytest.approx(1.5 - weight / 2, rel=1e-5)


def test_the_dual_pulls_no_output_to_a_sign():
    u, _ = iterate("dual", torch.full((1, 1), 0.5), torch.zeros(1, 1), 400)
    assert u.item() == pytest.approx(0.5)


# Solvers that apply the penalty


@pytest.mark.parametrize("output", [0.5, -0.2])
def test_the_corrected_dual_minimises_the_penalty(output):
    """Within [-1, 1]: the minimum of rho/2 (u - D)^2 + lambda (1 - |u|)."""
    u, _ = iterate(
        "dual_dc", torch.full((1, 1), output), torch.full((1, 1), output), 400
    )
    expected = w_prox(torch.tensor(output), 0.3 / 2)
    assert u.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("solver", "prox"), [("prox", w_prox), ("wcr", weakly_convex_prox)]
)
def test_a_full_step_is_the_proximal_map_of_the_outputs(solver, prox):
    outputs = 1.5 * uniform(N, M)
    u, v = iterate(solver, outputs, uniform(N, M, seed=1), 1, u_step=0.5)
    torch.testing.assert_close(u, prox(outputs, 0.3 / 2))
    assert not v.any()


@pytest.mark.parametrize("solver", ["prox", "wcr", "dual_dc"])
def test_repeated_steps_do_not_increase_the_penalised_distance(solver):
    outputs, u = uniform(N, M), uniform(N, M, seed=1)
    v = torch.zeros_like(u)
    values = []
    for _ in range(20):
        shortfall = 1 - u.square() if solver == "wcr" else 1 - u.abs()
        values.append(((u - outputs).square() + 0.3 * shortfall.abs()).sum().item())
        u, v = steps(solver, u_step=0.1)(u, v, outputs)
    if solver == "dual_dc":  # until the first u passes 1, where v starts to act
        values = values[:2]
    assert np.all(np.diff(values) <= 1e-6) and values[-1] < values[0]


# The objective


def objective(solver, warmup_epochs=0, start="zeros", **params):
    likelihood = PairwiseLikelihood(M, logit_scale=1.0)
    start = uniform(N, M, seed=3) if start == "zeros" else start
    return SplitObjective(
        likelihood, steps(solver, **params), (N, M), warmup_epochs, start
    )


def gradient(module, logits, rows=None):
    rows = torch.arange(N) if rows is None else rows
    logits = logits[rows].clone().requires_grad_()
    module(logits, LABELS[rows], rows, None).backward()
    return logits.grad


LOGITS = 2 * uniform(N, M, seed=5)


@pytest.mark.parametrize("solver", SPLIT_SOLVERS)
def test_the_split_pulls_at_the_network(solver):
    """The gradient gains rho (D - u) (1 - D^2) / (n m); u is not differentiated."""
    module, plain = objective(solver), objective("none")
    u, outputs = module.u.clone(), LOGITS.tanh()
    pull = 2.0 * (outputs - u) * (1 - outputs**2) / (N * M)
    torch.testing.assert_close(gradient(module, LOGITS), gradient(plain, LOGITS) + pull)


def test_subgradient_is_the_penalty_on_the_outputs():
    """|D| < 1, so the slope of lambda (1 - |D|) is -lambda sign(D)."""
    outputs = LOGITS.tanh()
    pull = -0.3 * outputs.sign() * (1 - outputs**2) / (N * M)
    difference = gradient(objective("subgradient"), LOGITS) - gradient(
        objective("none"), LOGITS
    )
    torch.testing.assert_close(difference, pull, atol=1e-7, rtol=1e-4)


def test_none_is_the_likelihood():
    loss = objective("none")(LOGITS, LABELS, torch.arange(N), None)
    expected = PairwiseLikelihood(M, logit_scale=1.0)(LOGITS.tanh(), LABELS)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("solver", [s for s in SOLVERS if s != "none"])
def test_the_likelihood_alone_in_warm_up_and_validation(solver):
    plain = gradient(objective("none"), LOGITS)
    warming = objective(solver, warmup_epochs=2)
    warming.start_epoch(1)
    torch.testing.assert_close(gradient(warming, LOGITS), plain, atol=0, rtol=0)
    validating = objective(solver).eval()
    torch.testing.assert_close(gradient(validating, LOGITS), plain, atol=0, rtol=0)
    warming.start_epoch(2)
    assert not torch.equal(gradient(warming, LOGITS), plain)


@pytest.mark.parametrize("solver", SPLIT_SOLVERS)
def test_rows_of_the_batch_step_once_and_others_stay(solver):
    module = objective(solver, u_step=0.4)
    rows = torch.tensor([7, 2, 9])
    u, v = module.u.clone(), torch.zeros(N, M)
    u[rows], v[rows] = steps(solver, u_step=0.4)(u[rows], v[rows], LOGITS[rows].tanh())
    gradient(module, LOGITS, rows)
    torch.testing.assert_close(module.u, u, atol=0, rtol=0)
    if solver.startswith("dual"):
        torch.testing.assert_close(module.v, v, atol=0, rtol=0)
        n_active = module.v.count_nonzero().item()
        assert module.n_updates.tolist() == [3 * M, n_active]


def test_frozen_batches_leave_no_trace():
    module = objective("dual_dc", u_step=0.4)
    before = module.u.clone()
    module.frozen = True
    first = gradient(module, LOGITS)
    assert torch.equal(module.u, before) and not module.n_updates.any()
    module.frozen = False
    assert torch.equal(gradient(module, LOGITS), first)
    assert not torch.equal(module.u, before)


def test_u_starts_at_the_outputs_after_the_warm_up():
    """With u = D there is no pull in that epoch; with other outputs there is later."""
    module = objective("prox", warmup_epochs=1, start=None)
    plain = gradient(objective("none"), LOGITS)
    for epoch in (0, 1):
        module.start_epoch(epoch)
        torch.testing.assert_close(gradient(module, LOGITS), plain, atol=0, rtol=0)
    moved = SplitSteps("prox", 0.3, 2.0, 0.25, 1.0, 1.0)
    expected, _ = moved(LOGITS.tanh(), None, LOGITS.tanh())
    torch.testing.assert_close(module.u, expected)
    module.start_epoch(2)
    assert not torch.equal(gradient(module, LOGITS), plain)
