"""Pulling the outputs of a network to -1 and +1 by a split copy of them."""

from dataclasses import dataclass

import torch

from skhash.losses._objective import Objective
from skhash.losses._prox import conjugate_prox, w_prox, weakly_convex_prox

# Solvers with a split copy of the outputs, and those of them with a dual variable.
SPLIT_SOLVERS = ("dual", "dual_dc", "prox", "wcr")
DUAL_SOLVERS = ("dual", "dual_dc")


@dataclass(frozen=True)
class SplitSteps:
    """One update of the split copy u, and the dual variable v, of some rows.

    With outputs D, ``lambda`` = `w_weight`, ``rho`` = `penalty`, ``tau`` = `u_step`:

    * "dual": ``u+ = u - tau (rho (u - D) + v)``, then ``v+`` is `conjugate_prox` of
      ``v + dual_step (u+ + extrapolation (u+ - u))``.
    * "dual_dc": as "dual", but ``u+`` has ``v - lambda sign(u) [|u| < 1]`` for v: the
      gradient of the concave part of the penalty, which the dual leaves out.
    * "prox": ``u+`` is `w_prox` of ``u - tau rho (u - D)`` with threshold
      ``tau lambda``.
    * "wcr": the same with `weakly_convex_prox`.
    """

    solver: str
    w_weight: float
    penalty: float
    u_step: float
    dual_step: float
    extrapolation: float

    def __call__(self, u, v, outputs):
        """Return the new u and v."""
        force = self.penalty * (u - outputs)
        if self.solver in DUAL_SOLVERS:
            force = force + v
        if self.solver == "dual_dc":
            force = force - self.w_weight * u.sign() * (u.abs() < 1)
        moved = u - self.u_step * force
        if self.solver == "prox":
            return w_prox(moved, self.u_step * self.w_weight), v
        if self.solver == "wcr":
            return weakly_convex_prox(moved, self.u_step * self.w_weight), v
        ahead = moved + self.extrapolation * (moved - u)
        v = conjugate_prox(v + self.dual_step * ahead, self.dual_step, self.w_weight)
        return moved, v


class SplitObjective(Objective):
    """The likelihood of pairs, and the W penalty by one of the solvers.

    Outputs are ``D = tanh(logits)``. Until `warmup_epochs` are over, and in validation,
    the objective is the likelihood. Then solvers with a split add the mean over rows
    and bits of ``penalty / 2 (D - u)^2``, with u fixed, and update u and v of the rows
    of the batch by the outputs of this batch; "subgradient" adds the mean of
    ``w_weight | |D| - 1 |``.

    Parameters
    ----------
    likelihood : callable
        Maps codes and labels to a loss.
    steps : SplitSteps
    shape : tuple (n_samples, n_bits)
    warmup_epochs : int
    start : Tensor of shape (n_samples, n_bits) or None
        The first u; None takes the outputs of the first epoch after the warm-up.
    """

    # While true, batches leave no trace in u and v.
    frozen = False

    def __init__(self, likelihood, steps, shape, warmup_epochs, start=None):
        super().__init__()
        self.likelihood, self.steps = likelihood, steps
        self.warmup_epochs, self.takes_outputs = warmup_epochs, start is None
        self.epoch = 0
        u = v = None
        if steps.solver in SPLIT_SOLVERS:
            u = torch.zeros(shape) if start is None else start
        if steps.solver in DUAL_SOLVERS:
            v = torch.zeros(shape)
        self.register_buffer("u", u, persistent=False)
        self.register_buffer("v", v, persistent=False)
        # Entries of v that were updated, and that were not 0 then.
        n_updates = torch.zeros(2, dtype=torch.int64)
        self.register_buffer("n_updates", n_updates, persistent=False)

    def start_epoch(self, epoch):
        self.epoch = epoch

    def forward(self, logits, labels, rows, X):
        outputs = logits.tanh()
        loss = self.likelihood(outputs, labels)
        if not self.training or self.epoch < self.warmup_epochs:
            return loss
        if self.steps.solver == "subgradient":
            return loss + self.steps.w_weight * (outputs.abs() - 1).abs().mean()
        if self.steps.solver == "none":
            return loss
        u = self.u[rows]
        if self.takes_outputs and self.epoch == self.warmup_epochs:
            u = outputs.detach()
        loss = loss + self.steps.penalty / 2 * (outputs - u).square().mean()
        if not self.frozen:
            self._update(rows, u, outputs.detach())
        return loss

    def _update(self, rows, u, outputs):
        v = None if self.v is None else self.v[rows]
        self.u[rows], v = self.steps(u, v, outputs)
        if v is not None:
            self.v[rows] = v
            self.n_updates[0] += v.numel()
            self.n_updates[1] += v.count_nonzero()
