"""Exact search on the CPU: queries in chunks, chunks in threads, kernels by numba."""

import numpy as np

from skhash.neighbors.kernels import brute as kernels
from skhash.neighbors.kernels.bitslice import (
    BLOCK,
    GROUP,
    GROUP_BYTES,
    LANES,
    PLANE_BYTES,
    group_step,
    n_levels,
)
from skhash.neighbors.kernels.brute import FEW_QUERIES
from skhash.neighbors.kernels.rowwise import VECTOR_WORDS
from skhash.neighbors.search.merge import merge_neighbors
from skhash.utils.chunks import CHUNK_BYTES, even_chunks
from skhash.utils.threads import count_threads, map_in_threads

# Turning a block of codes on its side costs as much as some 20 queries, so chunks are
# large; larger ones would push the state of the queries out of the second-level cache.
MAX_CHUNK = 256
# Pairs of words below which a thread takes longer to wake than to do its share.
MIN_THREAD_WORK = 2**19
# Codes within a radius that a thread finds at a time.
WITHIN_ROOM = 2**20


def nearest(words, n_planes, queries, k, n_jobs=None, live=None):
    """Find the `k` nearest codes, ordered by (distance, position).

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
    n_planes : int
        Bits of a code, padding of its last byte included.
    queries : ndarray of shape (n_queries, n_words), uint64
    k : int
        From 1 to the number of codes that may be found.
    n_jobs : int, default=None
    live : ndarray of shape (n,), bool, default=None
        Which codes may be found. None is all.

    Returns
    -------
    distances : ndarray of shape (n_queries, k), int32
    positions : ndarray of shape (n_queries, k), int64
    """
    parts = _code_parts(words, queries, n_jobs)
    if len(parts) > 1:

        def search_part(rows):
            some = None if live is None else live[rows]
            n_live = rows.stop - rows.start if some is None else np.count_nonzero(some)
            most = min(k, n_live)
            found = nearest(words[rows], n_planes, queries, most, 1, some)
            return found[0], found[1] + rows.start

        return merge_neighbors(map_in_threads(search_part, parts, len(parts)), k)
    live = _live_bits(len(words), live)
    words, queries = _read_only(words), _read_only(queries)
    capacity = _found_capacity(len(words), k)
    # Histograms take any distance, and answers are positions, whatever words hold.
    n_distances = 64 * words.shape[1] + 2
    distances = np.zeros((len(queries), k), dtype=np.int32)
    positions = np.zeros((len(queries), k), dtype=np.int64)

    def search(rows):
        chunk = queries[rows]
        states = np.zeros((len(chunk), 3), dtype=np.int64)
        states[:, 0] = n_planes + 1
        found = (
            states,
            np.zeros((len(chunk), n_distances), dtype=np.int64),
            np.empty((len(chunk), capacity), dtype=np.int32),
            np.empty((len(chunk), capacity), dtype=np.int64),
        )
        answers = found, distances[rows], positions[rows]
        if len(chunk) < FEW_QUERIES:
            task = words, live, chunk, _patterns(chunk), k, _lane_room()
            kernels.nearest_to_few(*task, *answers)
        else:
            work = _workspace(n_planes, chunk, threshold=n_planes + 1)
            task = words, live, n_planes, chunk, k, work, np.arange(len(chunk))
            kernels.nearest(*task, *answers)

    _run(search, words, queries, n_jobs, 12 * capacity + 8 * n_distances)
    return distances, positions


def within(words, n_planes, queries, radius, n_jobs=None, live=None):
    """Find all codes within `radius`, inclusive, ordered by (distance, position).

    Parameters
    ----------
    words, n_planes, queries, n_jobs, live
        As in `nearest`.
    radius : int
        At least 0.

    Returns
    -------
    distances : list of n_queries ndarrays, int32
    positions : list of n_queries ndarrays, int64
    """
    parts = _code_parts(words, queries, n_jobs)
    if len(parts) > 1:

        def search_part(rows):
            some = None if live is None else live[rows]
            found = within(words[rows], n_planes, queries, radius, 1, some)
            return found[0], [positions + rows.start for positions in found[1]]

        return _join_within(map_in_threads(search_part, parts, len(parts)))
    live = _live_bits(len(words), live)
    words, queries = _read_only(words), _read_only(queries)
    radius = min(radius, n_planes)

    def search(rows):
        counts, found = _find_within(words, live, n_planes, queries[rows], radius)
        levels = np.tile(np.arange(radius + 1, dtype=np.int32), len(counts))
        distances = np.repeat(levels, counts.ravel())
        stops = np.cumsum(counts.sum(axis=1))[:-1]
        return np.split(distances, stops), np.split(found, stops)

    distances, positions = [], []
    for chunk in _run(search, words, queries, n_jobs, 40 * (radius + 1)):
        distances += chunk[0]
        positions += chunk[1]
    return distances, positions


def pairs_behind(words, n_planes, rows, radius, n_jobs=None):
    """Find pairs of codes within `radius`: one of `rows`, and one behind it.

    Parameters
    ----------
    words, n_planes, radius, n_jobs
        As in `within`.
    rows : slice
        With start and stop.

    Returns
    -------
    distances : ndarray of shape (n_pairs,), int32
    pairs : ndarray of shape (n_pairs, 2), int64
        Ordered by the first, the distance, and the second.
    """
    words = _read_only(words)
    radius = min(radius, n_planes)

    def search(chunk):
        start, stop = rows.start + chunk.start, rows.start + chunk.stop
        others, queries = words[start:], words[start:stop]
        live = _live_bits(len(others), None)
        counts, found = _find_within(others, live, n_planes, queries, radius)
        first = np.repeat(np.arange(len(queries)), counts.sum(axis=1))
        levels = np.tile(np.arange(radius + 1, dtype=np.int32), len(queries))
        behind = found > first
        pairs = np.stack([first[behind], found[behind]], axis=1) + start
        return np.repeat(levels, counts.ravel())[behind], pairs

    others, queries = words[rows.start :], words[rows]
    chunks = _run(search, others, queries, n_jobs, 40 * (radius + 1))
    distances, pairs = zip(*chunks, strict=True)
    return np.concatenate(distances), np.concatenate(pairs)


def _find_within(words, live, n_planes, queries, radius):
    """Return the counts by (query, distance), and the positions in that order."""
    if len(queries) < FEW_QUERIES:
        search = kernels.within_of_few
        task = words, live, queries, _patterns(queries), _lane_room()
    else:
        search = kernels.within
        work = _workspace(n_planes, queries, threshold=radius + 1)
        task = words, live, n_planes, queries, work, np.arange(len(queries))
    counts = np.zeros((len(queries), radius + 1), dtype=np.int64)
    room, found, start = np.empty(WITHIN_ROOM, dtype=np.int64), [], 0
    while start < len(words):
        start, size = search(*task, start, counts, room)
        found.append(room[:size].copy())
    slots = np.cumsum(counts) - counts.ravel()
    positions = np.empty(counts.sum(), dtype=np.int64)
    for hits in found:
        kernels.place(hits, slots, positions)
    return counts, positions


def _code_parts(words, queries, n_jobs):
    """Return slices of the codes for threads to search, where queries are too few.

    Few queries leave most time to reading the codes, which each thread does for its
    part alone.
    """
    n_parts = 1
    if len(queries) < FEW_QUERIES:
        n_parts = _count_threads(len(words) * queries.size, n_jobs)
    return even_chunks(len(words), n_parts)


def _join_within(parts):
    """Join what was found in parts of the codes, which follow each other."""
    distances, positions = [], []
    for found in zip(*(zip(*part, strict=True) for part in parts), strict=True):
        near, places = map(np.concatenate, zip(*found, strict=True))
        order = np.argsort(near, kind="stable")
        distances.append(near[order])
        positions.append(places[order])
    return distances, positions


def _live_bits(n, live):
    """Return a bit for each place in the blocks: whether a code there may be found.

    Without `live`, where all may be, it is an empty array.
    """
    bits = np.zeros(0 if live is None else BLOCK * -(-n // BLOCK) // 8, dtype=np.uint8)
    if live is not None:
        bits[: -(-n // 8)] = np.packbits(live, bitorder="little")
    return _read_only(bits.view(np.uint64))


def _found_capacity(n, k):
    """Return for how many codes to keep room, a query, while searching.

    When it is full, all but k are dropped; this bounds the cost of that by the cost of
    filling it again.
    """
    return min(n, max(2 * k, k + BLOCK))


def _workspace(n_planes, queries, threshold):
    """Make the arrays that the kernels work in, for codes nearer than `threshold`."""
    n_queries, n_words = queries.shape
    hits = np.empty((n_queries + 1, LANES), dtype=np.uint64)
    hit_queries = np.empty(n_queries + 1, dtype=np.int64)
    step = group_step(n_planes)
    n_groups = step * -(-n_planes // (GROUP * step))
    # Planes past the last bit stay 0, in codes and queries alike.
    planes = np.zeros((max(GROUP * n_groups, 64 * n_words), LANES), dtype=np.uint64)
    table = np.empty(n_groups * GROUP_BYTES // 8, dtype=np.uint64)
    bias = np.empty((n_queries, n_levels(n_planes)), dtype=np.uint64)
    kernels.set_threshold(bias[0], threshold)
    bias[1:] = bias[0]
    return planes, table, _choices(queries, n_groups), bias, hits, hit_queries


def _lane_room():
    return np.empty(64, dtype=np.int64)


def _patterns(queries):
    """Return the words of each query, over and over, so that they fill a vector."""
    return np.concatenate([queries] * -(-VECTOR_WORDS // queries.shape[1]), axis=1)


def _choices(queries, n_groups):
    """Return where in a group of the table each query finds its digits, in bytes."""
    bits = np.zeros((len(queries), GROUP * n_groups), dtype=np.uint8)
    flips = np.unpackbits(queries.view(np.uint8), axis=1, bitorder="little")
    width = min(bits.shape[1], flips.shape[1])
    bits[:, :width] = flips[:, :width]
    a, b, c = (bits[:, i::GROUP] for i in range(GROUP))
    choices = np.stack([a + 2 * b + 4 * c, a ^ b ^ c], axis=2) * np.uint8(PLANE_BYTES)
    return choices.reshape(len(queries), 2 * n_groups)


def _read_only(array):
    """Return a view that cannot be written, so that numba compiles one version only."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    view = array[:]
    view.flags.writeable = False
    return view


def _count_threads(work, n_jobs):
    """Return how many threads pay for so many pairs of words."""
    affordable = max(1, work // MIN_THREAD_WORK)
    # Asking how many there are takes as long as a small search.
    return 1 if affordable == 1 else min(count_threads(n_jobs), affordable)


def _run(search, words, queries, n_jobs, bytes_per_query, max_chunk=None):
    """Call `search` on slices that cover the queries, in threads where that pays."""
    threads = _count_threads(len(words) * queries.size, n_jobs)
    size = max(1, min(max_chunk or MAX_CHUNK, CHUNK_BYTES // bytes_per_query))
    n_chunks = -(-len(queries) // size)
    n_chunks = min(len(queries), -(-n_chunks // threads) * threads)
    return map_in_threads(search, even_chunks(len(queries), n_chunks), threads)
