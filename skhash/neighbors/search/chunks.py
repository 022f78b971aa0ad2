"""Queries in chunks, and chunks in threads."""

import numpy as np

from skhash.utils.chunks import CHUNK_BYTES, even_chunks
from skhash.utils.threads import map_in_threads, threads_for

# Turning a block of codes on its side costs as much as some 20 queries, so chunks are
# large; larger ones would push the state of the queries out of the second-level cache.
MAX_CHUNK = 256
# Pairs of words below which a thread takes longer to wake than to do its share.
MIN_THREAD_WORK = 2**19


def run(search, words, queries, n_jobs, bytes_per_query, max_chunk=None):
    """Call `search` on slices that cover the queries, in threads where that pays."""
    threads = threads_for_pairs(len(words) * queries.size, n_jobs)
    size = max(1, min(max_chunk or MAX_CHUNK, CHUNK_BYTES // bytes_per_query))
    n_chunks = -(-len(queries) // size)
    n_chunks = min(len(queries), -(-n_chunks // threads) * threads)
    return map_in_threads(search, even_chunks(len(queries), n_chunks), threads)


def threads_for_pairs(n_pairs, n_jobs):
    """Return how many threads pay for comparing so many pairs of words."""
    return threads_for(n_pairs, MIN_THREAD_WORK, n_jobs)


def read_only(array):
    """Return a view that cannot be written, so that numba compiles one version only."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    view = array[:]
    view.flags.writeable = False
    return view


def live_codes(live):
    """Return which codes may be found as kernels take it: empty, if all may be."""
    return _EVERYWHERE if live is None else read_only(live)


_EVERYWHERE = read_only(np.empty(0, dtype=bool))
