"""How many threads work, and that they change nothing."""

import multiprocessing
import os
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
import scipy.linalg
from cases import each
from numba.core.compiler_lock import global_compiler_lock
from threadpoolctl import threadpool_info, threadpool_limits

from skhash.quantization._codebook import fit_blocks
from skhash.utils import (
    kernels,  # noqa: F401, adds the lock of the compiler to those of a fork
    threads,
)
from skhash.utils.lazy import late_import
from skhash.utils.threads import count_threads, few_blas_threads, map_in_threads


def test_none_follows_joblib():
    assert count_threads(None) == joblib.cpu_count()
    assert count_threads(3) == 3
    with joblib.parallel_config(n_jobs=3):
        assert count_threads(None) == 3
    workers = joblib.Parallel(n_jobs=2, backend="threading")
    assert workers(joblib.delayed(count_threads)(None) for _ in range(2)) == [1, 1]


def test_granted_cores_are_counted_anew_after_some_seconds(monkeypatch):
    now, cores = 1000.0 * threads.REFRESH_SECONDS, 3
    monkeypatch.setattr(threads.time, "monotonic", lambda: now)
    monkeypatch.setattr(joblib, "cpu_count", lambda: cores)
    assert threads.granted_cores() == 3
    cores = 5
    assert threads.granted_cores() == 3
    now += threads.REFRESH_SECONDS
    assert threads.granted_cores() == 5
    monkeypatch.undo()
    assert threads.granted_cores() == joblib.cpu_count()


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, "10000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"),
    ],
)
def test_how_torch_waits_is_set_unless_the_user_says(given, expected):
    environment = {**os.environ, **given}
    if "GOMP_SPINCOUNT" not in given:  # importing the library has set it here
        environment.pop("GOMP_SPINCOUNT", None)
    program = "import os, skhash; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected


@each("threads", [1, 2])
def test_results_come_in_order(threads):
    assert map_in_threads(abs, range(-5, 0), threads) == [5, 4, 3, 2, 1]


def test_threads_work_side_by_side():
    meeting = threading.Barrier(2, timeout=60)
    assert len(set(map_in_threads(lambda _: meeting.wait(), range(2), 2))) == 2


@each("wrong", range(3))
def test_an_error_reaches_the_caller_and_nothing_else_begins(wrong):
    begun = []

    def check(item):
        begun.append(item)
        if item >= wrong:
            raise ValueError(item)

    with pytest.raises(ValueError, match=f"^{wrong}$|^{wrong + 1}$"):
        map_in_threads(check, range(50), 2)
    assert len(begun) <= wrong + 3


def test_threads_within_threads_do_not_wait_for_each_other():
    def outer(item):
        return sum(map_in_threads(lambda i: i + item, range(4), 3))

    assert map_in_threads(outer, range(200), 64) == [6 + 4 * i for i in range(200)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_threads_of_its_own():
    map_in_threads(abs, range(4), 2)
    program = multiprocessing.get_context("fork").Process(
        target=test_threads_work_side_by_side
    )
    program.start()
    program.join(60)
    assert program.exitcode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("lock", [late_import, global_compiler_lock._lock])
def test_a_fork_waits_for_kernels_that_another_thread_imports_or_compiles(
    lock, monkeypatch
):
    """In the child nobody would release what that thread held."""
    held, forking = threading.Event(), threading.Event()

    class Signal:
        acquire, release = forking.set, lambda self: None

    # The first lock to be taken before a fork tells that one is about to be.
    monkeypatch.setattr(threads, "fork_locks", [Signal(), *threads.fork_locks])

    def compile_until_someone_forks():
        with lock:
            held.set()
            forking.wait(60)

    def take():
        os._exit(0 if lock.acquire(blocking=False) else 1)

    compiler = threading.Thread(target=compile_until_someone_forks)
    compiler.start()
    held.wait(60)
    program = multiprocessing.get_context("fork").Process(target=take)
    program.start()
    forking.set()
    program.join(60)
    compiler.join(60)
    assert program.exitcode == 0


def blas_threads():
    pools = threadpool_info()
    return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}


def test_small_matrices_are_factored_by_one_thread(monkeypatch):
    at_work, factor = [], scipy.linalg.cho_factor

    def spy(*args, **options):
        at_work.append(blas_threads())
        return factor(*args, **options)

    monkeypatch.setattr(scipy.linalg, "cho_factor", spy)
    values = (np.arange(300) % 256).astype(np.uint8)[:, None]
    with threadpool_limits(2, user_api="blas"):
        fit_blocks(np.eye(300, 3, dtype=np.float32), values, 8, 1.0)
        with few_blas_threads(threads.MAX_ROWS_OF_ONE_THREAD + 1):
            at_work.append(blas_threads())
        at_work.append(blas_threads())
    assert at_work == [{1}, {2}, {2}]
