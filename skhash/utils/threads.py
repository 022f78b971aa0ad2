"""Python threads for kernels that release the GIL."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

from skhash.utils.chunks import even_chunks
from skhash.utils.lazy import fork_locks

# Multiplications below which a product is not shared among threads of ours.
MIN_SHARED_WORK = 2**24
REFRESH_SECONDS = 10
# The most rows of a matrix that one thread factors.
MAX_ROWS_OF_ONE_THREAD = 4096


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads `n_jobs` stands for.

    ``None`` follows an enclosing ``joblib.parallel_config(n_jobs=...)``; without one it
    is all available cores, or 1 inside a joblib worker, whose siblings have the others.
    """
    if n_jobs is None:
        backend, n_jobs = get_active_backend()
        if n_jobs is None:
            return 1 if backend.nesting_level else granted_cores()
    return joblib.effective_n_jobs(n_jobs)


def threads_for(work: float, least: float, n_jobs: int | None) -> int:
    """Return how many threads to use for `work`: each does `least` of it or more."""
    # Counting the cores is as slow as a small search.
    return 1 if work < 2 * least else min(count_threads(n_jobs), int(work // least))


def granted_cores() -> int:
    """Return how many cores this process may use, as joblib counts them.

    A container may grant fewer than the machine has. Reading that is slower than many
    a search, so it is repeated every `REFRESH_SECONDS` only.
    """
    return _count_cores(time.monotonic() // REFRESH_SECONDS)


@lru_cache(maxsize=1)
def _count_cores(_period):
    return joblib.cpu_count()


def few_blas_threads(n_rows: int):
    """Return a context in which BLAS has one thread if a matrix has few rows.

    On busy cores the threads of BLAS wait for each other, and several take many times
    as long as one, which is nearly as fast as they are on idle cores.
    """
    limit = 1 if n_rows <= MAX_ROWS_OF_ONE_THREAD else None
    return threadpool_limits(limit, user_api="blas")


def map_in_threads(function: Callable, items: Iterable, threads: int) -> list:
    """Return ``[function(item) for item in items]``, computed by `threads` threads.

    The calling thread is one of them. The others stay for the next call: joblib starts
    new ones at every call, which is slower than many a search.
    """
    if threads == 1:
        return [function(item) for item in items]
    items = list(items)
    results, waiting = [None] * len(items), deque(range(len(items)))

    def work():
        while True:
            try:
                i = waiting.popleft()
            except IndexError:
                return
            try:
                results[i] = function(items[i])
            except BaseException:
                waiting.clear()  # nothing else begins
                raise

    helpers = [_pool().submit(work) for _ in range(min(threads, len(items)) - 1)]
    try:
        work()
    finally:
        # One that has not begun, as other calls have all threads, is not waited for.
        running = [helper for helper in helpers if not helper.cancel()]
        errors = [error for helper in running if (error := helper.exception())]
    if errors:
        raise errors[0]
    return results


def map_chunks(function: Callable, n_rows: int, size: int, threads: int) -> list:
    """Call `function` on slices that cover ``range(n_rows)``, in `threads` threads.

    They have `size` rows at most, and are as many for each thread. Without rows there
    is one.
    """
    n_chunks = -(-n_rows // (max(1, size) * threads)) * threads
    chunks = even_chunks(n_rows, max(1, min(n_rows, n_chunks)))
    return map_in_threads(function, chunks, threads)


@lru_cache(maxsize=1)
def _pool():
    return ThreadPoolExecutor(max(32, joblib.cpu_count()), thread_name_prefix="skhash")


class ProcessLock:
    """A lock for each process: a forked one does not wait for a thread of another."""

    def __init__(self):
        self._locks = {}

    @property
    def lock(self) -> Lock:
        """The lock of this process."""
        return self._locks.setdefault(os.getpid(), Lock())


def _take_locks():
    for lock in fork_locks:
        lock.acquire()


def _release_locks():
    for lock in reversed(fork_locks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_locks,
        after_in_parent=_release_locks,
        after_in_child=_release_locks,
    )
    # Threads do not pass to a forked process.
    os.register_at_fork(after_in_child=_pool.cache_clear)
