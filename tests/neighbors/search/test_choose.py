"""The rule by which "auto" chooses, and that all algorithms have the same answers."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_array_equal
from processes import forked, was_killed
from searches import assert_same, brute_nearest, clustered, words_of

from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search import choose
from skhash.neighbors.search.base import Question
from skhash.neighbors.search.choose import ALGORITHMS, Searcher
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import Clusters
from skhash.neighbors.store.store import CodesKey

N, N_QUERIES = 900, 60


def noting(calls, name, find):
    def note(*task):
        calls.append(name)
        return find(*task)

    return note


@pytest.fixture
def asked(monkeypatch):
    """The algorithms that are asked, of few codes as of many; see `costs`."""
    calls = []
    for name, kind in ALGORITHMS.items():
        for what in ("nearest", "within"):
            noted = noting(calls, name, getattr(kind, what))
            monkeypatch.setattr(kind, what, noted)
    for name in ("MIN_CODES", "MIN_CLUSTERED"):
        monkeypatch.setattr(choose, name, 1)
    for name in ("WEIGHED_COST", "JUDGED_COST"):
        monkeypatch.setattr(choose, name, 0.0)
    return calls


@pytest.fixture
def costs(asked, monkeypatch):
    """Set what queries cost, and what making tables and clusters does."""

    def cost(tables=np.inf, clusters=np.inf, few=None, making=0.0):
        few = clusters if few is None else few
        monkeypatch.setattr(MultiIndex, "look_up_cost", lambda *_: tables)
        for name, value in (("START_COST", clusters), ("FEW_START_COST", few)):
            monkeypatch.setattr(choose, name, value)
        for name in ("LEFT_COST", "FEW_LEFT_COST"):
            monkeypatch.setattr(choose, name, 2.2)
        for kind in (MultiIndex, Clusters):
            monkeypatch.setattr(kind, "making", making)

    return cost


def asked_by(asked, ask, *task, **options):
    """Return which algorithms a question was put to."""
    asked.clear()
    ask(*task, **options)
    return [*asked]


def answers_of(index, queries):
    """Yield answers with masks too, after removals, and after others were added."""
    mask = np.random.default_rng(3).random(N) < 0.8
    for change in (
        lambda: index,
        lambda: index.remove(np.arange(0, N, 7)),
        lambda: index.partial_fit(queries).compact(),
    ):
        change()
        mask = np.resize(mask, index.n_samples_fit_)
        for k in (1, 5, 5, 700, 700):
            yield from (index.kneighbors(some, k) for some in (queries, queries[:2]))
        for options in ({"mask": mask}, {"ids": np.arange(9)}):
            yield index.kneighbors(queries, 4, **options)
        for radius in (2, 2, 40, 255, 10**30):
            for some in (queries, queries[:2]):
                yield index.radius_neighbors(some, radius)
    yield index.kneighbors(n_neighbors=3)


@pytest.mark.parametrize("n_bits", [33, 600])
def test_answers_are_those_of_brute_force(costs, asked, n_bits):
    costs(tables=1.0, clusters=0.0)
    codes, queries = clustered(N, n_bits), clustered(N_QUERIES, n_bits, seed=1)
    brute = HammingNeighbors(algorithm="brute").fit(codes)
    expected = [*answers_of(brute, queries)]
    for algorithm in {"auto", *ALGORITHMS} - {"brute"}:
        asked.clear()
        index = HammingNeighbors(algorithm=algorithm).fit(codes)
        for found, own in zip(answers_of(index, queries), expected, strict=True):
            assert_same(found, own)
        assert ("multi_index" if algorithm == "auto" else algorithm) in asked


def test_few_codes_are_compared():
    index = HammingNeighbors(radius=1).fit(clustered(N, 64)).prepare(10**9, radius=1)
    index.radius_neighbors(clustered(10, 64))
    made = index._store.codes_key.get("searcher").algorithms
    assert [name for name in made if made[name].is_made] == ["brute"]


def test_tables_are_made_when_they_would_have_been_repaid(costs, asked):
    codes, queries = clustered(N, 64), clustered(100, 64, seed=1)
    costs(tables=N - 300.0, making=100.0)
    index = HammingNeighbors(radius=1).fit(codes)
    # They save 300 a query, and cost 90 000: those of 300 queries.
    for n_queries, name in ((100, "brute"), (100, "brute"), (99, "brute"), (2, None)):
        found = asked_by(asked, index.radius_neighbors, queries[:n_queries])
        assert found == [name or "multi_index"]
    # Another radius counts too; so does one query after the other.
    index = HammingNeighbors().fit(codes)
    for radius in (1, 2, 3):
        for i in range(100):
            found = asked_by(asked, index.radius_neighbors, queries[i : i + 1], radius)
            assert found == ["brute"]
    found = asked_by(asked, index.radius_neighbors, queries[:1], 1)
    assert found == ["multi_index"]
    # Where they gain nothing, they are not asked.
    costs(tables=N + 1.0)
    assert asked_by(asked, index.radius_neighbors, queries, 4) == ["brute"]
    # A choice of the user need not be repaid, and is asked where it gains.
    named = HammingNeighbors(radius=1, algorithm="multi_index").fit(codes)
    assert asked_by(asked, named.radius_neighbors, queries) == ["brute"]
    costs(tables=N - 1.0, making=1e9)
    assert asked_by(asked, named.radius_neighbors, queries, 2) == ["multi_index"]


def test_tables_find_near_neighbours(costs, asked):
    """Queries without near ones are compared."""
    costs(tables=1.0)
    codes = np.random.default_rng(0).integers(0, 2, (N, 64))
    twice = HammingNeighbors(2).fit(np.repeat(codes, 2, axis=0))
    far = np.random.default_rng(1).integers(0, 2, (2, 64))
    assert asked_by(asked, twice.kneighbors, codes[:50]) == ["brute"]
    assert asked_by(asked, twice.kneighbors, codes[:50]) == ["multi_index"]
    # The first radii prove the equal ones; nobody looks beyond.
    queries = np.concatenate([codes[:50], far])
    expected = HammingNeighbors(2, algorithm="brute").fit(np.repeat(codes, 2, axis=0))
    expected = expected.kneighbors(queries)
    asked.clear()
    assert_same(twice.kneighbors(queries), expected)
    assert asked == ["multi_index", "brute"]
    # Too few queries tell nothing.
    short = HammingNeighbors(2).fit(np.repeat(codes, 2, axis=0))
    for _ in range(2):
        assert asked_by(asked, short.kneighbors, codes[:7]) == ["brute"]


def test_clusters_are_asked_where_they_leave_little(costs, asked, monkeypatch):
    costs(clusters=0.0)
    queries = clustered(300, 64, seed=1)
    # Of random codes, almost all are left, and comparing them all is faster.
    far = HammingNeighbors().fit(clustered(3000, 64, noise=0.5))
    for _ in range(3):
        assert asked_by(asked, far.kneighbors, queries) == ["brute"]
    near = HammingNeighbors().fit(clustered(3000, 64))
    assert asked_by(asked, near.kneighbors, queries) == ["brute"]
    assert asked_by(asked, near.kneighbors, queries) == ["pruned"]
    # Times of five neighbours say nothing of six; too few queries do not tell.
    for k, name in ((6, "brute"), (6, "brute"), (5, "pruned")):
        assert asked_by(asked, near.kneighbors, queries[:3], k) == [name]
    # Nor is it asked of more neighbours, or farther away, than clusters can order.
    assert asked_by(asked, near.radius_neighbors, queries, 3) == ["brute"]
    assert asked_by(asked, near.radius_neighbors, queries, 3) == ["pruned"]
    wide = HammingNeighbors().fit(clustered(3000, 600, noise=0.0))
    others = clustered(300, 600, seed=1, noise=0.0)
    for _ in range(2):
        assert asked_by(asked, near.kneighbors, queries, 101) == ["brute"]
        assert asked_by(asked, wide.radius_neighbors, others, 255) == ["brute"]
    assert asked_by(asked, wide.radius_neighbors, others, 254) == ["brute"]
    assert asked_by(asked, wide.radius_neighbors, others, 254) == ["pruned"]
    # The share is judged anew, so that other queries may change the choice.
    monkeypatch.setattr(choose, "share_left", lambda *_: 1.0)
    assert asked_by(asked, near.kneighbors, queries) == ["brute"]


def test_single_queries_tell_as_much(costs, asked, monkeypatch):
    """After so much comparing."""
    costs(clusters=0.0, few=3000.0 - 1)
    monkeypatch.setattr(choose, "JUDGED_COST", 50 * 3000.0)
    monkeypatch.setattr(choose, "share_left", lambda *_: 0.0)
    codes, queries = clustered(3000, 64), clustered(60, 64, seed=1)
    index = HammingNeighbors().fit(codes)
    for i in range(49):
        one = queries[i : i + 1]
        assert asked_by(asked, index.kneighbors, one) == ["brute"]
    assert asked_by(asked, index.kneighbors, queries[:1]) == ["pruned"]
    # Few queries may gain nothing where many do.
    costs(clusters=0.0, few=3001.0)
    assert asked_by(asked, index.kneighbors, queries[:2]) == ["brute"]
    assert asked_by(asked, index.kneighbors, queries) == ["pruned"]


def test_costs_are_not_weighed_at_every_small_question(costs, asked, monkeypatch):
    costs()
    weighed, weigh = [], Searcher._weigh

    def note(self, question, history, n_queries, *rest):
        weighed.append(n_queries)
        return weigh(self, question, history, n_queries, *rest)

    monkeypatch.setattr(Searcher, "_weigh", note)
    monkeypatch.setattr(choose, "WEIGHED_COST", 1000.0)  # a query costs 300
    words = np.random.default_rng(0).integers(0, 2**60, (300, 1)).astype(np.uint64)
    search = Searcher(words, 64)
    # All that asked since count. Another reach is weighed by itself, and so are many.
    for n_queries, reach, expected in (
        (1, 3, [1]),
        (1, 3, []),
        (1, 4, [1]),
        (2, 3, []),
        (1, 3, [4]),
        (16, 3, [16]),
        (16, 3, [16]),
    ):
        weighed.clear()
        search.answer(words[:n_queries], Question("nearest", reach, 1))
        assert weighed == expected


def test_kinds_of_questions_come_and_go(costs, monkeypatch):
    costs(clusters=0.0)
    monkeypatch.setattr(choose, "MAX_KINDS", 3)
    words = words_of(clustered(N, 64))
    search = Searcher(words, 64)
    for k in (1, 2, 3, 4, 5, 6, 7):
        found = search.answer(words[:20], Question("nearest", k, 1))
        assert_same(found, brute_nearest(words, 64, words[:20], k))
        assert len(search._histories) <= 3


@each("n_calls", [1, 15, 300])
def test_the_last_queries_are_remembered(n_calls):
    history = choose.History(1)
    for call in range(n_calls):
        query = np.array([[call]], dtype=np.uint64)
        history.note(query, Question("nearest", 2), (np.array([[0, call]]), None))
    latest = np.arange(n_calls)[::-1][: choose.MEMORY]
    assert_array_equal(history.past[0][:, 0], latest)
    assert_array_equal(history.past[1], latest)


@pytest.mark.parametrize("what", ["nearest", "within"])
def test_what_expected_queries_would_repay_is_made_at_once(
    costs, asked, what, monkeypatch
):
    """As if they had asked, and with their answers."""
    costs(clusters=0.0, making=100.0)
    codes = clustered(2000, 64, noise=0.03)
    reach = {"nearest": {"n_neighbors": 3}, "within": {"radius": 3}}[what]
    ask = {"nearest": "kneighbors", "within": "radius_neighbors"}[what]

    def has_clusters(index):
        return index._store.codes_key.get("searcher").clusters is not None

    index = HammingNeighbors().fit(codes)
    # They would save some 50 codes each, of 100.
    assert not has_clusters(index.prepare(50, **reach))
    with monkeypatch.context() as full:
        full.setattr(choose, "free_memory", lambda: 1000)
        assert not has_clusters(index.prepare(1000, **reach))
    assert has_clusters(index.prepare(1000, **reach))
    brute = HammingNeighbors(algorithm="brute").fit(codes)
    found, expected = (getattr(one, ask)(codes[:40], **reach) for one in (index, brute))
    assert_same(found, expected)
    # A named algorithm need not be repaid.
    named = HammingNeighbors(algorithm="pruned").fit(codes)
    assert has_clusters(named.prepare(1, **reach))


def test_fit_is_told_how_many_neighbours_will_be_asked_for(asked, monkeypatch):
    """Each code that asks leaves itself out, where there is another."""
    reached, nearest = [], ALGORITHMS["brute"].nearest

    def note(self, queries, question):
        reached.append(question.reach)
        return nearest(self, queries, question)

    monkeypatch.setattr(ALGORITHMS["brute"], "nearest", note)
    codes = np.random.default_rng(0).integers(0, 2, (10, 8))
    index = HammingNeighbors(3).fit(codes).prepare(7)
    index.prepare(0)
    for removed in (6, 2):
        index.remove(np.flatnonzero(index.live_)[:removed]).prepare(5)
    assert reached == [4, 4, 2]
    for wrong in (-1, 0.5):
        with pytest.raises(ValueError, match=f"expected_queries .* got {wrong}"):
            index.prepare(wrong)
        with pytest.raises(ValueError, match=f"radius .* got {wrong}"):
            index.prepare(5, radius=wrong)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@each("maker", [CodesKey(), Searcher(words_of(clustered(1, 64)), 64)])
def test_a_forked_process_waits_for_no_thread_of_another(maker):
    with maker.making.lock:
        child = forked(lambda: os._exit(not maker.making.lock.acquire(False)))
    assert not was_killed(child)


@pytest.mark.parametrize("kind", [MultiIndex, Clusters])
def test_threads_make_it_once(costs, monkeypatch, kind):
    """Threads that ask while one makes it compare codes instead."""
    costs(tables=1.0)
    codes = clustered(500, 64)
    expected = HammingNeighbors(algorithm="brute").fit(codes).radius_neighbors(codes, 2)
    named = next(name for name, one in ALGORITHMS.items() if one is kind)
    index = HammingNeighbors(algorithm=named, n_jobs=1).fit(codes)
    calls, begun, others_done, make = [], Event(), Event(), kind.make

    def slow(self, n_jobs):
        calls.append(self)
        begun.set()
        assert others_done.wait(60)
        make(self, n_jobs)

    monkeypatch.setattr(kind, "make", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(index.radius_neighbors, codes, 2)
        assert begun.wait(60)
        assert_same(index.radius_neighbors(codes, 2), expected)
        others_done.set()
        assert_same(first.result(), expected)
    assert_same(index.radius_neighbors(codes, 2), expected)
    # It outlives the removal of codes, but not the addition of others.
    index.remove([3]).radius_neighbors(codes, 2)
    assert len(calls) == 1
    index.partial_fit(codes[:1]).radius_neighbors(codes, 2)
    assert len(calls) == 2
