"""Encoders trained by gradient descent; torch is imported when one is fitted."""

from skhash.neural.autoencoder import (
    Correction,
    CorrelatedPosterior,
    StochasticAutoencoderHash,
)
from skhash.neural.neighbor import NeighborHash
from skhash.neural.sgh import (
    GivenPairs,
    LabelPairs,
    LatentScale,
    NeighborPairs,
    SGHEncoder,
)
from skhash.neural.supervised import DualHashEncoder, SupervisedHash

__all__ = [
    "CorrelatedPosterior",
    "Correction",
    "DualHashEncoder",
    "GivenPairs",
    "LabelPairs",
    "LatentScale",
    "NeighborHash",
    "NeighborPairs",
    "SGHEncoder",
    "StochasticAutoencoderHash",
    "SupervisedHash",
]
