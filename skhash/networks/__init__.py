"""Stochastic binary networks as torch modules: layers and kinds of weights.

Use them to build a network for ``SBNClassifier(architecture=...)``, or to train with
network-wise gradient estimators. Importing this package imports torch.
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
