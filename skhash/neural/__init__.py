"""Encoders trained by gradient descent; torch is imported when one is fitted."""

from skhash.neural._autoencoder import StochasticAutoencoderHash
from skhash.neural._dual import DualHashEncoder
from skhash.neural._neighbor import NeighborHash
from skhash.neural._sgh import SGHEncoder
from skhash.neural._supervised_hash import SupervisedHash

__all__ = [
    "DualHashEncoder",
    "NeighborHash",
    "SGHEncoder",
    "StochasticAutoencoderHash",
    "SupervisedHash",
]
