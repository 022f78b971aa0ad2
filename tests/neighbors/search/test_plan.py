"""What is made and what answers, from costs alone, and a new algorithm."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from searches import brute_nearest

from skhash.codes import pack_bits
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search import dispatch, pruned, searcher
from skhash.neighbors.search.algorithm import Algorithm, Question
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.memory import ENOUGH, MEMORY, Memory
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.plan import plan
from skhash.neighbors.search.pruned import Clusters
from skhash.neighbors.search.searcher import Searcher

NOTHING = {"brute": 0.0, "tables": 0.0, "clusters": 0.0}


def test_what_costs_more_saves_nothing():
    costs = {"brute": 5.0, "tables": 5.0, "clusters": np.inf}
    due, saved = plan(costs, ["brute"], NOTHING, NOTHING)
    assert due is None
    assert saved == {"tables": 0.0, "clusters": 0.0}


def test_it_is_due_when_it_would_have_repaid():
    costs = {"brute": 10.0, "tables": 2.0}
    making, saved = {"tables": 20.0}, {"tables": 0.0}
    for expected in (None, None, "tables"):  # 8, 16, 24
        due, saved = plan(costs, ["brute"], making, saved)
        assert due == expected
    # What is made saves only what others would save still.
    costs["clusters"] = 1.5
    saved["clusters"] = 0.0
    due, saved = plan(costs, ["brute", "tables"], {"clusters": 0.4}, saved)
    assert (due, saved) == ("clusters", {"clusters": 0.5})


def test_of_several_the_cheapest_is_due_and_only_where_it_gains():
    costs = {"brute": 10.0, "tables": 2.0, "clusters": 1.0}
    assert plan(costs, ["brute"], NOTHING, NOTHING)[0] == "clusters"
    # Saved enough in the past, but this question gains nothing.
    costs = {"brute": 10.0, "tables": 11.0}
    due, saved = plan(costs, ["brute"], {"tables": 1.0}, {"tables": 3.0})
    assert (due, saved) == (None, {"tables": 3.0})


def test_what_is_asked_for_by_name_need_not_be_repaid():
    costs, saved = {"brute": 10.0, "tables": 2.0}, {"tables": 0.0}
    assert plan(costs, ["brute"], {"tables": 0.0}, saved)[0] == "tables"
    assert plan({**costs, "brute": 1.0}, ["brute"], {"tables": 0.0}, saved)[0] is None


@pytest.mark.parametrize("n_calls", [ENOUGH - 1, ENOUGH, 3 * MEMORY])
def test_memory(n_calls):
    memory = Memory()
    for call in range(n_calls):
        query = np.array([[call]], dtype=np.uint64)
        memory.note(Question("nearest", 2), query, (np.array([[0, call]]), None))
    past = memory.past("nearest", 2)
    assert memory.past("nearest", 3) is None
    if n_calls < ENOUGH:
        assert past is None
        return
    latest = np.arange(n_calls)[::-1][:MEMORY]
    assert_array_equal(past[0][:, 0], latest)
    assert_array_equal(past[1], latest)


def test_memory_of_radii():
    memory = Memory()
    memory.note(Question("within", 3), np.zeros((4, 1)), (np.arange(10), None))
    assert memory.n_found(Question("within", 3)) == 2.5
    assert memory.n_found(Question("within", 4)) == np.inf
    assert memory.n_found(Question("nearest", 4)) == 4


def test_a_new_algorithm_is_a_line_of_the_table(monkeypatch):
    """Here one that finds odd queries alone, and leaves the others."""
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    monkeypatch.setattr(searcher, "WEIGHED_COST", 0.0)
    made, asked = [], []

    class Half(Algorithm):
        making = 1.5

        def is_made(self, question):
            return bool(made)

        def make(self, question):
            made.append(question.n_queries)

        def cost(self, question):
            return self.before["brute"].cost(question) - 1

        def nearest(self, queries, question):
            asked.append(len(queries))
            odd = queries[:, 0] % 2 == 1
            k = question.reach
            found = np.empty((2, len(queries), k), dtype=np.int64)
            found[:, odd] = brute_nearest(self.words, self.n_planes, queries[odd], k)
            found[:, ~odd] = question.rest(queries[~odd])
            return found[0].astype(np.int32), found[1]

    words = np.random.default_rng(0).integers(0, 2**60, (300, 1)).astype(np.uint64)
    search = Searcher(words, 64, {"brute": Brute, "half": Half})
    expected = brute_nearest(words, 64, words, 3)
    # It saves 300 a question, and costs 450.
    for n_asked in (0, 1, 2):
        found = search.answer(words, Question("nearest", 3))
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other)
        assert len(asked) == n_asked
    assert made == [300]
    search.answer(words, Question("nearest", 3, algorithm="brute"))
    assert len(asked) == 2


def test_costs_are_not_weighed_at_every_small_question(monkeypatch):
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    # A query costs 300.
    monkeypatch.setattr(searcher, "WEIGHED_COST", 1000.0)
    expected, cost = [], Brute.cost
    monkeypatch.setattr(Brute, "cost", lambda *own: expected.append(own) or cost(*own))
    words = np.random.default_rng(0).integers(0, 2**60, (300, 1)).astype(np.uint64)

    class Never(Algorithm):
        def is_made(self, question):
            return False

        def cost(self, question):
            return np.inf

        def expect(self, question, cost):
            expected.append(cost)

    search = Searcher(words, 64, {"brute": Brute, "never": Never})

    def ask(n_queries, *what, **options):
        expected.clear()
        search.answer(words[:n_queries], Question(*what, n_jobs=1, **options))
        return expected[1:]

    assert ask(1, "nearest", 3) == [300.0]
    for _ in range(3):
        assert ask(1, "nearest", 3) == []
    # All that asked since count.
    assert ask(1, "nearest", 3) == [1200.0]
    for what, n_queries, options in (
        (("nearest", 4), 1, {}),
        (("within", 4), 1, {}),
        (("within", 4), 2, {}),
        (("within", 4), 2, {"live": np.ones(300, dtype=bool)}),
        (("within", 4), 2, {"live": np.ones(300, dtype=bool)}),
    ):
        assert ask(n_queries, *what, **options) == [300.0 * n_queries]
    assert ask(2, "within", 4) == []
    for _ in range(2):
        assert ask(100, "within", 4) == [30_000.0]


@pytest.mark.parametrize("what", ["nearest", "within"])
def test_what_expected_queries_would_repay_is_made_at_once(monkeypatch, what):
    """As if they had asked, and with their answers."""
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    monkeypatch.setattr(pruned, "MIN_CLUSTERED", 1)
    monkeypatch.setattr(pruned, "JUDGED_COST", 0.0)
    monkeypatch.setattr(MultiIndex, "cost", lambda *_: np.inf)
    monkeypatch.setattr(Clusters, "making", 100.0)
    monkeypatch.setattr(pruned, "LEFT_COST", 2.2)
    monkeypatch.setattr(pruned, "QUERY_COST", 0.0)
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 2, (20, 64))
    bits = centers[rng.integers(0, 20, 2000)] ^ (rng.random((2000, 64)) < 0.03)
    codes = pack_bits(bits.astype(np.uint8))
    reach = {"nearest": {"n_neighbors": 3}, "within": {"radius": 3}}[what]
    ask = {"nearest": "kneighbors", "within": "radius_neighbors"}[what]

    def clusters_of(index):
        return index._store.codes_key.searcher.algorithms["pruned"]

    index = HammingNeighbors(packed=True).fit(codes)
    index.prepare(50, **reach)  # they would save some 50 codes each, of 100
    assert clusters_of(index).index is None
    index.prepare(1000, **reach)
    assert clusters_of(index).index is not None
    brute = HammingNeighbors(packed=True, algorithm="brute").fit(codes)
    found, expected = (getattr(one, ask)(codes[:40], **reach) for one in (index, brute))
    for one, other in zip(found, expected, strict=True):
        assert list(map(list, one)) == list(map(list, other))
    # A named algorithm need not be repaid.
    named = HammingNeighbors(packed=True, algorithm="pruned").fit(codes)
    assert clusters_of(named.prepare(1, **reach)).index is not None


def test_no_more_neighbours_are_expected_than_there_are(monkeypatch):
    """Each code that asks leaves itself out, where there is another."""
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    asked, nearest = [], Brute.nearest

    def note(self, queries, question):
        asked.append(question.reach)
        return nearest(self, queries, question)

    monkeypatch.setattr(Brute, "nearest", note)
    codes = np.random.default_rng(0).integers(0, 2, (10, 8))
    index = HammingNeighbors().fit(codes)
    for removed in (0, 6, 2):
        index.remove(np.flatnonzero(index.live_)[:removed])
        index.prepare(5, n_neighbors=3)
    assert asked == [4, 4, 2]


def test_fit_is_told_how_many_neighbours_will_be_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(dispatch, "prepare", lambda *task: asked.append(task))
    codes = np.random.default_rng(0).integers(0, 2, (10, 8))
    index = HammingNeighbors(3).fit(codes, expected_queries=7)
    index.prepare(0)
    what, store, reach, n_queries, *_ = asked[0]
    assert (what, store, reach, n_queries) == ("nearest", index._store, 3, 7)
    assert len(asked) == 1
    for wrong in (-1, 0.5):
        with pytest.raises(ValueError, match=f"expected_queries .* got {wrong}"):
            index.fit(codes, expected_queries=wrong)
        with pytest.raises(ValueError, match=f"radius .* got {wrong}"):
            index.prepare(5, radius=wrong)
