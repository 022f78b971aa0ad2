"""Exact search by comparing queries with all codes."""

import numpy as np

from skhash.neighbors.kernels import brute as kernels
from skhash.neighbors.kernels.brute import FEW_QUERIES
from skhash.neighbors.kernels.rowwise import VECTOR_WORDS
from skhash.neighbors.search.algorithm import Algorithm, Question
from skhash.neighbors.search.blocks import block_workspace
from skhash.neighbors.search.chunks import (
    live_codes,
    read_only,
    run,
    worthwhile_threads,
)
from skhash.neighbors.search.merge import merge_neighbors
from skhash.utils.chunks import even_chunks
from skhash.utils.threads import map_in_threads

# Codes within a radius that a thread finds at a time.
WITHIN_ROOM = 2**20
# Codes that a query keeps at the least besides the k nearest so far.
MIN_ROOM = 256


class Brute(Algorithm):
    """Compares a query with every code, many queries at a time where there are many."""

    def cost(self, question):
        return question.share * self.words.size

    def nearest(self, queries, question):
        parts = self._parts(queries, question)
        if len(parts) > 1:
            return merge_neighbors(_search_parts(parts, queries), question.reach)
        words, queries = read_only(self.words), read_only(queries)
        live, k = live_codes(question.live), question.reach
        capacity = _found_capacity(len(words), k)
        # Histograms take any distance, and answers are positions, whatever words hold.
        n_distances = 64 * words.shape[1] + 2
        distances = np.zeros((len(queries), k), dtype=np.int32)
        positions = np.zeros((len(queries), k), dtype=np.int64)

        def search_chunk(rows):
            chunk = queries[rows]
            states = np.zeros((len(chunk), 3), dtype=np.int64)
            states[:, 0] = self.n_planes + 1
            found = kernels.Found(
                states,
                np.zeros((len(chunk), n_distances), dtype=np.int64),
                np.empty((len(chunk), capacity), dtype=np.int32),
                np.empty((len(chunk), capacity), dtype=np.int64),
            )
            if len(chunk) < FEW_QUERIES:
                search, work = kernels.nearest_to_few, _few_workspace(chunk)
            else:
                work = block_workspace(self.n_planes, chunk, self.n_planes + 1)
                search = kernels.nearest
            search(words, live, chunk, work, found, distances[rows], positions[rows])

        bytes_per_query = 12 * capacity + 8 * n_distances
        run(search_chunk, words, queries, question.n_jobs, bytes_per_query)
        return distances, positions

    def within(self, queries, question):
        parts = self._parts(queries, question)
        if len(parts) > 1:
            return _join(_search_parts(parts, queries), len(queries))
        words, queries = read_only(self.words), read_only(queries)
        live, radius = live_codes(question.live), question.reach

        def search(rows):
            counts, found = self._count(words, live, queries[rows], radius)
            return _levels(counts), found, counts.sum(axis=1)

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
        words = read_only(self.words)
        everywhere = live_codes(None)

        def search(chunk):
            start, stop = rows.start + chunk.start, rows.start + chunk.stop
            others, queries = words[start:], words[start:stop]
            counts, found = self._count(others, everywhere, queries, radius)
            first = np.repeat(np.arange(len(queries)), counts.sum(axis=1))
            behind = found > first
            pairs = np.stack([first[behind], found[behind]], axis=1) + start
            return _levels(counts)[behind], pairs

        others, queries = words[rows.start :], words[rows]
        chunks = run(search, others, queries, n_jobs, 40 * (radius + 1))
        return tuple(map(np.concatenate, zip(*chunks, strict=True)))

    def _parts(self, queries, question):
        """Return parts of the codes for threads to search, where queries are too few.

        Few queries leave most time to reading the codes, which each thread does for its
        part alone. A part is its first position, the search, and its question.
        """
        n, n_parts = len(self.words), 1
        if len(queries) < FEW_QUERIES:
            n_parts = worthwhile_threads(n * queries.size, question.n_jobs)
        parts = []
        for rows in even_chunks(n, n_parts) if n_parts > 1 else ():
            live = None if question.live is None else question.live[rows]
            n_live = rows.stop - rows.start if live is None else np.count_nonzero(live)
            nearest = question.what == "nearest"
            reach = min(question.reach, n_live) if nearest else question.reach
            asked = Question(question.what, reach, n_jobs=1, live=live)
            parts.append((rows.start, Brute(self.words[rows], self.n_planes), asked))
        return parts

    def _count(self, words, live, queries, radius):
        """Return the counts by (query, distance), and the positions in that order."""
        if len(queries) < FEW_QUERIES:
            search, work = kernels.within_of_few, _few_workspace(queries)
        else:
            search = kernels.within
            work = block_workspace(self.n_planes, queries, radius + 1)
        counts = np.zeros((len(queries), radius + 1), dtype=np.int64)
        room, found, start = np.empty(WITHIN_ROOM, dtype=np.int64), [], 0
        while start < len(words):
            start, size = search(words, live, queries, work, start, counts, room)
            found.append(room[:size].copy())
        slots = np.cumsum(counts) - counts.ravel()
        positions = np.empty(counts.sum(), dtype=np.int64)
        for hits in found:
            kernels.place(hits, slots, positions)
        return counts, positions


def _search_parts(parts, queries):
    """Return what was found in each part of the codes, by positions among all."""

    def search(part):
        start, some, question = part
        found = getattr(some, question.what)(queries, question)
        return found[0], found[1] + start, *found[2:]

    return map_in_threads(search, parts, len(parts))


def _join(parts, n_queries):
    """Join what was found in parts of the codes, which follow each other."""
    distances, positions, counts = map(np.concatenate, zip(*parts, strict=True))
    query = np.repeat(np.arange(len(counts)) % n_queries, counts)
    order = np.lexsort((distances, query))
    counts = counts.reshape(-1, n_queries).sum(axis=0)
    return distances[order], positions[order], counts


def _levels(counts):
    """Return the distances that are counted, each as often as it is."""
    levels = np.arange(counts.shape[1], dtype=np.int32)
    return np.repeat(np.tile(levels, len(counts)), counts.ravel())


def _found_capacity(n, k):
    """Return for how many codes to keep room, a query, while searching.

    When it is full, all but k are dropped; this bounds the cost of that by the cost of
    filling it again.
    """
    return min(n, k + max(k, MIN_ROOM))


def _few_workspace(queries):
    """Make what kernels work in for few queries."""
    patterns = [queries] * -(-VECTOR_WORDS // queries.shape[1])
    room = np.empty(64, dtype=np.int64)
    return kernels.FewWork(np.concatenate(patterns, axis=1), room)
