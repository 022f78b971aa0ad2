"""A likelihood of pairs, with outputs that are pulled to -1 and +1: DualHash.

Of the solvers, one without a copy of the outputs adds a term to the loss; one with a
copy u of them, which takes separate steps, lets outputs and copy pull at each other.
"""

import warnings
from abc import abstractmethod
from functools import partial
from typing import Annotated, Literal

import torch
from sklearn.base import BaseEstimator

from skhash.losses._objective import Objective, SupervisedLoss, pairwise_likelihood
from skhash.utils._sklearn import StrOptions
from skhash.utils.parameters import (
    CountFrom0,
    NotNegative,
    Positive,
    Share,
    resolved,
    with_parameters,
)

# The warning where the dual variable had no part in a fit.
INERT = (
    "The dual variable of solver={!r} stayed 0, so w_weight had no effect: with "
    "outputs in [-1, 1] it stays 0 if (1 + extrapolation) * u_step * penalty <= 1. Use "
    "solver='prox' or 'dual_dc', which do apply the penalty, or a larger u_step."
)


def soft_threshold(x, threshold) -> torch.Tensor:
    """Move values towards 0 by `threshold`, not past it."""
    return x.sign() * (x.abs() - threshold).clamp(min=0)


def conjugate_prox(x, step, weight) -> torch.Tensor:
    """Proximal map of the conjugate of the W penalty.

    The conjugate of ``g(u) = weight | |u| - 1 |`` is ``|v|`` on [-weight, weight] and
    infinite beyond, so the map is a soft threshold at `step`, then a clip.

    Parameters
    ----------
    x : Tensor
    step : float
        Any above 0.
    weight : float
    """
    return soft_threshold(x, step).clamp(-weight, weight)


def w_prox(x, threshold) -> torch.Tensor:
    """Proximal map of ``threshold | |x| - 1 |``.

    Values move towards the nearer of -1 and +1 by `threshold`, not past it. At 0, where
    both are as near, it is +1.
    """
    nearer = torch.where(x < 0, -1.0, 1.0)
    return nearer * (1 + soft_threshold(x.abs() - 1, threshold))


def weakly_convex_prox(x, threshold) -> torch.Tensor:
    """Proximal map of ``threshold |x^2 - 1|``.

    Values beyond [-1, 1] shrink, not past -1 and +1. Within, the objective
    ``threshold (1 - z^2) + (z - x)^2 / 2`` is convex for a threshold below 1/2: values
    stretch, and there is no jump. For 1/2 or more it is concave, least at an end:
    values become the nearer of -1 and +1, and 0 becomes +1.
    """
    nearer = torch.where(x < 0, -1.0, 1.0)
    beyond = (x.abs() / (1 + 2 * threshold)).clamp(min=1)
    if threshold >= 0.5:
        return nearer * beyond
    within = (x.abs() / (1 - 2 * threshold)).clamp(max=1)
    return nearer * within * beyond


class Solver(BaseEstimator):
    """Base class of solvers. It adds no penalty, as with ``solver=None``."""

    _parameter_constraints: dict = {}
    has_copy = has_dual = False

    def penalize(self, outputs, w_weight):
        """Return the term to add to the loss of the network."""
        return 0.0


class SubgradientSolver(Solver):
    """Solver that adds ``lambda | |D| - 1 |`` to the loss of the network."""

    def penalize(self, outputs, w_weight):
        return w_weight * (outputs.abs() - 1).abs().mean()


class CopySolver(Solver):
    """Base class of the solvers with a copy u of the outputs.

    With outputs D, ``lambda`` = `w_weight`, ``rho`` = `penalty` and ``tau`` = `u_step`,
    every step starts from ``u - tau rho (u - D)``.
    """

    has_copy = True
    # The value of u_step="auto", times the penalty.
    _auto_step = 1.0

    def update(self, u, v, outputs, w_weight, penalty):
        """Return the copy u, and the dual variable v, of these rows after a step."""
        u_step = self._auto_step / penalty if self.u_step == "auto" else self.u_step
        return self._update(u, v, penalty * (u - outputs), u_step, w_weight)

    @abstractmethod
    def _update(self, u, v, force, u_step, w_weight):
        """Return the new u and v; `force` draws u to the outputs."""


@with_parameters()
class ProxSolver(CopySolver):
    """Solver whose u-steps are the proximal map of ``lambda | |u| - 1 |``, without v.

    Parameters
    ----------
    u_step : float or "auto", default="auto"
        Step tau of u. "auto" is ``1 / penalty``, with which u becomes the proximal map
        of the outputs. For ``w_weight >= penalty`` (or half of that if weakly convex)
        these are their signs, so a larger weight has no further effect.
    weakly_convex : bool, default=False
        Whether to use the weakly convex penalty ``lambda |u^2 - 1|`` instead.

    Examples
    --------
    >>> from skhash.losses import DualHashLoss, ProxSolver
    >>> DualHashLoss(ProxSolver(u_step=0.5))
    DualHashLoss(solver=ProxSolver(u_step=0.5))
    """

    u_step: Positive | Literal["auto"] = "auto"
    weakly_convex: bool = False

    def _update(self, u, v, force, u_step, w_weight):
        prox = weakly_convex_prox if self.weakly_convex else w_prox
        return prox(u - u_step * force, u_step * w_weight), v


@with_parameters()
class DualSolver(CopySolver):
    """Solver of the printed algorithm, with a dual variable for the conjugate penalty.

    ``u+ = u - tau (rho (u - D) + v)``, and ``v+`` is the proximal map of the conjugate
    at ``v + dual_step (u+ + extrapolation (u+ - u))``. It does not apply the penalty
    within [-1, 1], and v usually stays 0; see `DualHashLoss`.

    Parameters
    ----------
    u_step : float or "auto", default="auto"
        Step tau of u. "auto" is ``1 / (4 penalty)``.
    dual_step : float, default=1.0
        Step of v.
    extrapolation : float, default=1.0
        How far the v-step extrapolates beyond the new u.
    whole : bool, default=False
        Whether to apply the whole penalty, a difference of convex functions. The u-step
        then also follows the gradient of ``lambda max(1 - |u|, 0)``, which the
        conjugate lacks.

    Examples
    --------
    >>> from skhash.losses import DualSolver, DualHashLoss
    >>> DualHashLoss(DualSolver(dual_step=0.5))
    DualHashLoss(solver=DualSolver(dual_step=0.5))
    """

    u_step: Positive | Literal["auto"] = "auto"
    dual_step: Positive = 1.0
    extrapolation: Share = 1.0
    whole: bool = False

    has_dual = True
    _auto_step = 0.25

    def _update(self, u, v, force, u_step, w_weight):
        force = force + v
        if self.whole:
            force = force - w_weight * u.sign() * (u.abs() < 1)
        moved = u - u_step * force
        ahead = moved + self.extrapolation * (moved - u)
        v = conjugate_prox(v + self.dual_step * ahead, self.dual_step, w_weight)
        return moved, v


SOLVERS = {
    None: Solver,
    "subgradient": SubgradientSolver,
    "prox": ProxSolver,
    "wcr": partial(ProxSolver, weakly_convex=True),
    "dual": DualSolver,
    "dual_dc": partial(DualSolver, whole=True),
}


@with_parameters()
class DualHashLoss(SupervisedLoss):
    r"""DualHash: likelihood of pairs, and a penalty on a copy of the outputs.

    With outputs ``D = tanh(logits)`` of a network and the likelihood L of pairs (see
    Notes), the problem is to minimize ``L(D) + lambda mean | |D| - 1 |``, whose second
    term pulls outputs to -1 and +1. DualHash (2025) introduces a copy u of the outputs,
    and expresses the penalty of u through its conjugate:

    .. math::

        \min_{\theta, u} \max_{|v| \le \lambda} \; L(D) + \frac{1}{n m} \sum_{i, k}
        \Big[ \frac\rho2 (D_{ik} - u_{ik})^2 + u_{ik} v_{ik} - |v_{ik}| \Big]

    The minimum is over the weights theta of the network and over u. Each row has its
    own u and v, which are updated once per epoch, with the outputs of its batch.

    The printed algorithm, ``solver="dual"``, does not apply the penalty within [-1, 1]:
    maximizing over v gives ``lambda max(|u| - 1, 0)``, which is zero there. Moreover, v
    stays 0 if ``(1 + extrapolation) u_step penalty <= 1``, which holds for the defaults
    and for the published steps: u and the extrapolated point
    ``u + (1 + extrapolation) u_step penalty (D - u)`` are then averages of numbers in
    [-1, 1], which the soft threshold of a v-step from v = 0 sets to 0. The other
    solvers do apply the penalty.

    Parameters
    ----------
    solver : str, solver or None, default="prox"
        How outputs are pulled to their signs: a name, or an object with parameters.

        * None: not at all; the likelihood alone.
        * "subgradient": the penalty is part of the network's loss.
        * "dual", `DualSolver`: the printed algorithm, with u-steps along the gradient
          and v-steps by the proximal map of the conjugate.
        * "dual_dc", ``DualSolver(whole=True)``: "dual" with the gradient of
          ``lambda max(1 - |u|, 0)``, which the conjugate loses, in the u-step.
        * "prox", `ProxSolver`: u-steps by the proximal map of the penalty, without v.
        * "wcr", ``ProxSolver(weakly_convex=True)``: the same for the weakly convex
          ``lambda |u^2 - 1|``.
    w_weight : float, default=0.01
        Weight lambda. It has no effect without a solver, or with "dual" while v stays
        0.
    penalty : float, default=0.03
        Weight rho: how strongly outputs and their copies attract each other.
    warmup_epochs : int, default=5
        Number of epochs with the likelihood alone, before outputs are pulled. They are
        all epochs if the encoder's `max_epochs` is not larger.
    logit_scale : float or "auto", default="auto"
        Scale of the products in the likelihood; see Notes. "auto" is ``15 / n_bits``
        for balanced pairs, otherwise ``5 / n_bits``.
    pair_weights : {None, "balanced"}, default="balanced"
        "balanced" gives similar and dissimilar pairs of a batch equal total weight.

    Notes
    -----
    The likelihood is the mean over pairs of a batch of ``log(1 + exp t) - s t``, with
    ``t = logit_scale <D_i, D_j> / 2``, and s = 1 for rows that share a label, otherwise
    0. The validation loss is the likelihood alone.

    The paper's penalties are sums over bits. Here they are means, so that `w_weight`
    and `penalty` mean the same for any number of bits and rows. The paper's u-step uses
    the outputs after the step of the network, this one those before it. u starts at the
    outputs after the warm-up; starting from ITQ codes, as the authors do, was worse,
    because these ignore labels. u and v need ``8 n_samples n_bits`` bytes.

    After the fit, the encoder has the attribute ``dual_active_fraction_``: the share of
    entries of v that were not 0 after an update, over all updates, or None for solvers
    without v.

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

    solver: Annotated[str, StrOptions({*SOLVERS} - {None})] | Solver | None = "prox"
    w_weight: NotNegative = 0.01
    penalty: Positive = 0.03
    warmup_epochs: CountFrom0 = 5
    logit_scale: Positive | Literal["auto"] = "auto"
    pair_weights: Literal["balanced"] | None = "balanced"

    def objective(self, training):
        solver = resolved(self.solver, SOLVERS, Solver, "solver")
        return DualHashObjective(self, solver, training)


class DualHashObjective(Objective):
    """The likelihood of pairs, plus the term of a solver.

    Until the warm-up is over, and in validation, it is the likelihood. A solver with a
    copy adds the mean over rows and bits of ``penalty / 2 (D - u)^2``, with u fixed,
    and updates u and v of the rows of the batch by the outputs of this batch.
    """

    def __init__(self, loss, solver, training):
        super().__init__(loss)
        self.solver = solver
        shape = training.n_samples, training.n_bits
        u = torch.zeros(shape) if solver.has_copy else None
        v = torch.zeros(shape) if solver.has_dual else None
        self.register_buffer("u", u, persistent=False)
        self.register_buffer("v", v, persistent=False)
        # Entries of v that were updated, and that were not 0 then.
        n_updates = torch.zeros(2, dtype=torch.int64)
        self.register_buffer("n_updates", n_updates, persistent=False)

    def forward(self, logits, labels, rows, X):
        outputs, loss = logits.tanh(), self.loss
        likelihood = pairwise_likelihood(
            outputs, labels, loss.logit_scale, loss.pair_weights
        )
        if not self.training or self.epoch < loss.warmup_epochs:
            return likelihood
        return likelihood + self._pull(outputs, rows)

    def _pull(self, outputs, rows):
        """Return the term that pulls outputs to signs."""
        if self.u is None:
            return self.solver.penalize(outputs, self.loss.w_weight)
        u = self.u[rows]
        if self.epoch == self.loss.warmup_epochs:
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
            return {"dual_active_fraction_": None}
        n_updated, n_active = self.n_updates.tolist()
        if n_updated and not n_active and not self.solver.whole:
            warnings.warn(INERT.format(self.loss.solver), stacklevel=7)
        return {"dual_active_fraction_": n_active / max(n_updated, 1)}
