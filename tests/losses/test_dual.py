"""DualHashLoss: the likelihood, the terms of solvers, and the state."""

import torch
from cases import each
from losses.test_solvers import COPYING, M, N, steps, uniform

from skhash.losses import DualHashLoss
from skhash.losses._dual import SOLVERS
from skhash.losses._objective import Training, pairwise_likelihood

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
