"""Pruned search: skips codes that the triangle inequality excludes.

Codes stand in clusters, each with a center c, ordered by their distance to it. With
r the distance of a query q to the k-th nearest found so far, or the radius, a code x
can be as near only if ``d(x, c) >= d(q, c) - r``, so that the outer ring of a cluster
is left, or nothing. The rings of many queries are compared together, block by block.
The answer is exact; only the time depends on the data.
"""

import numpy as np

from skhash.neighbors.kernels import pruned as kernels
from skhash.neighbors.kernels.bits import POSITION, POSITION_BITS
from skhash.neighbors.kernels.multi_index import fill
from skhash.neighbors.kernels.nibbles import BLOCK, MOST
from skhash.neighbors.search.base import Algorithm
from skhash.neighbors.search.chunks import (
    live_codes,
    read_only,
    run,
    threads_for_pairs,
    zeros_aligned,
)
from skhash.neighbors.store.clusters import ClusterArrays, position_type
from skhash.utils.chunks import even_chunks, row_chunks
from skhash.utils.threads import map_in_threads

# Of n codes, this times n^(2/3) are centers.
CENTERS = 0.2
# Queries answered at a time per thread: many, as they share the unpacking of blocks;
# and how many are too few for that.
CHUNK, FEW_QUERIES = 1024, 16
# Codes, and codes a neighbour, that a query is compared with at first.
FIRST_CODES, FIRST_CODES_EACH = 8192, 128
# Comparing a code with a center, while clusters are made.
CENTER_COST = 6.0
# More centers than this stand in groups; how many groups are looked through for each
# code, and for how many codes at a time.
MAX_COMPARED, PROBED, ASSIGNED = 2**12, 32, 2**18
# Codes within a radius that a thread finds at a time, besides those of a block.
ROOM = 2**16
# Size of the sample that tells which share clusters leave.
SAMPLE = 4096


class Clusters(Algorithm):
    """Codes in the order of clusters.

    Notes
    -----
    They hold the codes again, with some places empty at the ends of clusters, and 4
    bytes a code more (8 for 2^31 codes or more). Each code goes to a near one of the
    centers.
    """

    index = arrays = None

    @property
    def is_made(self):
        return self.index is not None

    @property
    def making(self):
        n = _n_centers(len(self.words))
        return CENTER_COST * (n if n <= MAX_COMPARED else (PROBED + 1) * n**0.5)

    @property
    def nbytes(self):
        return sum(array.nbytes for array in self.arrays or ())

    def bytes_to_make(self):
        # The codes in blocks, and a few numbers a code.
        return self.words.nbytes + 32 * len(self.words)

    def make(self, n_jobs=None):
        words, n = read_only(self.words), len(self.words)
        centers = Centers(words)
        owners = centers.assign(words, n_jobs)
        order, away = _order(words, owners, centers.codes, self.n_planes)
        sizes = np.bincount(owners, minlength=len(centers.codes))
        owners, starts = _layout(sizes)
        tops = np.minimum(away[order[starts]], MOST).astype(np.uint8)
        # Of codes equally far from the center, the first is the earliest.
        places = (order[starts].astype(np.int64) * 256 // n).astype(np.uint8)
        self.take(
            ClusterArrays(
                sizes=sizes,
                centers=centers.codes.view(np.uint8),
                blocks=_blocks(words, order, starts),
                positions=order,
                lowest=np.minimum.reduceat(order, starts),
                rings=np.stack([tops, places]),
            )
        )

    def take(self, arrays):
        """Use clusters that were made before, here or in a file."""
        self.arrays, centers = arrays, arrays.centers.view(np.uint64)
        sizes, rings = read_only(arrays.sizes), map(read_only, arrays.rings)
        (owners, starts), nowhere = _layout(sizes), np.zeros_like(arrays.rings[0])
        self.rings = kernels.Rings(owners, *rings)
        self.whole = kernels.Rings(owners, *map(read_only, [nowhere, nowhere]))
        self.index = kernels.Index(
            blocks=read_only(arrays.blocks),
            starts=np.append(starts, len(self.words)),
            lowest=read_only(arrays.lowest),
            positions=read_only(arrays.positions),
            clusters=np.cumsum([0, *-(-sizes // BLOCK)]),
            sizes=sizes,
            center_blocks=_blocks(centers),
            center_choices=_choices(centers),
        )

    def nearest(self, queries, question):
        queries, k = read_only(queries), question.reach
        n_first = max(FIRST_CODES, FIRST_CODES_EACH * k)
        index, whole, rings = self.index, self.whole, self.rings
        live = live_codes(question.live)

        def find(rows, batch, blocks):
            kernels.nearest(index, whole, rings, live, n_first, blocks, batch)
            return batch.distances << POSITION_BITS | batch.positions

        def find_in(part, batch):
            span = part.start, part.stop
            kernels.nearest_to_few(index, whole, rings, live, n_first, span, batch)
            return batch.distances << POSITION_BITS | batch.positions

        if len(queries) < FEW_QUERIES:
            # Each thread finds how near the neighbours are, and looks through its part.
            keys = np.concatenate(self._for_few(find_in, queries, k, question), axis=1)
        else:
            keys = np.concatenate(self._for_many(find, queries, k, question))
        keys.sort(axis=1)
        return (keys[:, :k] >> POSITION_BITS).astype(np.int32), keys[:, :k] & POSITION

    def within(self, queries, question):
        queries, radius = read_only(queries), question.reach
        index, rings, live = self.index, self.rings, live_codes(question.live)

        def find(rows, batch, blocks):
            batch.reach[:] = radius
            room = np.empty(ROOM + BLOCK * len(blocks) * BLOCK, dtype=np.int64)
            begin, keys = 0, []
            while begin < len(index.blocks):
                begin, size = kernels.within(
                    index, rings, live, radius, blocks, begin, batch, room
                )
                keys.append(room[:size].copy())
            # Chunk by chunk: keys of more queries would not fit in 64 bits.
            return _in_order(np.concatenate(keys), rows.stop - rows.start, radius)

        def find_in(part, batch):
            room = np.empty(max(ROOM, kernels.SPAN * BLOCK), dtype=np.int64)
            keys = [room[:0]]  # there may be more threads than blocks
            for q in range(len(queries)):
                span = part.start, part.stop
                while span[0] < span[1]:
                    begin, size = kernels.within_of_one(
                        index, rings, live, radius, span, q, batch, room
                    )
                    keys.append(room[:size].copy())
                    span = begin, part.stop
            return np.concatenate(keys)

        if len(queries) < FEW_QUERIES:
            keys = np.concatenate(self._for_few(find_in, queries, 1, question))
            return _in_order(keys, len(queries), radius)
        chunks = self._for_many(find, queries, 1, question)
        return tuple(map(np.concatenate, zip(*chunks, strict=True)))

    def _for_many(self, find, queries, k, question):
        """Call ``find(rows, batch, blocks)`` on chunks of the queries, in threads."""
        n_centers = len(self.index.sizes)

        def search(rows):
            blocks = _blocks(queries[rows])
            n_away = n_centers * len(blocks)
            batch = self._batch(queries[rows], k, n_away, len(blocks))
            return find(rows, batch, blocks)

        bytes_per_query = n_centers + 8 * (2 * k + BLOCK + MOST)
        everything, n_jobs = self.index.positions, question.n_jobs
        return run(search, everything, queries, n_jobs, bytes_per_query, CHUNK)

    def _for_few(self, find, queries, k, question):
        """Call ``find(part, batch)`` on parts of the blocks, in threads."""
        work = question.left * len(self.words) * queries.size
        threads = threads_for_pairs(work, question.n_jobs)
        parts = even_chunks(len(self.index.blocks), threads)

        def search(part):
            return find(part, self._batch(queries, k, len(self.index.center_blocks), 1))

        return map_in_threads(search, parts, len(parts))

    def _batch(self, queries, k, n_away, n_groups):
        """Return the buffers of kernels; see `kernels.pruned.Batch`."""
        choices, n = _choices(queries), len(queries)
        n_chosen, everywhere = max(n, kernels.SPAN), self.n_planes + 1
        batch = kernels.Batch(
            queries=queries.view(np.uint8),
            choices=choices,
            distances=np.full((n, k), everywhere),
            positions=np.zeros((n, k), dtype=np.int64),
            counts=np.zeros((n, MOST + 1), dtype=np.int64),
            chosen=np.empty(n_chosen, dtype=np.int64),
            nibbles=_rows(choices.shape[1]),
            out=_rows(1),
            away=_rows(n_away),
            reach=_rows(n_groups),
            lasts=_rows(n_groups),
            places=_rows(n_groups),
        )
        batch.lasts[:] = min(everywhere, MOST)
        batch.places[:] = MOST
        return batch


def _layout(sizes):
    """Return the cluster of each block, and where its codes begin."""
    n_blocks = -(-sizes // BLOCK)
    owners = np.repeat(np.arange(len(sizes)), n_blocks)
    inner = np.arange(len(owners)) - (np.cumsum(n_blocks) - n_blocks)[owners]
    return owners, (np.cumsum(sizes) - sizes)[owners] + BLOCK * inner


def _in_order(keys, n_queries, radius):
    """Return distances, positions and counts from the answers of `kernels.within`."""
    keys.sort()
    queries, distances = np.divmod(keys >> POSITION_BITS, radius + 1)
    counts = np.bincount(queries, minlength=n_queries)
    return distances.astype(np.int32), keys & POSITION, counts


def _n_centers(n):
    return max(1, int(CENTERS * n ** (2 / 3)))


class Centers:
    """Cluster centers: some of the codes, evenly spread.

    Where they are many, they stand in groups around heads. A code is compared with the
    heads, and then with the centers of the groups around the nearest one: it may miss
    the nearest center by a little, with far fewer comparisons.

    Attributes
    ----------
    codes : ndarray of shape (n_centers, n_words), uint64
    heads : ndarray of shape (n_groups, n_words), uint64
    starts : ndarray of shape (n_groups + 1,), int64
        Where the centers of a group begin.
    """

    def __init__(self, words):
        codes = words[:: len(words) // _n_centers(len(words))]
        n_groups = 1 if len(codes) <= MAX_COMPARED else int(len(codes) ** 0.5)
        heads = read_only(codes[:: len(codes) // n_groups])
        groups = _nearest(heads, codes)
        # Of equal heads, one alone has a group.
        kept, sizes = np.unique(groups, return_counts=True)
        self.heads, self.starts = read_only(heads[kept]), np.cumsum([0, *sizes])
        self.codes = read_only(codes[np.argsort(groups, kind="stable")])

    def assign(self, words, n_jobs):
        """Return a center of each code: int32 (n,)."""
        owners = np.empty(len(words), dtype=np.int32)
        around = [self._around(head) for head in range(len(self.heads))]
        blocks = [_blocks(self.codes[members]) for members in around]
        head_blocks = _blocks(self.heads)

        def search(rows):
            part, part_owners = words[rows], owners[rows]
            heads = _nearest(self.heads, part, head_blocks)
            order = np.argsort(heads, kind="stable")
            ends = np.cumsum(np.bincount(heads, minlength=len(around)))
            for head, places in enumerate(np.split(order, ends[:-1])):
                if len(places):
                    members = around[head]
                    centers = self.codes[members]
                    nearest = _nearest(centers, part[places], blocks[head])
                    part_owners[places] = members[nearest]

        most = max(map(len, around))
        chunk = ASSIGNED if len(around) > 1 else CHUNK
        run(search, self.codes[:most], words, n_jobs, 1, chunk)
        return owners

    def _around(self, head):
        """Return the centers of the groups around a head, in their order."""
        away = np.bitwise_count(self.heads ^ self.heads[head]).sum(axis=1)
        groups = np.sort(np.argsort(away, kind="stable")[:PROBED])
        ends = [self.starts[group : group + 2] for group in groups]
        return np.concatenate([np.arange(*span) for span in ends])


def _nearest(centers, words, blocks=None):
    """Return the nearest center of each code, the first of several."""
    blocks = _blocks(centers) if blocks is None else blocks
    choices, owners = _choices(words), np.empty(len(words), dtype=np.int64)
    best = np.empty(len(words), dtype=np.uint8)
    nibbles, out = _rows(choices.shape[1]), _rows(1)
    kernels.assign(blocks, len(centers), choices, nibbles, out, best, owners)
    return owners


def _order(words, owners, centers, n_planes):
    """Return positions by cluster, then inwards, then ascending; and distances.

    Distances are those of the codes from their centers.
    """
    away = np.empty(len(words), dtype=np.int32)
    keys = np.empty(len(words), dtype=np.int64)
    for rows in row_chunks(len(words), 3 * words[:1].nbytes):
        differ = np.bitwise_count(words[rows] ^ centers[owners[rows]])
        away[rows] = differ.sum(axis=1, dtype=np.int32)
        keys[rows] = owners[rows] * np.int64(n_planes + 1) + n_planes - away[rows]
    counts = np.bincount(keys, minlength=len(centers) * (n_planes + 1))
    order = np.empty(len(keys), dtype=position_type(len(keys)))
    fill(keys, np.cumsum(counts) - counts, order)
    return order, away


def _blocks(words, order=None, starts=None):
    """Return the bytes of codes side by side, 128 codes to a block."""
    if order is None:
        order = np.arange(len(words), dtype=np.int32)
        starts = np.arange(0, len(words), BLOCK)
    blocks = np.zeros((len(starts), 8 * words.shape[1], BLOCK), dtype=np.uint8)
    starts = np.append(starts, len(words))
    kernels.fill_blocks(read_only(words), read_only(order), starts, blocks)
    return read_only(blocks)


def _choices(words):
    """Return 16 times each nibble of the codes, the lower one of a byte first."""
    codes = np.ascontiguousarray(words).view(np.uint8)
    choices = np.empty((len(codes), codes.shape[1], 2), dtype=np.uint8)
    choices[..., 0] = codes << 4
    choices[..., 1] = codes & 0xF0
    return choices.reshape(len(codes), -1)


def _rows(n):
    """Return room for n times 128 bytes."""
    return zeros_aligned((n, BLOCK))


def share_left(words, queries, reached):
    """Estimate the share of the codes that is left in the rings around the centers.

    The centers, which are compared too, count as left.

    reached : ndarray of shape (n_queries,), int32
        The distance of the last neighbour of each query.
    """
    centers = Centers(words)
    sample = read_only(words[:: -(-len(words) // SAMPLE)])
    nearest = centers.codes[centers.assign(sample, 1)]
    away = np.bitwise_count(sample ^ nearest).sum(axis=1, dtype=np.int32)
    differ = queries[:, None] ^ nearest
    to_queries = np.bitwise_count(differ).sum(axis=2, dtype=np.int32)
    left = (to_queries - away <= reached[:, None]).mean()
    return float(left) + len(centers.codes) / len(words)
