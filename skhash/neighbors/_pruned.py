"""Pruned search: codes that the triangle inequality excludes are not compared.

Codes stand in clusters, each with a center c, ordered by their distance to it. With
r the distance of a query q to the k-th nearest found so far, a code x can be nearer
only if ``d(x, c) >= d(q, c) - r``, so that an outer ring is left of a cluster, or
nothing. The rings of many queries are compared together, block by block. The answer is
exact; only the time depends on the data.
"""

from math import isqrt

import numpy as np

from skhash.neighbors import _pruned_kernels as kernels
from skhash.neighbors import _search
from skhash.neighbors._multi_index_kernels import fill
from skhash.neighbors._nibbles import BLOCK, MOST
from skhash.neighbors._search import _read_only, _run

# Queries answered at a time, a thread.
CHUNK = 1024
# Codes from which `share_left` judges.
SAMPLE = 4096
# Codes that a query is compared with at first.
FIRST_CODES = 4096
SCALE = 2
LINE=64


class Clusters:
    def __init__(self, words, n_planes, n_jobs=None):
        n, n_bytes = len(words), 8 * words.shape[1]
        self.n, self.n_planes = n, n_planes
        centers = _centers(words)
        words = _read_only(words)
        center_blocks = _blocks(centers)
        owners = np.empty(n, dtype=np.int64)

        def assign(rows):
            kernels.assign(
                center_blocks,
                len(centers),
                _choices(words[rows]),
                _rows(2 * n_bytes),
                _rows(1),
                np.empty(rows.stop - rows.start, dtype=np.uint8),
                owners[rows],
            )

        _run(assign, centers, words, n_jobs, 2 * n_bytes, CHUNK)
        away = np.bitwise_count(words ^ centers[owners]).sum(axis=1, dtype=np.int64)
        keys = owners * (n_planes + 1) + n_planes - away
        counts = np.bincount(keys, minlength=len(centers) * (n_planes + 1))
        kind = np.int32 if n < 2**31 else np.int64
        order = np.empty(n, dtype=kind)
        fill(keys, np.cumsum(counts) - counts, order)
        sizes = np.bincount(owners, minlength=len(centers))
        n_blocks = -(-sizes // BLOCK)
        clusters = np.cumsum([0, *n_blocks])
        owner = np.repeat(np.arange(len(n_blocks)), n_blocks)
        inner = np.arange(len(owner)) - clusters[owner]
        starts = np.append((np.cumsum(sizes) - sizes)[owner] + BLOCK * inner, n)
        blocks = np.zeros((len(owner), n_bytes, BLOCK), dtype=np.uint8)
        kernels.fill_blocks(words, order, starts, blocks)
        self.index = (
            _read_only(blocks),
            starts,
            np.minimum(away[order[starts[:-1]]], MOST).astype(np.uint8),
            np.minimum.reduceat(order, starts[:-1]),
            clusters,
            _read_only(order),
            sizes,
            center_blocks,
            _choices(centers),
        )

    def nearest(self, queries, k, n_jobs=None, live=None):
        """Find the `k` nearest codes; see `_search.nearest`."""
        queries = _read_only(queries)
        live = _read_only(np.ones(1, dtype=bool) if live is None else live)
        keys = np.empty((len(queries), k), dtype=np.int64)
        n_centers = len(self.index[6])

        def search(rows):
            chunk = queries[rows]
            blocks = _blocks(chunk)
            kernels.nearest(
                self.index,
                live,
                self.n_planes,
                max(FIRST_CODES, k),
                chunk.view(np.uint8),
                _choices(chunk),
                blocks,
                (
                    _rows(len(blocks) * n_centers),
                    _rows(len(blocks)),
                    _rows(len(blocks)),
                    np.empty((len(chunk), MOST + 1), dtype=np.int64),
                    _rows(2 * blocks.shape[1]),
                    _rows(1),
                ),
                keys[rows],
            )
            keys[rows].sort(axis=1)

        bytes_per_query = n_centers + 8 * (k + MOST)
        _run(search, np.empty(self.n), queries, n_jobs, bytes_per_query, CHUNK)
        distances = (keys >> kernels.POSITION_BITS).astype(np.int32)
        return distances, keys & (2**kernels.POSITION_BITS - 1)


def _blocks(words):
    n = len(words)
    starts = np.append(np.arange(0, n, BLOCK), n)
    blocks = np.zeros((len(starts) - 1, 8 * words.shape[1], BLOCK), dtype=np.uint8)
    kernels.fill_blocks(_read_only(words), np.arange(n, dtype=np.int32), starts, blocks)
    return _read_only(blocks)


def _rows(n):
    """Return room for bytes by 128, aligned: vectors on two cache lines take twice."""
    room = np.empty(n * BLOCK + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + n * BLOCK].reshape(n, BLOCK)


def _choices(words):
    """Return 16 times each four bits of the codes."""
    codes = np.ascontiguousarray(words).view(np.uint8)
    nibbles = np.stack([codes << 4, codes & 0xF0], axis=2)
    return nibbles.reshape(len(codes), -1)


def _centers(words):
    return words[:: max(1, int(len(words) // (SCALE * isqrt(len(words)))))]


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
