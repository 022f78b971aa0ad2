"""Gradient estimators for Bernoulli units, as exchangeable parts."""

from functools import partial

from sklearn.base import clone

from skhash.gradients._antithetic import ARM, DisARM
from skhash.gradients._base import BernoulliUnits, GradientEstimator, LayerwiseGradient
from skhash.gradients._exact import Exact
from skhash.gradients._exact_network import ExactNetwork
from skhash.gradients._flips import LocalExpectation
from skhash.gradients._gumbel import GumbelSoftmax, STGumbel
from skhash.gradients._network import (
    FunctionwiseNetwork,
    LayerwiseNetwork,
    NetworkGradient,
)
from skhash.gradients._propagation import ADF, LocalReparam
from skhash.gradients._psa import PSA
from skhash.gradients._score import MuProp, Reinforce, ReinforceLOO
from skhash.gradients._straight_through import (
    ZGR,
    DeterministicST,
    HardST,
    IdentityST,
    MeanField,
    StraightThrough,
)
from skhash.gradients.report._result import GradientReport
from skhash.gradients.report._run import gradient_report

__all__ = [
    "ADF",
    "ARM",
    "BernoulliUnits",
    "DeterministicST",
    "DisARM",
    "Exact",
    "GradientEstimator",
    "GradientReport",
    "GumbelSoftmax",
    "HardST",
    "IdentityST",
    "LayerwiseGradient",
    "LocalExpectation",
    "LocalReparam",
    "MeanField",
    "MuProp",
    "PSA",
    "Reinforce",
    "ReinforceLOO",
    "STGumbel",
    "StraightThrough",
    "ZGR",
    "gradient_report",
]

GRADIENTS = {
    "arm": ARM,
    "bitflip": partial(LocalExpectation, n_flips=1),
    "det_st": DeterministicST,
    "disarm": DisARM,
    "exact": Exact,
    "gumbel": GumbelSoftmax,
    "hard_st": HardST,
    "identity_st": IdentityST,
    "local_expectation": LocalExpectation,
    "muprop": MuProp,
    "reinforce": Reinforce,
    "rloo": ReinforceLOO,
    "st": StraightThrough,
    "st_gumbel": STGumbel,
    "tanh": MeanField,
    "zgr": ZGR,
}

NETWORK_GRADIENTS = {
    "adf": ADF,
    "exact_network": ExactNetwork,
    "local_reparam": LocalReparam,
    "psa": PSA,
}
ALL_GRADIENTS = GRADIENTS | NETWORK_GRADIENTS


def resolve_gradient(gradient, parameter="gradient") -> GradientEstimator:
    """Return a new gradient estimator by its name, or a clone of the given one.

    Parameters
    ----------
    gradient : str or GradientEstimator
    parameter : str, default="gradient"
        Name of the caller's parameter, for error messages.

    Raises
    ------
    TypeError
        If it is an estimator for whole networks.
    ValueError
        If it is not an estimator of this package.

    Examples
    --------
    >>> from skhash.gradients import resolve_gradient
    >>> resolve_gradient("st_gumbel")
    STGumbel()
    """
    estimator = _fresh(gradient, GRADIENTS, parameter)
    if isinstance(estimator, NetworkGradient):
        raise TypeError(
            f"{parameter}={estimator!r} works on the layers of a stochastic binary "
            f"network, and {type(estimator).__name__} has no `surrogate` for the units "
            "of one layer; use LocalExpectation ('local_expectation') or ZGR ('zgr')."
        )
    return estimator


def resolve_network_gradient(gradient) -> NetworkGradient:
    """Return a network-wise estimator from an estimator of any kind.

    Parameters
    ----------
    gradient : str, GradientEstimator or NetworkGradient

    Raises
    ------
    TypeError
        If it needs information that a network does not have, or works for a single
        layer only.
    ValueError
        If it is not an estimator of this package.

    Examples
    --------
    >>> from skhash.gradients import resolve_network_gradient
    >>> resolve_network_gradient("psa")
    PSA()
    >>> resolve_network_gradient("zgr")
    LayerwiseNetwork(gradient=ZGR())
    """
    estimator = _fresh(gradient, ALL_GRADIENTS, "gradient")
    if isinstance(estimator, Exact):
        raise TypeError(
            f"{estimator!r} enumerates the states of a single layer, but here are "
            "layers above it; use ExactNetwork ('exact_network')."
        )
    if isinstance(estimator, LayerwiseGradient):
        return LayerwiseNetwork(require_layerwise(estimator, "A network"))
    if isinstance(estimator, NetworkGradient):
        return estimator
    return FunctionwiseNetwork(estimator)


def _fresh(gradient, names, parameter):
    """Return an estimator of a name, or a clone; the error tells the names."""
    if isinstance(gradient, GradientEstimator | NetworkGradient):
        return clone(gradient)
    if not isinstance(gradient, str) or gradient not in ALL_GRADIENTS:
        raise ValueError(
            f"{parameter}={gradient!r} is not one of {', '.join(sorted(names))}, nor "
            "an instance of a class of skhash.gradients."
        )
    return ALL_GRADIENTS[gradient]()


def require_layerwise(gradient, consumer) -> LayerwiseGradient:
    """Return `gradient` if it is layer-wise, otherwise raise ``TypeError``.

    Parameters
    ----------
    gradient : GradientEstimator
    consumer : str
        Name of the caller, for error messages.

    Raises
    ------
    TypeError
        If it has no method `sample`, or one that does not support its parameters.
    """
    name = type(gradient).__name__
    if not isinstance(gradient, LayerwiseGradient):
        raise TypeError(
            f"{consumer} backpropagates through its units, for which {name} has no "
            "method `sample`; use a layer-wise estimator such as StraightThrough "
            "('st') or ZGR ('zgr')."
        )
    if gradient.needs_curvature:
        raise TypeError(
            f"{consumer} backpropagates through its units, but `sample` of {name} "
            "cannot correct for the curvature of a loss; use debias=None, or ZGR "
            "('zgr')."
        )
    return gradient
