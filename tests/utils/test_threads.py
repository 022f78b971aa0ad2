"""How many threads work, and that they change nothing."""

import joblib
import numba
import numpy as np
import pytest

from skhash.utils import kernels
from skhash.utils.threads import count_threads, map_in_threads


def test_none_follows_joblib():
    assert count_threads(None) == joblib.cpu_count()
    assert count_threads(3) == 3
    with joblib.parallel_config(n_jobs=3):
        assert count_threads(None) == 3
    workers = joblib.Parallel(n_jobs=2, backend="threading")
    assert workers(joblib.delayed(count_threads)(None) for _ in range(2)) == [1, 1]


@pytest.mark.parametrize("threads", [1, 2])
def test_results_come_in_order(threads):
    assert map_in_threads(abs, range(-5, 0), threads) == [5, 4, 3, 2, 1]


def test_kernels_compile_where_nothing_can_be_written(monkeypatch):
    def njit_without_a_folder(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(kernels, "njit", njit_without_a_folder)

    @kernels.kernel
    def count(words):
        total = 0
        for word in words:
            total += kernels.popcount(word)
        return total

    words = np.array([0, 1, 2**63 + 7, 2**64 - 1], dtype=np.uint64)
    assert count(words) == np.bitwise_count(words).sum()
