"""Kernels compiled at once are all that a search needs."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cases import each
from numba.core.dispatcher import Dispatcher

from skhash import compile as compiling
from skhash.cli import _main as cli
from skhash.neighbors import HammingNeighbors, JaccardNeighbors
from skhash.neighbors.kernels import brute, multi_index, planes, pruned
from skhash.numerics import _binary_kernels
from skhash.numerics._binary import BinaryUnits

MADE = {
    brute: ("nearest", "nearest_to_few", "within", "within_of_few", "place"),
    pruned: ("nearest", "nearest_to_few", "assign", "fill_blocks"),
    multi_index: ("fill", "find"),
    planes: ("fill", "nearest", "within"),
}


def compiled(*modules):
    """Return how many versions there are of each kernel of some modules."""
    return {
        (module.__name__, name): len(kernel.overloads)
        for module in modules
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher)
    }


@each("n_bits", [40, 64, 128, 200, 256, 700])
def test_searches_find_everything_compiled(n_bits):
    compiling._search()
    compiling._search_by_tables()
    before = compiled(*MADE)
    for module, names in MADE.items():
        assert all(before[module.__name__, name] for name in names)
    codes = np.random.default_rng(n_bits).integers(0, 2, (300, n_bits))
    for cls in (HammingNeighbors, JaccardNeighbors):
        index = cls(3).fit(codes)
        for n_queries in (1, 300):
            index.kneighbors(codes[:n_queries])
            index.radius_neighbors(codes[:n_queries], radius=n_bits // 3)
    assert compiled(*MADE) == before


FIRST_SEARCH = """
from numba.core import event
from sklearn.datasets import load_digits
import skhash

class Listener(event.Listener):
    compiling = []

    def on_start(self, found):
        function = found.data["dispatcher"].py_func
        self.compiling.append(f"{function.__module__}.{function.__qualname__}")
        print(self.compiling[0], self.compiling[-1])

    def on_end(self, found):
        self.compiling.pop()

event.register("numba:compile", Listener())
X = load_digits().data[:300]
"""
SEARCHES = {
    "brute": "skhash.HammingNeighbors(9).fit(X > 7).kneighbors(X[:5] > 7)",
    "table_scan": "skhash.HashedNeighbors(8).fit(X).kneighbors(X[:100], 10)",
}


@pytest.mark.long
@pytest.mark.parametrize("kernel", SEARCHES)
def test_the_first_search_compiles_little_of_numba(kernel, tmp_path):
    """Assignment of slices compiles its error message: texts, seconds for nothing."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_SEARCH + SEARCHES[kernel]],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    parts = "skhash.neighbors", "skhash.numerics", "skhash.quantization"
    pairs = [line.split(" ", 1) for line in done.stdout.splitlines()]
    names = [name for kernel, name in pairs if kernel.startswith(parts)]
    assert any(kernel in name for name in names)
    costly = "cpython.unicode", "np.arraymath", "raise_with_shape", "ol_np_zeros"
    assert not [name for name in names if any(word in name for word in costly)]
    assert len(names) < 60


def test_networks_find_their_kernel_compiled():
    compiling._networks()
    before = compiled(_binary_kernels)
    assert all(before.values())
    weights = np.zeros((100, 5), dtype=np.uint64)
    BinaryUnits(weights, np.zeros(100, dtype=np.int64))(weights[:3])
    assert compiled(_binary_kernels) == before


def test_steps_are_told(capsys, monkeypatch):
    done = []
    steps = {"one": lambda: done.append(1), "two": lambda: done.append(2)}
    monkeypatch.setattr(compiling, "STEPS", steps)
    assert cli.main(["warm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert done == [1, 2]
    assert [line.partition(" ")[0] for line in lines] == ["one", "two", "all"]
