"""Queries in chunks, chunks in threads, and arrays in the layout of kernels."""

from math import prod

import numpy as np

from skhash.utils.chunks import CHUNK_BYTES
from skhash.utils.threads import map_chunks, threads_for

# Transposing a block of codes costs as much as some 20 queries, so chunks are
# large; larger ones would push the state of the queries out of the second-level cache.
MAX_CHUNK = 256
# Pairs of words below which a thread needs longer to wake than to do its share.
MIN_THREAD_WORK = 2**19
LINE = 64  # bytes in a line of the cache


def run(search, words, queries, n_jobs, bytes_per_query, max_chunk=None):
    """Call `search` on slices that cover the queries, in threads where that pays."""
    threads = threads_for_pairs(len(words) * queries.size, n_jobs)
    size = min(max_chunk or MAX_CHUNK, CHUNK_BYTES // bytes_per_query)
    return map_chunks(search, len(queries), size, threads)


def threads_for_pairs(n_pairs, n_jobs):
    """Return how many threads to use to compare `n_pairs` pairs of words."""
    return threads_for(n_pairs, MIN_THREAD_WORK, n_jobs)


def read_only(array):
    """Return a read-only view, so that numba compiles one version only."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    view = array[:]
    view.flags.writeable = False
    return view


def zeros_aligned(shape):
    """Return zero bytes aligned so that no vector crosses a cache line.

    One that does is read at half the speed.
    """
    n_bytes = prod(shape)
    room = np.zeros(n_bytes + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + n_bytes].reshape(shape)


def live_codes(live):
    """Return which codes may be found, for kernels: empty, if all may be."""
    return _EVERYWHERE if live is None else read_only(live)


_EVERYWHERE = read_only(np.empty(0, dtype=bool))
