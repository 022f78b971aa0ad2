"""Pruned search: codes that the triangle inequality excludes are not compared.

Codes stand in clusters, each with a center c, ordered by their distance to it. With
r the distance of a query q to the k-th nearest found so far, a code x can be nearer
only if ``|d(q, c) - d(x, c)| <= r``, so that a ring is left of a cluster, or nothing.
The rings of many queries are compared together, block by block, by the kernel that
compares all codes elsewhere. The answer is exact; only the time depends on the data.
"""

from math import isqrt

import numpy as np

from skhash.neighbors import _pruned_kernels as kernels
from skhash.neighbors import _search
from skhash.neighbors._bitslice import BLOCK
from skhash.neighbors._search import _lane_room, _read_only, _run, _workspace

# Queries answered at a time, a thread: many, as those that a block is left for share
# the cost of turning it on its side.
CHUNK = 1024
# Codes from which `share_left` judges.
SAMPLE = 4096
# Clusters, of the usual size, that a query is compared with at first.
FIRST_CLUSTERS = 10


class Clusters:
    """Codes in the order of clusters.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.
    n_planes : int
        Bits of a code, padding of its last byte included.
    n_jobs : int, default=None

    Notes
    -----
    It holds the codes again, and 4 bytes a code more (8 from 2^31 codes on). The
    centers are sqrt(n) of the codes, evenly spread over the positions; each code goes
    to the nearest, so that making it takes n * sqrt(n) comparisons.
    """

    def __init__(self, words, n_planes, n_jobs=None):
        n = len(words)
        self.n_planes = n_planes
        self.centers = _read_only(_centers(words))
        away, owners = _search.nearest(self.centers, n_planes, words, 1, n_jobs)
        away, owners = away[:, 0], owners[:, 0]
        # Within a ring in the order of positions, as this sort is stable.
        order = np.argsort(owners * (n_planes + 1) + away, kind="stable")
        self.words = _read_only(words[order])
        kind = np.int32 if n < 2**31 else np.int64
        self.positions = _read_only(order.astype(kind))
        self.sizes = np.bincount(owners, minlength=len(self.centers))
        n_blocks = -(-self.sizes // BLOCK)
        self.clusters = np.cumsum([0, *n_blocks])
        # Blocks are full but for the innermost of a cluster, which is needed least.
        owner = np.repeat(np.arange(len(n_blocks)), n_blocks)
        stop = np.cumsum(self.sizes)[owner]
        to_stop = self.clusters[owner + 1] - np.arange(len(owner))
        starts = np.maximum(stop - BLOCK * to_stop, stop - self.sizes[owner])
        self.starts = np.append(starts, n)
        away = away[order]
        self.rings = np.stack([away[starts], away[self.starts[1:] - 1]], axis=1)
        self.lowest = np.minimum.reduceat(order, starts)

    def nearest(self, queries, k, n_jobs=None, live=None):
        """Find the `k` nearest codes; see `_search.nearest`."""
        queries = _read_only(queries)
        live = _read_only(np.ones(1, dtype=bool) if live is None else live)
        n_first = max(FIRST_CLUSTERS * len(self.words) // len(self.centers), k)
        keys = np.empty((len(queries), k), dtype=np.int64)

        def search(rows):
            chunk = queries[rows]
            kernels.nearest(
                self.words,
                self.positions,
                live,
                self.n_planes,
                self.clusters,
                self.starts,
                self.rings,
                self.lowest,
                self.centers,
                chunk,
                _read_only(chunk.T),
                n_first,
                (
                    *_workspace(self.n_planes, chunk, threshold=self.n_planes + 1),
                    _lane_room(),
                ),
                np.empty((len(self.centers), len(chunk)), dtype=np.int32),
                self.sizes,
                np.empty((len(chunk), self.n_planes + 1), dtype=np.int64),
                np.empty(len(chunk) + 1, dtype=np.int64),
                np.empty(len(chunk) + 1, dtype=np.int64),
                keys[rows],
                np.empty(len(chunk), dtype=np.int64),
            )
            keys[rows].sort(axis=1)

        bytes_per_query = 4 * len(self.centers) + 8 * (k + self.n_planes)
        _run(search, self.words, queries, n_jobs, bytes_per_query, CHUNK)
        distances = (keys >> kernels.POSITION_BITS).astype(np.int32)
        return distances, keys & (2**kernels.POSITION_BITS - 1)


def _centers(words):
    return words[:: len(words) // isqrt(len(words))]


def share_left(words, n_planes, queries, reached):
    """Estimate the share of the codes that is left in the rings around the centers.

    reached : ndarray of shape (n_queries,), int32
        How far away the last neighbour of each query is.
    """
    centers = _read_only(_centers(words))
    some = words[:: -(-len(words) // SAMPLE)]
    away, owners = _search.nearest(centers, n_planes, some, 1, 1)
    differ = queries[:, None] ^ centers[owners[:, 0]]
    to_queries = np.bitwise_count(differ).sum(axis=2, dtype=np.int32)
    return float((np.abs(to_queries - away[:, 0]) <= reached[:, None]).mean())
