"""Stochastic Generative Hashing."""

from skhash.neural.sgh._encoder import SGHEncoder
from skhash.neural.sgh._parts import GivenPairs, LabelPairs, LatentScale, NeighborPairs

__all__ = ["GivenPairs", "LabelPairs", "LatentScale", "NeighborPairs", "SGHEncoder"]
