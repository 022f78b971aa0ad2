"""What is compiled at once is all that a search needs."""

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from skhash import compile as compiling
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.kernels import brute, multi_index, pruned


def compiled(*modules):
    """Return how many versions there are of each kernel of some modules."""
    kernels = {}
    for module in modules:
        kernels |= {k: v for k, v in vars(module).items() if isinstance(v, Dispatcher)}
    return {name: len(kernel.overloads) for name, kernel in kernels.items()}


@pytest.mark.parametrize("n_bits", [40, 64, 128, 200, 256, 700])
def test_searches_find_everything_compiled(n_bits):
    compiling._search()
    compiling._search_by_tables()
    before = compiled(brute, multi_index, pruned)
    assert all(before[name] for name in ("nearest", "within", "find", "place"))
    codes = np.random.default_rng(n_bits).integers(0, 2, (300, n_bits))
    index = HammingNeighbors(3).fit(codes)
    for n_queries in (1, 300):
        index.kneighbors(codes[:n_queries])
        index.radius_neighbors(codes[:n_queries], radius=n_bits // 3)
    assert compiled(brute, multi_index, pruned) == before


def test_steps_are_told(capsys, monkeypatch):
    done = []
    steps = {"one": lambda: done.append(1), "two": lambda: done.append(2)}
    monkeypatch.setattr(compiling, "STEPS", steps)
    compiling.main()
    lines = capsys.readouterr().out.splitlines()
    assert done == [1, 2]
    assert [line.partition(" ")[0] for line in lines] == ["one", "two", "all"]
