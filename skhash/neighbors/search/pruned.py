"""Pruned search: codes that the triangle inequality excludes are not compared.

Codes stand in clusters, each with a center c, ordered by their distance to it. With
r the distance of a query q to the k-th nearest found so far, a code x can be nearer
only if ``d(x, c) >= d(q, c) - r``, so that the outer ring of a cluster is left, or
nothing. The rings of many queries are compared together, block by block. The answer is
exact; only the time depends on the data.
"""

import numpy as np

from skhash.neighbors.kernels import pruned as kernels
from skhash.neighbors.kernels.multi_index import fill
from skhash.neighbors.kernels.nibbles import BLOCK, MOST
from skhash.neighbors.search.brute import _count_threads, _read_only, _run
from skhash.utils.chunks import even_chunks
from skhash.utils.threads import map_in_threads

# Of n codes, this times n^(2/3) are centers.
CENTERS = 0.2
# Queries answered at a time, a thread: many, as they share the unpacking of blocks; and
# how many are too few for that.
CHUNK, FEW_QUERIES = 1024, 16
# Codes, and codes a neighbour, that a query is compared with at first.
FIRST_CODES, FIRST_CODES_EACH = 8192, 128
# Codes from which `share_left` judges.
SAMPLE = 4096
# Bytes in a line of the cache.
LINE = 64


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
    It holds the codes again, with some places empty at the ends of clusters, and 4
    bytes a code more (8 from 2^31 codes on). The centers are codes, evenly spread over
    the positions; each code goes to the nearest, so that making it takes as many
    comparisons as there are codes times centers.
    """

    def __init__(self, words, n_planes, n_jobs=None):
        self.n, self.n_planes = len(words), n_planes
        words = _read_only(words)
        centers = _centers(words)
        center_blocks = _blocks(centers)
        owners = _nearest_centers(centers, center_blocks, words, n_jobs)
        away = np.bitwise_count(words ^ centers[owners]).sum(axis=1, dtype=np.int64)
        order = _order(owners, away, len(centers), n_planes)
        sizes = np.bincount(owners, minlength=len(centers))
        n_blocks = -(-sizes // BLOCK)
        clusters = np.cumsum([0, *n_blocks])
        owners = np.repeat(np.arange(len(centers)), n_blocks)
        inner = np.arange(len(owners)) - clusters[owners]
        starts = (np.cumsum(sizes) - sizes)[owners] + BLOCK * inner
        self.index = kernels.Index(
            blocks=_blocks(words, order, starts),
            starts=np.append(starts, self.n),
            tops=np.minimum(away[order[starts]], MOST).astype(np.uint8),
            lowest=np.minimum.reduceat(order, starts),
            # Of codes equally far from the center, the first is the earliest.
            places=(order[starts].astype(np.int64) * 256 // self.n).astype(np.uint8),
            owners=owners,
            positions=_read_only(order),
            clusters=clusters,
            sizes=sizes,
            center_blocks=center_blocks,
            center_choices=_choices(centers),
        )

    def nearest(self, queries, k, n_jobs=None, live=None):
        """Find the `k` nearest codes; see `brute.nearest`."""
        queries = _read_only(queries)
        live = _read_only(np.ones(1, dtype=bool) if live is None else live)
        task = self.index, live, self.n_planes, max(FIRST_CODES, FIRST_CODES_EACH * k)
        if len(queries) < FEW_QUERIES:
            keys = self._nearest_to_few(task, queries, k, n_jobs)
        else:
            keys = self._nearest_to_many(task, queries, k, n_jobs)
        distances = (keys >> kernels.POSITION_BITS).astype(np.int32)
        return distances, keys & (2**kernels.POSITION_BITS - 1)

    def _nearest_to_many(self, task, queries, k, n_jobs):
        n_centers = len(self.index.sizes)
        keys = np.empty((len(queries), k), dtype=np.int64)

        def search(rows):
            chunk = queries[rows]
            blocks, choices = _blocks(chunk), _choices(chunk)
            sizes = n_centers * len(blocks), *[len(blocks)] * 3
            away, reach, lasts, places = map(_rows, sizes)
            counts = np.empty((len(chunk), MOST + 1), dtype=np.int64)
            room = away, reach, lasts, places, counts, _rows(choices.shape[1]), _rows(1)
            chunk = chunk.view(np.uint8), choices, blocks
            kernels.nearest(*task, *chunk, room, keys[rows])
            keys[rows].sort(axis=1)

        bytes_per_query = n_centers + 8 * (k + MOST)
        _run(search, self.index.positions, queries, n_jobs, bytes_per_query, CHUNK)
        return keys

    def _nearest_to_few(self, task, queries, k, n_jobs):
        choices = _choices(queries)
        threads = _count_threads(self.n * queries.size, n_jobs)

        def search(part):
            away = _rows(len(self.index.center_blocks))
            chosen = np.empty(kernels.SPAN, dtype=np.int64)
            counts = np.empty((1, MOST + 1), dtype=np.int64)
            room = away, chosen, counts, _rows(choices.shape[1]), _rows(1)
            keys = np.empty((len(queries), k), dtype=np.int64)
            chunk = queries.view(np.uint8), choices
            kernels.nearest_to_few(*task, part.start, part.stop, *chunk, room, keys)
            return keys

        # Each thread finds how near the neighbours are, and looks through its part.
        parts = even_chunks(len(self.index.blocks), threads)
        keys = np.concatenate(map_in_threads(search, parts, threads), axis=1)
        keys.sort(axis=1)
        return keys[:, :k]


def _centers(words):
    n_centers = max(1, int(CENTERS * len(words) ** (2 / 3)))
    return _read_only(words[:: len(words) // n_centers])


def _nearest_centers(centers, center_blocks, words, n_jobs):
    owners = np.empty(len(words), dtype=np.int64)

    def search(rows):
        choices = _choices(words[rows])
        room = _rows(choices.shape[1]), _rows(1), np.empty(len(choices), dtype=np.uint8)
        task = center_blocks, len(centers), choices
        kernels.assign(*task, *room, owners[rows])

    _run(search, centers, words, n_jobs, 16 * words.shape[1], CHUNK)
    return owners


def _order(owners, away, n_centers, n_planes):
    """Return positions by cluster, then inwards, then as they are."""
    keys = owners * (n_planes + 1) + n_planes - away
    counts = np.bincount(keys, minlength=n_centers * (n_planes + 1))
    order = np.empty(len(keys), dtype=np.int32 if len(keys) < 2**31 else np.int64)
    fill(keys, np.cumsum(counts) - counts, order)
    return order


def _blocks(words, order=None, starts=None):
    """Return the bytes of codes side by side, 128 codes to a block."""
    if order is None:
        order = np.arange(len(words), dtype=np.int32)
        starts = np.arange(0, len(words), BLOCK)
    blocks = np.zeros((len(starts), 8 * words.shape[1], BLOCK), dtype=np.uint8)
    starts = np.append(starts, len(words))
    kernels.fill_blocks(_read_only(words), _read_only(order), starts, blocks)
    return _read_only(blocks)


def _choices(words):
    """Return 16 times each nibble of the codes, the lower one of a byte first."""
    codes = np.ascontiguousarray(words).view(np.uint8)
    choices = np.empty((len(codes), codes.shape[1], 2), dtype=np.uint8)
    choices[..., 0] = codes << 4
    choices[..., 1] = codes & 0xF0
    return choices.reshape(len(codes), -1)


def _rows(n):
    """Return room for n times 128 bytes, where no vector lies on two cache lines."""
    room = np.empty(n * BLOCK + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + n * BLOCK].reshape(n, BLOCK)


def share_left(words, n_planes, queries, reached):
    """Estimate the share of the codes that is left in the rings around the centers.

    reached : ndarray of shape (n_queries,), int32
        How far away the last neighbour of each query is.
    """
    centers = _centers(words)
    some = _read_only(words[:: -(-len(words) // SAMPLE)])
    owners = _nearest_centers(centers, _blocks(centers), some, 1)
    own = centers[owners]
    away = np.bitwise_count(some ^ own).sum(axis=1, dtype=np.int32)
    differ = queries[:, None] ^ own
    to_queries = np.bitwise_count(differ).sum(axis=2, dtype=np.int32)
    return float((to_queries - away <= reached[:, None]).mean())
