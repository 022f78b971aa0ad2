"""The benchmark of a device asks it for what the CPU answers, and compares."""

import sys
from pathlib import Path

import numpy as np
import pytest
from pretend import NAME

FOLDER = Path(__file__).parents[1] / "examples" / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import device

    return device


@pytest.mark.parametrize("device", [NAME], indirect=True)
def test_tasks_are_those_of_the_cpu(benchmark, device):
    X = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)
    y = np.arange(len(X)) % 4
    tasks = [
        next(benchmark.encoding_tasks(X, y)),
        *benchmark.search_tasks(300, (1, 5), benchmark.resolve_device(device)),
    ]
    assert len(tasks) == 5
    for _, n_rows, amounts, call in tasks:
        benchmark.check(call(device), call("cpu"))
        assert n_rows > 0 and all(amount > 0 for amount in amounts.values())


def test_answers_that_differ_are_found(benchmark):
    logits = np.array([[1.0, -0.5, 1e-6]])
    benchmark.check(logits * [1, 1, -1], logits)  # that is rounding
    with pytest.raises(AssertionError, match="bits differ"):
        benchmark.check(logits * [1, -1, 1], logits)
    found = np.array([[1, 2]]), np.array([[4, 3]])
    with pytest.raises(AssertionError, match="other neighbours"):
        benchmark.check(found, (found[0], found[1][:, ::-1]))


def test_a_missing_device_fails(benchmark, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["device.py", "--device", "cuda:99"])
    with pytest.raises(SystemExit, match="cuda:99"):
        benchmark.main()
