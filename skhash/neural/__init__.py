"""Encoders trained by gradient descent. torch is imported when you fit one."""

from skhash.neural.autoencoder._encoder import StochasticAutoencoderHash
from skhash.neural.autoencoder._parts import Correction, CorrelatedPosterior
from skhash.neural.neighbor._encoder import NeighborHash
from skhash.neural.sgh._encoder import SGHEncoder
from skhash.neural.sgh._parts import GivenPairs, LabelPairs, LatentScale, NeighborPairs
from skhash.neural.supervised._encoder import DualHashEncoder, SupervisedHash

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
