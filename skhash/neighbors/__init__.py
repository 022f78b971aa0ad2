"""Search among binary codes: exact, and by their first bits."""

from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._prefix import PrefixNeighbors

__all__ = ["HammingNeighbors", "PrefixNeighbors"]
