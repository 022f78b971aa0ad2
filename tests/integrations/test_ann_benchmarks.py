"""The module that both harnesses load, under a stand-in of their base class."""

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest

from .conftest import FOLDER


class BaseANN:
    """As much of it as both harnesses have."""

    def get_batch_results(self):
        return self.res

    def __str__(self):
        return self.name


@pytest.fixture
def algorithm(monkeypatch):
    for name in ("harness", "harness.skhash", "harness.base", "harness.base.module"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["harness.base.module"].BaseANN = BaseANN
    sys.modules["harness.skhash"].__path__ = [str(FOLDER / "ann_benchmarks")]
    return importlib.import_module("harness.skhash.module").Skhash


@pytest.mark.parametrize("packed", [False, True])
def test_answers_are_exact(algorithm, packed):
    rng, n = np.random.default_rng(0), 7
    bits, asked = rng.random((300, 16)) < 0.5, rng.random((20, 16)) < 0.5
    distances = (asked[:, None] != bits).sum(axis=2)
    if packed:
        bits, asked = np.packbits(bits, axis=1), np.packbits(asked, axis=1)
    with pytest.raises(NotImplementedError, match="angular"):
        algorithm("angular")
    one = algorithm("hamming")
    one.fit(bits)
    one.batch_query(asked, n)
    assert str(one) == "skhash()"
    for query, batched, own in zip(
        asked, one.get_batch_results(), distances, strict=True
    ):
        found = one.query(query, n)
        np.testing.assert_array_equal(found, np.argsort(own, kind="stable")[:n])
        np.testing.assert_array_equal(found, batched)
