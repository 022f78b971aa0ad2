"""Stochastic Generative Hashing."""

from skhash.neural.sgh._encoder import SGHEncoder
from skhash.neural.sgh._pairs import GivenPairs, LabelPairs, NeighborPairs
from skhash.neural.sgh._scales import LatentScale

__all__ = [
    "GivenPairs",
    "LabelPairs",
    "LatentScale",
    "NeighborPairs",
    "SGHEncoder",
]
