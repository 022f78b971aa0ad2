"""Exact search on the CPU: queries in chunks, chunks in threads, kernels by numba.

numba is imported at the first search, so that importing skhash stays quick.
"""

import joblib
import numpy as np
from joblib.parallel import get_active_backend
from sklearn.utils import gen_even_slices

from skhash.utils.chunks import CHUNK_BYTES

# Turning a block of codes on its side costs as much as some 20 queries, so chunks are
# large; larger ones would push the state of the queries out of the second-level cache.
MAX_CHUNK = 256
# Pairs of words below which a thread takes longer to start than to do its share.
MIN_THREAD_WORK = 2**23


def n_threads(n_jobs: int | None) -> int:
    """Return how many threads `n_jobs` stands for.

    ``None`` follows an enclosing ``joblib.parallel_config(n_jobs=...)``; without one it
    is all available cores, or 1 inside a joblib worker, whose siblings have the others.
    """
    if n_jobs is None:
        backend, n_jobs = get_active_backend()
        if n_jobs is None:
            return 1 if backend.nesting_level else joblib.cpu_count()
    return joblib.effective_n_jobs(n_jobs)


def nearest(words, n_planes, queries, k, n_jobs=None):
    """Find the `k` nearest codes, ordered by (distance, position).

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
    n_planes : int
        Bits of a code, padding of its last byte included.
    queries : ndarray of shape (n_queries, n_words), uint64
    k : int
        From 1 to n.
    n_jobs : int, default=None

    Returns
    -------
    distances : ndarray of shape (n_queries, k), int32
    positions : ndarray of shape (n_queries, k), int64
    """
    from skhash.neighbors import _kernels

    words, queries = _read_only(words), _read_only(queries)
    distances = np.empty((len(queries), k), dtype=np.int32)
    positions = np.empty((len(queries), k), dtype=np.int64)

    def search(rows):
        _kernels.nearest(
            words, n_planes, queries[rows], k, distances[rows], positions[rows]
        )

    bytes_per_query = 12 * _kernels.found_capacity(len(words), k) + 8 * n_planes
    _run(search, words, queries, n_jobs, bytes_per_query)
    return distances, positions


def within(words, n_planes, queries, radius, n_jobs=None):
    """Find all codes within `radius`, inclusive, ordered by (distance, position).

    Parameters
    ----------
    words, n_planes, queries, n_jobs
        As in `nearest`.
    radius : int
        At least 0.

    Returns
    -------
    distances : list of n_queries ndarrays, int32
    positions : list of n_queries ndarrays, int64
    """
    from skhash.neighbors import _kernels

    words, queries = _read_only(words), _read_only(queries)
    radius = min(radius, n_planes)

    def search(rows):
        counts, found = _kernels.within(words, n_planes, queries[rows], radius)
        levels = np.tile(np.arange(radius + 1, dtype=np.int32), len(counts))
        stops = np.cumsum(counts.sum(axis=1))[:-1]
        return np.split(np.repeat(levels, counts.ravel()), stops), np.split(
            found, stops
        )

    distances, positions = [], []
    for chunk in _run(search, words, queries, n_jobs, 40 * (radius + 1)):
        distances += chunk[0]
        positions += chunk[1]
    return distances, positions


def _read_only(array):
    """Return a view that cannot be written, so that numba compiles one version only."""
    view = np.require(array, requirements=["C", "A"])[:]
    view.flags.writeable = False
    return view


def _run(search, words, queries, n_jobs, bytes_per_query):
    """Call `search` on slices that cover the queries, in threads where that pays."""
    affordable = max(1, len(words) * queries.size // MIN_THREAD_WORK)
    threads = min(n_threads(n_jobs), affordable)
    size = max(1, min(MAX_CHUNK, CHUNK_BYTES // bytes_per_query))
    n_chunks = -(-len(queries) // size)
    n_chunks = min(len(queries), -(-n_chunks // threads) * threads)
    chunks = gen_even_slices(len(queries), n_chunks)
    if threads == 1:
        return [search(rows) for rows in chunks]
    parallel = joblib.Parallel(n_jobs=threads, require="sharedmem")
    return parallel(joblib.delayed(search)(rows) for rows in chunks)
