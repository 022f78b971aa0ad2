"""Searching the different codes gives what searching all codes gives."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from searches import brute_nearest, brute_within, nearest, within

from skhash.codes import hamming_distances, pack_bits, packed_to_words
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search import equal_codes, pruned, searcher
from skhash.neighbors.search.algorithm import Question
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.dispatch import ALGORITHMS
from skhash.neighbors.search.equal_codes import Distinct, EqualCodes, share_different
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.searcher import Searcher

N_BITS = 24


def repeated(n, n_different, seed=0, hub=0.0):
    """Codes of which there are about so many different ones, one of them often."""
    rng = np.random.default_rng(seed)
    different = rng.integers(0, 2, (n_different, N_BITS), dtype=np.uint8)
    numbers = rng.integers(0, n_different, n)
    return different[np.where(rng.random(n) < hub, 0, numbers)]


def to_words(bits):
    return packed_to_words(pack_bits(bits))


def expected_nearest(codes, queries, k, live):
    """Return the first k by (distance, position) of those that are live."""
    distances = hamming_distances(pack_bits(queries), pack_bits(codes))
    distances[:, ~live] = N_BITS + 1
    positions = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, positions, axis=1), positions


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert len(one) == len(other)
        for row, expected_row in zip(one, other, strict=True):
            assert_array_equal(row, expected_row)
            assert row.dtype == expected_row.dtype


def distinct(words, n_planes, live=None):
    """Return a search of different codes, by comparing these."""
    search = Distinct(words, n_planes, {"brute": Brute(words, n_planes)})
    search.make(Question("nearest", 1, live=live))
    return search


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.one_of(st.integers(1, 30), st.sampled_from((255, 600))),
        "n_different": st.sampled_from((1, 2, 9, 200)),
        "hub": st.sampled_from((0.0, 0.5)),
    }
)


def some_live(n, seed):
    live = np.random.default_rng(seed).random(n) < 0.6
    live[seed % n] = True
    return live


@settings(max_examples=60, deadline=None)
@given(problem=problems, removed=st.booleans())
def test_postings(problem, removed):
    codes, n = repeated(**problem), problem["n"]
    live = some_live(n, problem["seed"]) if removed else np.ones(n, dtype=bool)
    equal = EqualCodes(to_words(codes), live if removed else None)
    different, firsts = np.unique(codes[live], axis=0, return_index=True)
    assert_array_equal(equal.firsts, np.sort(np.flatnonzero(live)[firsts]))
    assert len(equal) == len(different)
    for number, first in enumerate(equal.firsts):
        here = equal.positions[equal.starts[number] : equal.starts[number + 1]]
        same = live & (codes == codes[first]).all(axis=1)
        assert_array_equal(here, np.flatnonzero(same))
    if not removed:
        assert_array_equal(codes[equal.firsts][equal.numbers()], codes)


@settings(max_examples=60, deadline=None)
@given(
    problem=problems,
    removed=st.booleans(),
    k=st.sampled_from((1, 3, 20, 10**6)),
    radius=st.sampled_from((0, 4, 10, 24)),
)
def test_nearest_and_within(problem, removed, k, radius):
    codes, n = repeated(**problem), problem["n"]
    queries = np.concatenate([codes[:4], repeated(5, 5, seed=1)])
    live = some_live(n, problem["seed"]) if removed else np.ones(n, dtype=bool)
    k = min(k, int(live.sum()))
    mask = live if removed else None
    search = distinct(to_words(codes), N_BITS, mask)
    distances, positions = nearest(search, to_words(queries), k, 1, mask)
    expected_distances, expected = expected_nearest(codes, queries, k, live)
    assert_array_equal(distances, expected_distances)
    assert_array_equal(positions, expected)
    found = within(search, to_words(queries), radius, 1, mask)
    distances, positions = expected_nearest(codes, queries, n, live)
    assert_same(
        found,
        (
            [row[row <= radius].astype(np.int32) for row in distances],
            [
                where[row <= radius]
                for row, where in zip(distances, positions, strict=True)
            ],
        ),
    )


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_and_long_codes(monkeypatch, n_jobs):
    monkeypatch.setattr(equal_codes, "MIN_THREAD_ANSWERS", 1)
    rng = np.random.default_rng(0)
    words = rng.integers(0, 4, (800, 3)).astype(np.uint64)
    queries = rng.integers(0, 4, (25, 3)).astype(np.uint64)
    search = distinct(words, 192)
    assert len(search.account(Question("nearest", 1)).codes) <= 64
    expected = brute_nearest(words, 192, queries, 70, 1)
    assert_same(nearest(search, queries, 70, n_jobs), expected)
    expected = brute_within(words, 192, queries, 2, 1)
    assert_same(within(search, queries, 2, n_jobs), expected)


@pytest.mark.parametrize("n_different", [1, 300, 20_000, 10**6])
def test_share_different(n_different):
    """It is judged by a part of the codes, and many equal ones change nothing."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, n_different, (100_000, 2)).astype(np.uint64)
    words[:, 1] = 7
    for mask in (None, rng.random(100_000) < 0.7):
        for crowd in (0, 50_000):
            words[:crowd, 0] = 0
            count = len(np.unique(words[slice(None) if mask is None else mask, 0]))
            share = share_different(words, mask)
            # Of the different codes, one in 7 is chosen: a binomial deviation.
            deviation = np.sqrt(6 * count) / 100_000
            assert share == pytest.approx(count / 100_000, abs=4 * deviation)


@pytest.fixture
def made(monkeypatch):
    """Let it pay soon for few codes, and list what is made."""
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    monkeypatch.setattr(searcher, "WEIGHED_COST", 0.0)
    monkeypatch.setattr(equal_codes, "QUERY_COST", 0.0)
    monkeypatch.setattr(equal_codes, "EXPAND_COST", 0.0)
    monkeypatch.setattr(equal_codes, "COUNT_AFTER", 0.0)
    monkeypatch.setattr(Distinct, "making", 0.0)
    calls = []
    make = Distinct.make

    def count(self, question):
        calls.append(question.live)
        make(self, question)

    monkeypatch.setattr(Distinct, "make", count)
    return calls


@pytest.mark.parametrize("hub", [0.0, 0.5])
def test_an_index_answers_as_ever(made, hub):
    codes, queries = repeated(2000, 300, hub=hub), repeated(40, 300, seed=1)
    index, brute = HammingNeighbors(), HammingNeighbors(algorithm="brute")
    index.fit(codes), brute.fit(codes)
    mask = np.random.default_rng(3).random(2000) < 0.8
    for gone in ([], np.arange(0, 2000, 7)):
        if len(gone):
            index.remove(gone), brute.remove(gone)
        for k in (1, 5, 5, 700):
            assert_same(index.kneighbors(queries, k), brute.kneighbors(queries, k))
        if not len(gone):
            own = {"n_neighbors": 3}
            assert_same(index.kneighbors(**own), brute.kneighbors(**own))
        for radius in (0, 4, 40):
            assert_same(
                index.radius_neighbors(queries, radius),
                brute.radius_neighbors(queries, radius),
            )
        assert_same(
            index.kneighbors(queries, 4, mask=mask),
            brute.kneighbors(queries, 4, mask=mask),
        )
    assert len(made) == 4


def test_a_mask_that_is_written_to_is_another_mask(made):
    codes, queries = repeated(500, 50), repeated(10, 50, seed=1)
    index = HammingNeighbors(3).fit(codes)
    brute = HammingNeighbors(3, algorithm="brute").fit(codes)
    mask = np.ones(500, dtype=bool)
    for position in range(0, 200, 20):
        assert_same(
            index.kneighbors(queries, mask=mask), brute.kneighbors(queries, mask=mask)
        )
        mask[position] = False
    assert len(made) == 10


def test_what_is_chosen(made, monkeypatch):
    # Tables never pay.
    monkeypatch.setattr(MultiIndex, "cost", lambda *_: np.inf)
    codes, queries = repeated(2000, 300), repeated(40, 300, seed=1)
    for algorithm in ("brute", "multi_index", "pruned"):
        HammingNeighbors(2, algorithm=algorithm).fit(codes).kneighbors(queries)
    # All different; then few codes.
    words = np.arange(2000, dtype=np.uint64)[:, None]
    different = words.view(np.uint8)
    HammingNeighbors(2, packed=True).fit(different).kneighbors(different[:40])
    with monkeypatch.context() as patch:
        patch.setattr(searcher, "MIN_CODES", 3000)
        HammingNeighbors(2).fit(codes).kneighbors(queries)
    assert not made
    # A query costs as much as 2000 pairs, and some 15 % of that among the different
    # codes: half of the cost is saved after 40 queries, all of it after 80.
    monkeypatch.setattr(Distinct, "making", 60 * 0.85)
    index = HammingNeighbors(2).fit(codes)
    mask = np.arange(2000) > 0
    for asked, n_made in ((None, 0), (None, 1), (mask, 1), (None, 1), (mask, 2)):
        index.kneighbors(queries, mask=asked)
        assert len(made) == n_made
    # Masks that come and go do not take its place.
    for first in range(2, 8):
        index.kneighbors(queries, mask=np.arange(2000) >= first)
        index.kneighbors(queries, mask=mask)
    assert len(made) == 2


@pytest.mark.parametrize(("left", "n_made"), [(0.01, 0), (1.0, 1)])
def test_clusters_may_leave_less(made, monkeypatch, left, n_made):
    """Too few codes are different for clusters, which would leave less of all."""
    monkeypatch.setattr(MultiIndex, "cost", lambda *_: np.inf)
    monkeypatch.setattr(pruned, "JUDGED_COST", np.inf)
    monkeypatch.setattr(pruned, "MIN_CLUSTERED", 1000)
    monkeypatch.setattr(pruned, "QUERY_COST", 0.0)
    words, queries = to_words(repeated(2000, 300)), to_words(repeated(40, 300, seed=1))
    search = Searcher(words, N_BITS, ALGORITHMS)
    search.algorithms["pruned"].left["nearest", 2] = left
    expected = brute_nearest(words, N_BITS, queries, 2, 1)
    for _ in range(2):
        assert_same(search.answer(queries, Question("nearest", 2, 1)), expected)
    assert len(made) == n_made


def test_threads_make_it_once(made, monkeypatch):
    """Threads that ask while one makes it search all codes instead."""
    codes, queries = repeated(500, 50), repeated(10, 50, seed=1)
    expected = HammingNeighbors(3, algorithm="brute").fit(codes).kneighbors(queries)
    begun, others_done = Event(), Event()
    init = EqualCodes.__init__

    def slow(self, words, live):
        begun.set()
        assert others_done.wait(60)
        init(self, words, live)

    monkeypatch.setattr(EqualCodes, "__init__", slow)
    index = HammingNeighbors(3, n_jobs=1).fit(codes)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(index.kneighbors, queries)
        assert begun.wait(60)
        assert_same(index.kneighbors(queries), expected)
        others_done.set()
        assert_same(first.result(), expected)
    assert_same(index.kneighbors(queries), expected)
    assert len(made) == 1
