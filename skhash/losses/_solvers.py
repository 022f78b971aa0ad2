"""How the outputs of a network are pulled to -1 and +1: the solvers of `DualHashLoss`.

A solver without a copy of the outputs adds a term to the loss; one with a copy u of
them, which takes steps of its own, lets outputs and copy pull at each other.
"""

from abc import abstractmethod

from sklearn.base import BaseEstimator

from skhash.losses._prox import conjugate_prox, w_prox, weakly_convex_prox
from skhash.losses._ranges import AUTO, POSITIVE, SHARE
from skhash.utils.strategies import resolved


class Solver(BaseEstimator):
    """No pull: the base of solvers, and what None is."""

    _parameter_constraints: dict = {}
    has_copy = has_dual = False

    def penalize(self, outputs, w_weight):
        """Return what is added to the loss of the network."""
        return 0.0


class SubgradientSolver(Solver):
    """The penalty ``lambda | |D| - 1 |`` as a part of the loss of the network.

    Examples
    --------
    >>> from skhash.losses import DualHashLoss, SubgradientSolver
    >>> DualHashLoss(SubgradientSolver())
    DualHashLoss(solver=SubgradientSolver())
    """

    def penalize(self, outputs, w_weight):
        return w_weight * (outputs.abs() - 1).abs().mean()


class CopySolver(Solver):
    """Base of the solvers with a copy of the outputs.

    With outputs D, ``lambda`` = `w_weight`, ``rho`` = `penalty`, ``tau`` = `u_step`,
    every step starts from ``u - tau rho (u - D)``.
    """

    _parameter_constraints: dict = {"u_step": AUTO}
    has_copy = True
    # The value of u_step="auto", times the penalty.
    _auto_step = 1.0

    def __init__(self, u_step="auto"):
        self.u_step = u_step

    def update(self, u, v, outputs, w_weight, penalty):
        """Return the copy u, and the dual variable v, of some rows after a step."""
        u_step = self._auto_step / penalty if self.u_step == "auto" else self.u_step
        return self._update(u, v, penalty * (u - outputs), u_step, w_weight)

    @abstractmethod
    def _update(self, u, v, force, u_step, w_weight):
        """Return the new u and v; `force` is what draws u to the outputs."""


class ProxSolver(CopySolver):
    """Steps of u by the proximal map of ``lambda | |u| - 1 |``, without v.

    Parameters
    ----------
    u_step : float or "auto", default="auto"
        tau, the step of u. "auto" is ``1 / penalty``, where u becomes the proximal map
        of the outputs: their signs from ``w_weight = penalty`` on, so that a larger
        weight changes nothing more.

    Examples
    --------
    >>> from skhash.losses import DualHashLoss, ProxSolver
    >>> DualHashLoss(ProxSolver(u_step=0.5))
    DualHashLoss(solver=ProxSolver(u_step=0.5))
    """

    _prox = staticmethod(w_prox)

    def _update(self, u, v, force, u_step, w_weight):
        return self._prox(u - u_step * force, u_step * w_weight), v


class WeaklyConvexSolver(ProxSolver):
    """As `ProxSolver` for the weakly convex penalty ``lambda |u^2 - 1|``.

    Parameters
    ----------
    u_step : float or "auto", default="auto"
        tau, the step of u. "auto" is ``1 / penalty``, where u becomes the proximal map
        of the outputs: their signs from ``w_weight = penalty / 2`` on.

    Examples
    --------
    >>> from skhash.losses import DualHashLoss, WeaklyConvexSolver
    >>> DualHashLoss(WeaklyConvexSolver(u_step=0.5))
    DualHashLoss(solver=WeaklyConvexSolver(u_step=0.5))
    """

    _prox = staticmethod(weakly_convex_prox)


class DualSolver(CopySolver):
    """The printed algorithm: the penalty of u by its conjugate, with a dual variable.

    ``u+ = u - tau (rho (u - D) + v)``, and ``v+`` is the proximal map of the conjugate
    at ``v + dual_step (u+ + extrapolation (u+ - u))``. It does not apply the penalty
    within [-1, 1], and mostly v stays 0; see `DualHashLoss`.

    Parameters
    ----------
    u_step : float or "auto", default="auto"
        tau, the step of u. "auto" is ``1 / (4 penalty)``.
    dual_step : float, default=1.0
        Step of v.
    extrapolation : float, default=1.0
        How far beyond the new u the v-step looks.

    Examples
    --------
    >>> from skhash.losses import DualSolver, DualHashLoss
    >>> DualHashLoss(DualSolver(dual_step=0.5))
    DualHashLoss(solver=DualSolver(dual_step=0.5))
    """

    _parameter_constraints: dict = {
        **CopySolver._parameter_constraints,
        "dual_step": POSITIVE,
        "extrapolation": SHARE,
    }
    has_dual = True
    _auto_step = 0.25

    def __init__(self, u_step="auto", dual_step=1.0, extrapolation=1.0):
        self.u_step = u_step
        self.dual_step = dual_step
        self.extrapolation = extrapolation

    def _update(self, u, v, force, u_step, w_weight):
        moved = u - u_step * self._pull(force + v, u, w_weight)
        ahead = moved + self.extrapolation * (moved - u)
        v = conjugate_prox(v + self.dual_step * ahead, self.dual_step, w_weight)
        return moved, v

    def _pull(self, force, u, w_weight):
        return force


class DualDCSolver(DualSolver):
    """`DualSolver` with the part of the penalty that the conjugate loses.

    The u-step follows the gradient of ``lambda max(1 - |u|, 0)`` too, so that the
    penalty, a difference of convex functions, is applied whole.

    Parameters
    ----------
    u_step : float or "auto", default="auto"
        tau, the step of u. "auto" is ``1 / (4 penalty)``.
    dual_step : float, default=1.0
        Step of v.
    extrapolation : float, default=1.0
        How far beyond the new u the v-step looks.

    Examples
    --------
    >>> from skhash.losses import DualDCSolver, DualHashLoss
    >>> DualHashLoss(DualDCSolver(extrapolation=0.5))
    DualHashLoss(solver=DualDCSolver(extrapolation=0.5))
    """

    def _pull(self, force, u, w_weight):
        return force - w_weight * u.sign() * (u.abs() < 1)


SOLVERS = {
    None: Solver,
    "subgradient": SubgradientSolver,
    "prox": ProxSolver,
    "wcr": WeaklyConvexSolver,
    "dual": DualSolver,
    "dual_dc": DualDCSolver,
}


def resolve_solver(solver) -> Solver:
    """Return the solver of a name, of None, or a clone of the solver itself."""
    return resolved(solver, SOLVERS, Solver, "solver")
