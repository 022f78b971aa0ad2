"""Python threads for kernels that release the GIL."""

from collections.abc import Callable, Iterable

import joblib
from joblib.parallel import get_active_backend


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads `n_jobs` stands for.

    ``None`` follows an enclosing ``joblib.parallel_config(n_jobs=...)``; without one it
    is all available cores, or 1 inside a joblib worker, whose siblings have the others.
    """
    if n_jobs is None:
        backend, n_jobs = get_active_backend()
        if n_jobs is None:
            return 1 if backend.nesting_level else joblib.cpu_count()
    return joblib.effective_n_jobs(n_jobs)


def map_in_threads(function: Callable, items: Iterable, threads: int) -> list:
    """Return ``[function(item) for item in items]``, computed by so many threads."""
    if threads == 1:
        return [function(item) for item in items]
    parallel = joblib.Parallel(n_jobs=threads, require="sharedmem")
    return parallel(joblib.delayed(function)(item) for item in items)
