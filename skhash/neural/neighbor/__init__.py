"""Codes that keep near neighbours near."""

from skhash.neural.neighbor._encoder import NeighborHash

__all__ = ["NeighborHash"]
