"""Nearest-neighbour search of codes, and of vectors by their codes."""

from skhash.neighbors._asymmetric import AsymmetricNeighbors
from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._hashed import HashedNeighbors
from skhash.neighbors._jaccard import JaccardNeighbors
from skhash.neighbors._pairs import duplicate_groups, radius_pairs
from skhash.neighbors.search.asymmetric import asymmetric_scores
from skhash.neighbors.search.merge import merge_neighbors

__all__ = [
    "AsymmetricNeighbors",
    "HammingNeighbors",
    "HashedNeighbors",
    "JaccardNeighbors",
    "asymmetric_scores",
    "duplicate_groups",
    "merge_neighbors",
    "radius_pairs",
]
