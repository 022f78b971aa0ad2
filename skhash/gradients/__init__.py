"""Gradient estimators for Bernoulli units, as exchangeable parts."""

from sklearn.base import clone

from skhash.gradients._antithetic import ARM
from skhash.gradients._base import (
    BernoulliUnits,
    GradientEstimator,
    LayerwiseGradient,
)
from skhash.gradients._straight_through import StraightThrough

__all__ = [
    "ARM",
    "BernoulliUnits",
    "GradientEstimator",
    "LayerwiseGradient",
    "StraightThrough",
    "resolve_gradient",
]

GRADIENTS = {"arm": ARM, "st": StraightThrough}


def resolve_gradient(gradient) -> GradientEstimator:
    """Return a fresh estimator of a name, or a clone of the estimator itself."""
    if isinstance(gradient, str) and gradient in GRADIENTS:
        return GRADIENTS[gradient]()
    if isinstance(gradient, GradientEstimator):
        return clone(gradient)
    raise ValueError(
        f"gradient={gradient!r} is not one of {', '.join(sorted(GRADIENTS))}, nor an "
        "instance of a class of skhash.gradients."
    )
