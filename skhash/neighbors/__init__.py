"""Exact search among binary codes."""

from skhash.neighbors._hamming import HammingNeighbors

__all__ = ["HammingNeighbors"]
