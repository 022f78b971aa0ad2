"""Counts by Hamming distance, the input of all retrieval metrics.

A query's ranking is known up to the order of ties once the items at each distance are
counted, split by their relevance *level* (0 is irrelevant, else the number of shared
labels, cut at `levels - 1`). Nothing is sorted and no query-by-database matrix exists:
kernels walk over the database in blocks that stay in the first cache, without the GIL,
and Python threads share out the queries.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from skhash.utils.lazy import LateModule
from skhash.utils.threads import map_chunks, threads_for

_kernels = LateModule("skhash.metrics._kernels")

# Small enough that a chunk's tables stay in the cache and that threads share evenly,
# large enough that handing over a chunk costs nothing beside counting it.
QUERY_CHUNK_BYTES = 2**20
MIN_THREAD_WORK = 2**22  # words compared, milliseconds; below, a thread costs more


@dataclass(frozen=True)
class Ranking:
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
        _kernels.joint_counts(self._sides(rows), levels, self._first(rows), counts)
        return counts.reshape(n_rows, self.n_bits + 1, levels)

    def ordered_sums(self, rows: slice, counts, gains, discount) -> np.ndarray:
        """Sum over the best ``len(discount)`` in the order by (distance, position).

        Returns
        -------
        sums : ndarray of shape (n_rows, 3), float64
            Hits, precisions at the hits, and gains times discounts.
        """
        sums = np.zeros((len(counts), 3))
        flat = counts.reshape(len(counts), -1)
        sides, first = self._sides(rows), self._first(rows)
        _kernels.ordered_sums(sides, first, flat, gains, discount, sums)
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
        _kernels.ranks_of(sides, self._first(rows), flat, items, ranks)
        return ranks

    def map(self, function: Callable, levels: int) -> list:
        """Call `function` on chunks of the queries, in threads; return the results."""
        # Besides the counts, the closed forms hold a dozen float64 tables.
        bytes_per_query = 8 * (self.n_bits + 1) * (levels + 12)
        size = QUERY_CHUNK_BYTES // bytes_per_query
        work = self.n_queries * self.database.size
        threads = threads_for(work, MIN_THREAD_WORK, None)
        return map_chunks(function, self.n_queries, size, threads)

    def _sides(self, rows):
        """Return the arguments of the kernels for a chunk of the queries."""
        queries, wanted = self.queries[rows], self.wanted[rows]
        return queries, self.database, wanted, self.classes, self.masks

    def _first(self, rows) -> int:
        """Return the code that the first query of a chunk excludes, or -1."""
        return rows.start if self.exclude_self else -1
