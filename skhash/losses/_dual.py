"""A likelihood of pairs, with outputs that are pulled to -1 and +1: DualHash."""

import warnings

import torch

from skhash.losses._likelihood_of_pairs import pairwise_likelihood
from skhash.losses._objective import Objective, SupervisedLoss
from skhash.losses._ranges import AUTO, EPOCH, NOT_NEGATIVE, POSITIVE
from skhash.losses._solvers import SOLVERS, Solver, resolve_solver
from skhash.utils._sklearn import StrOptions

# The warning where the dual variable had no part in a fit.
INERT = (
    "The dual variable of solver={!r} stayed 0, so w_weight had no effect: with "
    "outputs in [-1, 1] it stays 0 if (1 + extrapolation) * u_step * penalty <= 1. Use "
    "solver='prox' or 'dual_dc', which apply the penalty, or a larger u_step."
)


class DualHashLoss(SupervisedLoss):
    r"""Likelihood of pairs, and a penalty by a copy of the outputs: DualHash.

    With outputs ``D = tanh(logits)`` of a network and the likelihood L of pairs (see
    Notes), the problem is to minimise ``L(D) + lambda mean | |D| - 1 |``, whose second
    term pulls outputs to -1 and +1. DualHash (2025) splits the outputs from a copy u of
    them, and writes the penalty of u by its conjugate:

    .. math::

        \min_{W, u} \max_{|v| \le \lambda} \; L(D) + \frac{1}{n m} \sum_{i, k}
        \Big[ \frac\rho2 (D_{ik} - u_{ik})^2 + u_{ik} v_{ik} - |v_{ik}| \Big]

    W are the weights of the network. Each row has its u and v, which are updated once
    an epoch, with the outputs of its batch.

    The printed algorithm, ``solver="dual"``, does not apply the penalty within [-1, 1]:
    maximising over v gives ``lambda max(|u| - 1, 0)``, which is zero there. And v stays
    0 if ``(1 + extrapolation) u_step penalty <= 1``, which holds by default and for the
    steps that were published: u and the extrapolated point
    ``u + (1 + extrapolation) u_step penalty (D - u)`` are then averages of numbers
    in [-1, 1], and the soft threshold of a v-step from v = 0 makes those 0. The other
    solvers apply the penalty.

    Parameters
    ----------
    solver : str, solver or None, default="prox"
        How outputs are pulled to signs: a name, or an object with parameters.

        * None: not at all; the likelihood alone.
        * "subgradient", `SubgradientSolver`: the penalty is part of the network's loss.
        * "dual", `DualSolver`: the printed algorithm, with u-steps along the gradient
          and v-steps by the proximal map of the conjugate.
        * "dual_dc", `DualDCSolver`: "dual" with the gradient of ``lambda max(1 - |u|,
          0)``, the part of the penalty that the conjugate loses, in the u-step.
        * "prox", `ProxSolver`: u-steps by the proximal map of the penalty, without v.
        * "wcr", `WeaklyConvexSolver`: the same for the weakly convex
          ``lambda |u^2 - 1|``.
    w_weight : float, default=0.01
        lambda. It has no effect without a solver, nor with "dual" while v stays 0.
    penalty : float, default=0.03
        rho: how strongly outputs and their copies pull at each other.
    warmup_epochs : int, default=5
        Epochs of the likelihood alone before outputs are pulled. If the encoder's
        `max_epochs` is no larger, there are no others.
    u_init : {"output", "itq"}, default="output"
        Where u starts: at the outputs after the warm-up, or at `skhash.ITQHash` codes
        of the rows.
    logit_scale : float or "auto", default="auto"
        How sure the likelihood is of a pair with the same code; see Notes. "auto" is
        ``15 / n_bits`` for balanced pairs, else ``5 / n_bits``.
    pair_weights : {None, "balanced"}, default="balanced"
        "balanced" gives the similar pairs of a batch as much weight as the others.

    Notes
    -----
    The likelihood is the mean over pairs of a batch of ``log(1 + exp t) - s t`` with
    ``t = logit_scale <D_i, D_j> / 2`` and s = 1 for rows that share a label, else 0. On
    rows that validate it is all there is.

    The paper's penalties are sums over bits; here they are means, so that `w_weight`
    and `penalty` mean the same for any number of bits and rows. Its u-step takes the
    outputs after the step of the network, here those before it. u and v take
    ``8 n_samples n_bits`` bytes.

    After the fit the encoder has ``dual_active_fraction_``, the share of entries of v
    that were not 0 after an update, over all updates; None for solvers without v.

    References
    ----------
    "DualHash: A stochastic primal-dual algorithm with theoretical guarantee for deep
    hashing", arXiv:2510.18218, 2025, equations (I.1), (P), (IV.1) to (IV.8).

    Examples
    --------
    >>> from skhash import SupervisedHash
    >>> from skhash.losses import DualSolver, DualHashLoss
    >>> encoder = SupervisedHash(loss=DualHashLoss(DualSolver(), penalty=0.1))
    >>> encoder.set_params(loss__w_weight=0.1, loss__solver__u_step=5.0).loss
    DualHashLoss(penalty=0.1, solver=DualSolver(u_step=5.0), w_weight=0.1)
    """

    _parameter_constraints: dict = {
        "solver": [StrOptions({*SOLVERS} - {None}), Solver, None],
        "w_weight": NOT_NEGATIVE,
        "penalty": POSITIVE,
        "warmup_epochs": EPOCH,
        "u_init": [StrOptions({"itq", "output"})],
        "logit_scale": AUTO,
        "pair_weights": [StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        solver="prox",
        w_weight=0.01,
        penalty=0.03,
        warmup_epochs=5,
        u_init="output",
        logit_scale="auto",
        pair_weights="balanced",
    ):
        self.solver = solver
        self.w_weight = w_weight
        self.penalty = penalty
        self.warmup_epochs = warmup_epochs
        self.u_init = u_init
        self.logit_scale = logit_scale
        self.pair_weights = pair_weights

    def objective(self, training):
        solver = resolve_solver(self.solver)
        if not solver.has_copy:
            return PenalizedObjective(self, solver)
        return CopyObjective(self, solver, training)


class PenalizedObjective(Objective):
    """The likelihood of pairs, and what a solver adds to it.

    Until the warm-up is over, and in validation, it is the likelihood.
    """

    epoch = 0

    def __init__(self, loss, solver):
        super().__init__(loss)
        self.solver = solver

    def start_epoch(self, epoch):
        self.epoch = epoch

    def forward(self, logits, labels, rows, X):
        outputs, loss = logits.tanh(), self.loss
        likelihood = pairwise_likelihood(
            outputs, labels, loss.logit_scale, loss.pair_weights
        )
        if not self.training or self.epoch < loss.warmup_epochs:
            return likelihood
        return likelihood + self.pull(outputs, rows)

    def pull(self, outputs, rows):
        """Return the term that pulls outputs to signs."""
        return self.solver.penalize(outputs, self.loss.w_weight)

    def results(self):
        return {"dual_active_fraction_": None}


class CopyObjective(PenalizedObjective):
    """The same with a copy of the outputs.

    The solver adds the mean over rows and bits of ``penalty / 2 (D - u)^2``, with u
    fixed, and updates u and v of the rows of the batch by the outputs of this batch.
    """

    def __init__(self, loss, solver, training):
        super().__init__(loss, solver)
        zeros = torch.zeros(training.n_samples, training.n_bits)
        u = training.itq_codes() if loss.u_init == "itq" else zeros.clone()
        self.register_buffer("u", u, persistent=False)
        self.register_buffer("v", zeros if solver.has_dual else None, persistent=False)
        # Entries of v that were updated, and that were not 0 then.
        n_updates = torch.zeros(2, dtype=torch.int64)
        self.register_buffer("n_updates", n_updates, persistent=False)

    def pull(self, outputs, rows):
        u = self.u[rows]
        if self.loss.u_init == "output" and self.epoch == self.loss.warmup_epochs:
            u = outputs.detach()
        term = self.loss.penalty / 2 * (outputs - u).square().mean()
        if self.remembers:
            self._update(rows, u, outputs.detach())
        return term

    def _update(self, rows, u, outputs):
        v = None if self.v is None else self.v[rows]
        weights = self.loss.w_weight, self.loss.penalty
        self.u[rows], v = self.solver.update(u, v, outputs, *weights)
        if v is not None:
            self.v[rows] = v
            self.n_updates[0] += v.numel()
            self.n_updates[1] += v.count_nonzero()

    def results(self):
        if self.v is None:
            return super().results()
        n_updated, n_active = self.n_updates.tolist()
        if n_updated and not n_active:
            warnings.warn(INERT.format(self.loss.solver), stacklevel=7)
        return {"dual_active_fraction_": n_active / max(n_updated, 1)}
