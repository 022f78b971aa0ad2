"""Counts by Hamming distance, the one thing that every retrieval metric starts from.

A query's ranking is known up to the order of ties once the items at each distance are
counted, split by their relevance *level* (0 is irrelevant, else the number of shared
labels, cut at `levels - 1`). Nothing is sorted and no query-by-database matrix exists:
kernels walk over the database in blocks that stay in the first cache, without the GIL,
and Python threads share out the queries.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from skhash.utils.chunks import row_chunks
from skhash.utils.kernels import kernel, popcount
from skhash.utils.threads import count_threads, map_in_threads

BLOCK = 1024
# Small enough that a chunk's tables stay near the core and that threads share evenly,
# large enough that handing a chunk over costs nothing beside counting it.
QUERY_CHUNK_BYTES = 2**20
MIN_THREAD_WORK = 2**22  # words compared, milliseconds; below, a thread costs more


@kernel
def _block_distances(query, database, start, stop, distances):
    """Write the distances of the codes start..stop to one query.

    One plain loop a word over a short buffer: that vectorises.
    """
    words = database[0, start:stop]
    for j in range(len(words)):
        distances[j] = np.uint32(popcount(words[j] ^ query[0]))
    for w in range(1, len(query)):
        words = database[w, start:stop]
        for j in range(len(words)):
            distances[j] += np.uint32(popcount(words[j] ^ query[w]))


@kernel
def _block_levels(wanted, classes, masks, top, start, stop, levels):
    """Write the levels of relevance of the codes start..stop, at most `top`."""
    if masks.shape[0] == 0:
        for j in range(stop - start):
            levels[j] = np.uint32(classes[start + j] == wanted[0])
        return
    words = masks[0, start:stop]
    for j in range(len(words)):
        levels[j] = np.uint32(popcount(words[j] & wanted[0]))
    for w in range(1, len(wanted)):
        words = masks[w, start:stop]
        for j in range(len(words)):
            levels[j] += np.uint32(popcount(words[j] & wanted[w]))
    for j in range(stop - start):
        levels[j] = min(levels[j], np.uint32(top))


@kernel
def _joint_counts(sides, levels, first, counts):
    """Fill ``counts[i, distance * levels + level]``; with `first` >= 0, code first + i
    is left out for query i."""
    queries, database, wanted, classes, masks = sides
    n = database.shape[1]
    keys = np.empty(BLOCK, dtype=np.uint32)
    block_levels = np.empty(BLOCK, dtype=np.uint32)
    # Four tables in turn: neighbouring codes are often at the same distance, and one
    # counter would make each increment wait for the store of the one before.
    tables = np.empty((4, counts.shape[1]), dtype=np.uint32)
    for i in range(len(queries)):
        tables[:] = 0
        own = first + i if first >= 0 else -1
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            _block_distances(queries[i], database, start, stop, keys)
            if levels > 1:
                _block_levels(
                    wanted[i], classes, masks, levels - 1, start, stop, block_levels
                )
                for j in range(stop - start):
                    keys[j] = keys[j] * np.uint32(levels) + block_levels[j]
            fours = (stop - start) // 4 * 4
            for j in range(0, fours, 4):
                tables[0, keys[j]] += np.uint32(1)
                tables[1, keys[j + 1]] += np.uint32(1)
                tables[2, keys[j + 2]] += np.uint32(1)
                tables[3, keys[j + 3]] += np.uint32(1)
            for j in range(fours, stop - start):
                tables[0, keys[j]] += np.uint32(1)
            if start <= own < stop:
                counts[i, keys[own - start]] -= 1
        for key in range(counts.shape[1]):
            for table in range(4):
                counts[i, key] += tables[table, key]


@kernel
def _start_ranks(counts, levels, ranks, found):
    """Write how many codes, and relevant ones, are nearer than each distance."""
    nearer = hits = 0
    for distance in range(len(ranks)):
        ranks[distance], found[distance] = nearer, hits
        for level in range(levels):
            count = counts[distance * levels + level]
            nearer += count
            hits += count if level > 0 else 0


@kernel
def _ordered_sums(sides, levels, first, counts, gains, discount, sums):
    """Sum hits, precisions at hits, and discounted gains of the order by position.

    A counting sort without the sorting: a first pass counted, so the rank of a code is
    the number of nearer codes plus that of the codes met so far at its distance.
    """
    queries, database, wanted, classes, masks = sides
    n, k = database.shape[1], len(discount)
    distances = np.empty(BLOCK, dtype=np.uint32)
    block_levels = np.empty(BLOCK, dtype=np.uint32)
    block_ranks = np.empty(BLOCK, dtype=np.int64)
    relevant = np.empty(BLOCK, dtype=np.uint32)
    ranks = np.empty(counts.shape[1] // levels, dtype=np.int64)
    found = np.empty_like(ranks)
    for i in range(len(queries)):
        _start_ranks(counts[i], levels, ranks, found)
        own = first + i if first >= 0 else -1
        hits, precision, gain = 0, 0.0, 0.0
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            _block_distances(queries[i], database, start, stop, distances)
            _block_levels(
                wanted[i], classes, masks, levels - 1, start, stop, block_levels
            )
            if start <= own < stop:
                block_levels[own - start] = 0
            n_relevant = 0  # collected without a branch, which would be a gamble
            for j in range(stop - start):
                ranks[distances[j]] += np.int64(start + j != own)
                block_ranks[j] = ranks[distances[j]]
                relevant[n_relevant] = j
                n_relevant += np.int64(block_levels[j] > 0)
            for j in relevant[:n_relevant]:
                found[distances[j]] += 1
                rank = block_ranks[j]
                if rank <= k:
                    hits += 1
                    precision += found[distances[j]] / rank
                    gain += gains[block_levels[j]] * discount[rank - 1]
        sums[i, 0], sums[i, 1], sums[i, 2] = hits, precision, gain


@kernel
def _ranks_of(sides, first, counts, items, item_ranks):
    """Write the rank by (distance, position) of each item; `items` ascend in a row."""
    queries, database = sides
    n = database.shape[1]
    distances = np.empty(BLOCK, dtype=np.uint32)
    ranks = np.empty(counts.shape[1], dtype=np.int64)
    found = np.empty_like(ranks)
    for i in range(len(queries)):
        _start_ranks(counts[i], 1, ranks, found)
        own = first + i if first >= 0 else -1
        t = 0
        for start in range(0, n, BLOCK):
            if t == items.shape[1]:
                break
            stop = min(start + BLOCK, n)
            _block_distances(queries[i], database, start, stop, distances)
            for j in range(stop - start):
                if start + j == own:
                    continue
                ranks[distances[j]] += 1
                if t < items.shape[1] and start + j == items[i, t]:
                    item_ranks[i, t] = ranks[distances[j]]
                    t += 1


@dataclass(frozen=True)
class Comparison:
    """Queries against a database, in the layout that the kernels read.

    `wanted` holds the class of each query in a column, or its labels as bit masks; the
    database side is word-major so that one word of many codes is read in a stream.
    """

    queries: np.ndarray  # (n_queries, n_words), uint64
    database: np.ndarray  # (n_words, n_database), uint64
    n_bits: int
    wanted: np.ndarray  # (n_queries, 1 or n_mask_words), uint64
    classes: np.ndarray  # (n_database,) or, for masks, (0,), uint64
    masks: np.ndarray  # (n_mask_words, n_database), uint64; no rows for classes
    levels: int  # 1 + the largest number of labels that a pair can share
    exclude_self: bool

    def __post_init__(self):
        # Kernels are compiled for each kind of array: all are made read-only, as those
        # of memory maps are, so that there is one kind.
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value = value.view()
                value.flags.writeable = False
                object.__setattr__(self, field.name, value)

    @property
    def n_queries(self) -> int:
        return self.queries.shape[0]

    @property
    def n_ranked(self) -> int:
        """The number of codes that each query ranks."""
        return self.database.shape[1] - self.exclude_self

    def counts(self, rows: slice, levels: int) -> np.ndarray:
        """Count the codes of each query at each distance and relevance level.

        Returns
        -------
        counts : ndarray of shape (n_rows, n_bits + 1, levels), int64
        """
        n_rows = rows.stop - rows.start
        counts = np.zeros((n_rows, (self.n_bits + 1) * levels), dtype=np.int64)
        _joint_counts(self._sides(rows), levels, self._first(rows), counts)
        return counts.reshape(n_rows, self.n_bits + 1, levels)

    def ordered_sums(self, rows: slice, counts, gains, discount) -> np.ndarray:
        """Sum over the best ``len(discount)`` in the order by (distance, position).

        Returns
        -------
        sums : ndarray of shape (n_rows, 3), float64
            Hits, precisions at the hits, and gains times discounts.
        """
        n_rows, _, levels = counts.shape
        sums = np.zeros((n_rows, 3))
        flat = counts.reshape(n_rows, -1)
        sides, first = self._sides(rows), self._first(rows)
        _ordered_sums(sides, levels, first, flat, gains, discount, sums)
        return sums

    def distances_to(self, rows: slice, items) -> np.ndarray:
        """Return the distances of `items`, database positions, from their queries."""
        words = self.queries[rows].T[:, :, None] ^ self.database[:, items]
        return np.bitwise_count(words).sum(axis=0, dtype=np.int64)

    def ranks_of(self, rows: slice, counts, items) -> np.ndarray:
        """Rank `items`, database positions that ascend in each row; the best is 1."""
        ranks = np.zeros(items.shape, dtype=np.int64)
        flat = counts.reshape(len(counts), -1)
        sides = self.queries[rows], self.database
        _ranks_of(sides, self._first(rows), flat, items, ranks)
        return ranks

    def map(self, function: Callable, levels: int, n_jobs: int | None) -> list:
        """Call `function` on chunks of the queries, in threads; return the results."""
        # Besides the counts, the closed forms hold a dozen float64 tables.
        bytes_per_query = 8 * (self.n_bits + 1) * (levels + 12)
        chunks = row_chunks(self.n_queries, bytes_per_query, QUERY_CHUNK_BYTES)
        work = self.n_queries * self.database.size
        threads = min(count_threads(n_jobs), max(1, work // MIN_THREAD_WORK))
        return map_in_threads(function, chunks, threads)

    def _sides(self, rows):
        """Return what is compared, of a chunk of the queries."""
        queries, wanted = self.queries[rows], self.wanted[rows]
        return queries, self.database, wanted, self.classes, self.masks

    def _first(self, rows) -> int:
        """Return the code that the first query of a chunk leaves out, or -1."""
        return rows.start if self.exclude_self else -1
