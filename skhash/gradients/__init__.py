"""Gradient estimators for Bernoulli units, as exchangeable parts."""

from skhash.gradients._antithetic import ARM, DisARM
from skhash.gradients._base import (
    BernoulliUnits,
    GradientEstimator,
    LayerwiseGradient,
)
from skhash.gradients._exact import Exact
from skhash.gradients._exact_network import ExactNetwork
from skhash.gradients._flips import BitFlip, LocalExpectation
from skhash.gradients._gumbel import GumbelSoftmax, STGumbel
from skhash.gradients._network import (
    FunctionwiseNetwork,
    LayerwiseNetwork,
    LinearMap,
    NetworkGradient,
)
from skhash.gradients._propagation import ADF, LocalReparam
from skhash.gradients._psa import PSA
from skhash.gradients._resolve import (
    require_layerwise,
    resolve_gradient,
    resolve_network_gradient,
)
from skhash.gradients._score import MuProp, Reinforce, ReinforceLOO
from skhash.gradients._straight_through import (
    ZGR,
    DeterministicST,
    HardST,
    IdentityST,
    MeanField,
    StraightThrough,
)
from skhash.gradients.report import GradientReport, GradientRow, gradient_report

__all__ = [
    "ADF",
    "ARM",
    "BernoulliUnits",
    "BitFlip",
    "DeterministicST",
    "DisARM",
    "Exact",
    "ExactNetwork",
    "FunctionwiseNetwork",
    "GradientEstimator",
    "GradientReport",
    "GradientRow",
    "GumbelSoftmax",
    "HardST",
    "IdentityST",
    "LayerwiseGradient",
    "LayerwiseNetwork",
    "LinearMap",
    "LocalExpectation",
    "LocalReparam",
    "MeanField",
    "MuProp",
    "NetworkGradient",
    "PSA",
    "Reinforce",
    "ReinforceLOO",
    "STGumbel",
    "StraightThrough",
    "ZGR",
    "gradient_report",
    "require_layerwise",
    "resolve_gradient",
    "resolve_network_gradient",
]
