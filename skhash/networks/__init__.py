"""Stochastic binary networks as torch modules: their layers, and laws of weights.

For the factory of ``SBNClassifier(architecture=...)`` and gradient estimators of whole
networks. Importing this imports torch.
"""

from skhash.networks._layers import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.networks._weights import BayesBiNNWeights, MirrorWeights

__all__ = [
    "BayesBiNNWeights",
    "BinaryConv2d",
    "BinaryLinear",
    "MirrorWeights",
    "RealLinear",
    "StochasticBinaryNetwork",
]
