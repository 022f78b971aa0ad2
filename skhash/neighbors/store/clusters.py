"""Codes in clusters, as arrays that are saved with an index; see `search.pruned`."""

from typing import NamedTuple

import numpy as np

BLOCK = 128  # codes that stand side by side


class Clusters(NamedTuple):
    """Codes in the order of clusters, cut into blocks; far from the center comes first.

    Attributes
    ----------
    sizes : ndarray of shape (n_clusters,), int64
        How many codes a cluster has. It is cut into blocks of 128, the last one of
        fewer.
    centers : ndarray of shape (n_clusters, n_bytes), uint8
        The code that those of a cluster are near to, in whole words.
    blocks : ndarray of shape (n_blocks, n_bytes, 128), uint8
        The bytes of 128 codes side by side; empty places are 0.
    positions : ndarray of shape (n,), int32, or int64 from 2^31 codes on
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


def check_clusters(clusters, n, n_bytes):
    """Raise ``ValueError`` unless kernels find everything within the arrays.

    n : the number of codes; n_bytes : of a code in whole words. The content of the
    large arrays is not looked at: see `check_positions`.
    """
    sizes = clusters.sizes
    kind = position_type(n)
    is_counted = (
        sizes.dtype == np.int64
        and sizes.ndim == 1
        and sizes.min(initial=0) >= 0
        and sizes.max(initial=0) <= n
        and sizes.sum(dtype=float) == n
    )
    n_blocks = int((-(-sizes // BLOCK)).sum()) if is_counted else 0
    expected = {
        "centers": (np.uint8, (len(sizes), n_bytes)),
        "blocks": (np.uint8, (n_blocks, n_bytes, BLOCK)),
        "positions": (kind, (n,)),
        "lowest": (kind, (n_blocks,)),
        "rings": (np.uint8, (2, n_blocks)),
    }
    for name, (dtype, shape) in expected.items():
        array = getattr(clusters, name)
        is_right = array.dtype == dtype and array.shape == shape
        if not (is_counted and is_right and array.flags.c_contiguous):
            raise ValueError(f"The clusters ({name}) do not fit the {n} codes.")


def check_positions(clusters, n):
    """Raise ``ValueError`` where a position is none of ``range(n)``."""
    positions = clusters.positions
    if positions.min(initial=0) < 0 or positions.max(initial=0) >= max(1, n):
        raise ValueError(f"Positions of the clusters are not those of {n} codes.")


def position_type(n):
    """Return the type of numbers that tell positions of so many codes."""
    return np.dtype(np.int32 if n < 2**31 else np.int64)
