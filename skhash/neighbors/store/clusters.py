"""Codes in clusters, as arrays that are saved with an index; see `search.pruned`."""

from typing import NamedTuple

import numpy as np

BLOCK = 128  # codes that stand side by side


class ClusterArrays(NamedTuple):
    """Codes in clusters, cut into blocks, those far from the center first.

    Attributes
    ----------
    sizes : ndarray of shape (n_clusters,), int64
        How many codes a cluster has. It is cut into blocks of 128, the last one of
        fewer.
    centers : ndarray of shape (n_clusters, n_bytes), uint8
        The code that those of a cluster are near to, in whole words.
    blocks : ndarray of shape (n_blocks, n_bytes, 128), uint8
        The bytes of 128 codes side by side; empty places are 0.
    positions : ndarray of shape (n,), int32, or int64 for 2^31 codes or more
        Where each code stands in the index.
    lowest : ndarray of shape (n_blocks,), like positions
        The least of those of a block.
    rings : ndarray of shape (2, n_blocks), uint8
        The largest distance to the center, at most 255, and the least position at
        that distance, times 256 and divided by n.
    """

    sizes: np.ndarray
    centers: np.ndarray
    blocks: np.ndarray
    positions: np.ndarray
    lowest: np.ndarray
    rings: np.ndarray


def position_type(n):
    """Return the integer type for positions of `n` codes."""
    return np.dtype(np.int32 if n < 2**31 else np.int64)
