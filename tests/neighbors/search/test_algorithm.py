"""What every algorithm does, whichever there are: all have the same answers."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash.codes import pack_bits, packed_to_words
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search import dispatch, searcher
from skhash.neighbors.search.algorithm import Question
from skhash.neighbors.search.dispatch import ALGORITHMS
from skhash.neighbors.search.searcher import Searcher

N, N_QUERIES = 700, 20

every_kind = pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)


def clustered(n, n_bits, seed):
    """Codes near 20 others, a fifth of them equal to these."""
    bits = np.random.default_rng(99).integers(0, 2, (20, n_bits))
    rng = np.random.default_rng(seed)
    flips = (rng.random((n, n_bits)) < 0.1) & (rng.random((n, 1)) < 0.8)
    return bits[rng.integers(0, 20, n)] ^ flips


@every_kind
@pytest.mark.parametrize("n_bits", [5, 64, 100])
@pytest.mark.parametrize("some", [False, True])
def test_answers_are_those_of_brute_force(kind, n_bits, some):
    codes, queries = (
        packed_to_words(pack_bits(clustered(n, n_bits, seed)))
        for n, seed in ((N, 0), (N_QUERIES, 1))
    )
    live = np.random.default_rng(2).random(N) < 0.6 if some else None
    n_planes = 8 * -(-n_bits // 8)
    brute = ALGORITHMS["brute"](codes, n_planes)
    search = Searcher(codes, n_planes, {"brute": ALGORITHMS["brute"], "named": kind})
    for what, reaches in {"nearest": (1, 30), "within": (0, 2, n_planes)}.items():
        for reach in reaches:
            question = Question(what, reach, 1, live, algorithm="named")
            found = search.answer(queries, question)
            asked = Question(what, reach, 1, live, n_queries=N_QUERIES)
            expected = getattr(brute, what)(queries, asked)
            for one, other in zip(found, expected, strict=True):
                assert_array_equal(one, other)
                assert one.dtype == other.dtype


@every_kind
def test_costs_are_told_before_anything_is_made(kind):
    codes = packed_to_words(pack_bits(clustered(N, 64, 0)))
    brute = ALGORITHMS["brute"](codes, 64)
    algorithm = kind(codes, 64, {"brute": brute})
    for what in ("nearest", "within"):
        question = Question(what, 2, n_queries=N_QUERIES)
        algorithm.is_made(question)
        assert algorithm.cost(question) > 0
        assert algorithm.making >= 0


def test_the_table_is_what_the_index_searches_by(monkeypatch):
    """One that costs nothing is made, and asked."""
    asked = []

    class Free(ALGORITHMS["multi_index"]):
        making = 0.0

        def cost(self, question):
            return min(super().cost(question), 1e-3)

        def within(self, queries, question):
            asked.append(question)
            return super().within(queries, question)

    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    table = {"brute": ALGORITHMS["brute"], "free": Free}
    monkeypatch.setattr(dispatch, "ALGORITHMS", table)
    bits, queries = clustered(N, 64, 0), clustered(N_QUERIES, 64, 1)
    index = HammingNeighbors(radius=2).fit(bits)
    distances, positions = index.radius_neighbors(queries)
    assert asked
    monkeypatch.undo()
    expected = HammingNeighbors(radius=2).fit(bits).radius_neighbors(queries)
    for one, other in zip((*distances, *positions), np.ravel(expected), strict=True):
        assert_array_equal(one, other)
