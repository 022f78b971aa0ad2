"""Exact search by comparing queries with all codes."""

from functools import partial

import numpy as np

from skhash.neighbors.kernels import brute as kernels
from skhash.neighbors.kernels.bitslice import (
    CHOICE,
    GROUP,
    GROUP_PLANES,
    LANES,
    n_groups,
    n_levels,
    program_of,
)
from skhash.neighbors.kernels.brute import FEW_QUERIES
from skhash.neighbors.kernels.rowwise import VECTOR_WORDS
from skhash.neighbors.search.base import Algorithm, Question
from skhash.neighbors.search.chunks import live_codes, read_only, run, zeros_aligned
from skhash.neighbors.search.merge import merge_neighbors
from skhash.utils.chunks import even_chunks
from skhash.utils.threads import map_in_threads, threads_for

# Codes within a radius that a thread finds at a time.
WITHIN_ROOM = 2**20
# Least room of a query for codes besides the k nearest so far.
MIN_ROOM = 256
# Least pairs of words per thread for few queries: a thread may need .3 ms to wake, in
# which a core reads 10 MB.
MIN_FEW_WORK = 2**22
# The most neighbours for which buffers are kept for the next search.
MAX_KEPT = 1024


class Brute(Algorithm):
    """Compares queries with every code, many at a time where there are many."""

    def __init__(self, words, n_planes):
        super().__init__(read_only(words), n_planes)
        self._rooms = []

    def nearest(self, queries, question):
        if len(queries) < FEW_QUERIES:
            return self._nearest_to_few(queries, question)
        words, queries = self.words, read_only(queries)
        live, k = live_codes(question.live), question.reach
        distances, positions = _answers(len(queries), k)

        def search_chunk(rows):
            chunk = queries[rows]
            work = _block_work(self.n_planes, chunk)
            found = _found_room(len(chunk), words, k)
            answers = distances[rows], positions[rows]
            kernels.nearest(words, live, chunk, self.n_planes, work, found, *answers)

        bytes_per_query = sum(part.nbytes for part in _found_room(1, words, k))
        run(search_chunk, words, queries, question.n_jobs, bytes_per_query)
        return distances, positions

    def _nearest_to_few(self, queries, question):
        parts = self._search_parts(queries, question)
        if parts:
            return merge_neighbors(parts, question.reach)
        k, shape = question.reach, (*queries.shape, question.reach)
        distances, positions = _answers(len(queries), k)
        room = self._room(shape)
        room.patterns[:] = queries[:, None]
        live = live_codes(question.live)
        kernels.nearest_to_few(
            self.words, live, self.n_planes, room.work, room.found, distances, positions
        )
        if k <= MAX_KEPT:
            self._rooms.append(room)
        return distances, positions

    def _room(self, shape):
        """Return the buffers of an earlier call, unless another thread uses them."""
        try:
            room = self._rooms.pop()
        except IndexError:
            return _FewRoom(shape, self.words)
        return room if room.shape == shape else _FewRoom(shape, self.words)

    def within(self, queries, question):
        parts = self._search_parts(queries, question)
        if parts:
            return _join(parts, len(queries))
        words, queries = self.words, read_only(queries)
        live, radius = live_codes(question.live), question.reach

        def search(rows):
            counts, positions = self._count(words, live, queries[rows], radius)
            return _levels(counts), positions, counts.sum(axis=1)

        bytes_per_query = 40 * (radius + 1)
        chunks = run(search, words, queries, question.n_jobs, bytes_per_query)
        return tuple(map(np.concatenate, zip(*chunks, strict=True)))

    def pairs_behind(self, rows, radius, n_jobs=None):
        """Find pairs of codes within `radius`: one of `rows`, and one behind it.

        Parameters
        ----------
        rows : slice
            With start and stop.
        radius : int
        n_jobs : int, default=None

        Returns
        -------
        distances : ndarray of shape (n_pairs,), int32
        pairs : ndarray of shape (n_pairs, 2), int64
            Ordered by the first, the distance, and the second.
        """
        words = self.words
        everywhere = live_codes(None)

        def search(chunk):
            start, stop = rows.start + chunk.start, rows.start + chunk.stop
            others, queries = words[start:], words[start:stop]
            counts, positions = self._count(others, everywhere, queries, radius)
            first = np.repeat(np.arange(len(queries)), counts.sum(axis=1))
            behind = positions > first
            pairs = np.stack([first[behind], positions[behind]], axis=1) + start
            return _levels(counts)[behind], pairs

        others, queries = words[rows.start :], words[rows]
        chunks = run(search, others, queries, n_jobs, 40 * (radius + 1))
        return tuple(map(np.concatenate, zip(*chunks, strict=True)))

    def _search_parts(self, queries, question):
        """Return answers of parts of the codes, or none where the whole is searched.

        With few queries, reading the codes dominates, so each thread reads one part.
        """
        if len(queries) >= FEW_QUERIES:
            return []

        def search(rows):
            live = None if question.live is None else question.live[rows]
            n_live = rows.stop - rows.start if live is None else np.count_nonzero(live)
            nearest = question.what == "nearest"
            reach = min(question.reach, n_live) if nearest else question.reach
            asked = Question(question.what, reach, n_jobs=1, live=live)
            part = Brute(self.words[rows], self.n_planes)
            distances, positions, *counts = asked.ask(part, queries)
            return distances, positions + rows.start, *counts

        n = len(self.words)
        n_parts = threads_for(n * queries.size, MIN_FEW_WORK, question.n_jobs)
        parts = even_chunks(n, n_parts) if n_parts > 1 else []
        return map_in_threads(search, parts, n_parts)

    def _count(self, words, live, queries, radius):
        """Return the counts by (query, distance), and the positions in that order."""
        if len(queries) < FEW_QUERIES:
            buffers = _FewRoom((*queries.shape, 0), words)
            buffers.patterns[:] = queries[:, None]
            search = partial(kernels.within_of_few, words, live, buffers.work)
        else:
            work = _block_work(self.n_planes, queries)
            search = partial(kernels.within, words, live, queries, work)
        counts = np.zeros((len(queries), radius + 1), dtype=np.int64)
        room, parts, start = np.empty(WITHIN_ROOM, dtype=np.int64), [], 0
        while start < len(words):
            start, size = search(start, counts, room)
            parts.append(room[:size].copy())
        slots = np.cumsum(counts) - counts.ravel()
        positions = np.empty(counts.sum(), dtype=np.int64)
        for keys in parts:
            kernels.place(keys, slots, positions)
        return counts, positions


def _join(parts, n_queries):
    """Concatenate the answers of consecutive parts of the codes."""
    distances, positions, counts = map(np.concatenate, zip(*parts, strict=True))
    query = np.repeat(np.arange(len(counts)) % n_queries, counts)
    order = np.lexsort((distances, query))
    counts = counts.reshape(-1, n_queries).sum(axis=0)
    return distances[order], positions[order], counts


def _levels(counts):
    """Return the distances that are counted, repeated by their counts."""
    levels = np.arange(counts.shape[1], dtype=np.int32)
    return np.repeat(np.tile(levels, len(counts)), counts.ravel())


def _block_work(n_planes, queries):
    """Return the buffers to search for many queries."""
    n_queries, n_words = queries.shape
    program, groups = program_of(n_planes), n_groups(n_planes)
    n_rows, vector = max(GROUP * groups, 64 * n_words), 8 * LANES
    return kernels.Work(
        find=kernels.block_finder(program),
        program=program,
        # Planes past the last bit stay 0, in codes and queries alike.
        planes=zeros_aligned((n_rows, vector)).view(np.uint64),
        table=zeros_aligned((GROUP_PLANES * groups * vector,)).view(np.uint64),
        choices=_choices(queries, groups),
        bias=np.empty((n_queries, n_levels(program)), dtype=np.uint64),
        hits=zeros_aligned((n_queries + 1, vector)).view(np.uint64),
        hit_queries=np.empty(n_queries + 1, dtype=np.int64),
        asked=np.arange(n_queries),
    )


def _choices(queries, n_groups):
    """Return the place of each query's digits in a group of the table."""
    bits = np.zeros((len(queries), GROUP * n_groups), dtype=np.uint8)
    flips = np.unpackbits(queries.view(np.uint8), axis=1, bitorder="little")
    width = min(bits.shape[1], flips.shape[1])
    bits[:, :width] = flips[:, :width]
    a, b, c = (bits[:, i::GROUP] for i in range(GROUP))
    choices = np.stack([a + 2 * b + 4 * c, a ^ b ^ c], axis=2) * np.uint8(CHOICE)
    return choices.reshape(len(queries), 2 * n_groups)


class _FewRoom:
    """Buffers of a search for few queries, reused by later ones.

    shape : tuple (n_queries, n_words, k); patterns (n_queries, repeats, n_words) :
    uint64, the queries over and over, which the caller writes.
    """

    def __init__(self, shape, words):
        self.shape, (n_queries, n_words, k) = shape, shape
        repeats = -(-VECTOR_WORDS // n_words)
        self.patterns = np.empty((n_queries, repeats, n_words), dtype=np.uint64)
        patterns = read_only(self.patterns.reshape(n_queries, -1))
        self.work = kernels.FewWork(patterns, np.empty(64, dtype=np.int64))
        self.found = _found_room(n_queries, words, k)


def _answers(n_queries, k):
    """Return zeroed arrays for distances and positions."""
    shape = n_queries, k
    return np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int64)


def _found_room(n_queries, words, k):
    """Return buffers for the codes that queries find, and histograms of distances.

    When it is full, all but k are dropped; the cost of that is bounded by the cost of
    filling it again.
    """
    capacity = min(len(words), k + max(k, MIN_ROOM))
    return kernels.Found(
        np.empty((n_queries, 3), dtype=np.int64),
        np.empty((n_queries, 64 * words.shape[1] + 2), dtype=np.int64),
        np.empty((n_queries, capacity), dtype=np.int32),
        np.empty((n_queries, capacity), dtype=np.int64),
    )
