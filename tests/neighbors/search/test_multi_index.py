"""Looking codes up by parts gives what comparing all of them gives."""

import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from searches import brute_within, made, within

from skhash.codes import pack_bits, packed_to_words
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search import dispatch, searcher
from skhash.neighbors.search.algorithm import Question
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.multi_index import MultiIndex, _flips


@pytest.fixture
def search_small(monkeypatch):
    """Let a few codes be enough to look up, at no cost."""
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    monkeypatch.setattr(searcher, "WEIGHED_COST", 0.0)
    monkeypatch.setattr(Brute, "cost", lambda *_: 1e9)
    monkeypatch.setattr(MultiIndex, "making", 0.0)


def clustered(n, n_bits, seed=0):
    """Codes of which many are near each other, some equal, with two equal bits."""
    rng = np.random.default_rng(seed)
    centers = rng.integers(0, 2, (20, n_bits))
    bits = centers[rng.integers(0, 20, n)] ^ (rng.random((n, n_bits)) < 0.06)
    bits[:, -1] = bits[:, 0]
    return bits.astype(np.uint8)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert len(one) == len(other)
        for row, expected_row in zip(one, other, strict=True):
            assert_array_equal(row, expected_row)
            assert row.dtype == expected_row.dtype


@pytest.mark.parametrize("n_bits", [3, 8, 13, 64, 70, 128])
@pytest.mark.parametrize("n", [1, 2, 37, 1500])
def test_within(n, n_bits):
    words = packed_to_words(pack_bits(clustered(n, n_bits)))
    queries = packed_to_words(pack_bits(clustered(40, n_bits, seed=1)))
    n_planes = 8 * -(-n_bits // 8)
    tables = made(MultiIndex, words, n_planes)
    assert sorted(bit for part in tables.parts for bit in part) == list(range(n_planes))
    live = np.random.default_rng(2).random(n) < 0.5 if n > 1 else None
    for radius in (0, 1, 2, 5, 9):
        if n_bits > 64 and radius > 5 and n < 100:
            continue  # one part has half of the bits: too many look-ups
        for mask in (None, live):
            expected = brute_within(words, n_planes, queries, radius, 1, mask)
            for n_jobs in (1, 2):
                found = within(tables, queries, radius, n_jobs, mask)
                assert_same(found, expected)


@pytest.mark.parametrize("n_bits", [8, 64, 70])
def test_pairs_behind(n_bits):
    words = packed_to_words(pack_bits(clustered(500, n_bits)))
    n_planes = 8 * -(-n_bits // 8)
    tables = made(MultiIndex, words, n_planes)
    for radius in (0, 2, 6, n_planes):
        if n_bits > 64 and radius > 6:
            continue  # too many look-ups
        for rows in (slice(0, 500), slice(130, 260), slice(499, 500)):
            expected = Brute(words, n_planes).pairs_behind(rows, radius)
            found = tables.pairs_behind(rows, radius)
            for one, other in zip(found, expected, strict=True):
                assert_array_equal(one, other)
                assert one.dtype == other.dtype


def test_what_stands_before_is_not_kept(monkeypatch):
    """There is room for the codes behind each of the equal ones, but not for all."""
    monkeypatch.setattr("skhash.neighbors.search.multi_index.ROOM", 10)
    words = np.zeros((300, 1), dtype=np.uint64)
    tables = made(MultiIndex, words, 64)
    rooms, empty = [], np.empty
    monkeypatch.setattr(
        "skhash.neighbors.search.multi_index.np.empty",
        lambda shape, dtype: rooms.append(shape) or empty(shape, dtype),
    )
    _, pairs = tables.pairs_behind(slice(280, 300), 1, 1)
    assert len(pairs) == 20 * 19 // 2
    assert max(rooms) <= 20


@pytest.mark.parametrize("room", [1, 40, 300])
def test_chunks_and_full_rooms(monkeypatch, room):
    words = packed_to_words(pack_bits(clustered(600, 16)))
    tables = made(MultiIndex, words, 16)
    expected = brute_within(words, 16, words, 4)
    # The answers of some queries fit into the larger rooms, several at once into the
    # largest; those of others do not.
    sizes = sorted(map(len, expected[0]))
    assert 9 <= sizes[0] < 40 < sizes[-1] < 300
    monkeypatch.setattr("skhash.neighbors.search.multi_index.CHUNK", 7)
    monkeypatch.setattr("skhash.neighbors.search.multi_index.MIN_THREAD_COST", 1e-9)
    monkeypatch.setattr("skhash.neighbors.search.multi_index.ROOM", room)
    for n_jobs in (1, 2):
        assert_same(within(tables, words, 4, n_jobs), expected)
        distances, positions, counts = tables.find(words, 4, 9, n_jobs)
        assert_array_equal(counts, 9)
        for found, whole in zip((distances, positions), expected, strict=True):
            assert_array_equal(
                found.reshape(-1, 9), np.array([one[:9] for one in whole])
            )


def test_a_crowd_of_equal_codes_takes_no_room_but_for_k(monkeypatch):
    """Each of many queries is near all codes, and only k of these are wanted."""
    n, k = 20_000, 3
    words = np.zeros((n, 1), dtype=np.uint64)
    tables = made(MultiIndex, words, 64)
    queries = np.zeros((50, 1), dtype=np.uint64)
    tables.find(queries, 0, k, 1)  # compiles
    tracemalloc.start()
    try:
        _, positions, _ = tables.find(queries, 0, k, 1)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_array_equal(positions.reshape(50, k), np.tile(np.arange(k), (50, 1)))
    # Not 50 answers of n codes each, but the room and one of these.
    assert most < 8 * (2**16 + 2 * n)


@pytest.mark.usefixtures("search_small")
def test_threads_make_tables_once(monkeypatch):
    """Threads that ask while one makes the tables compare codes instead."""
    codes = clustered(500, 64)
    expected = HammingNeighbors(algorithm="brute").fit(codes).radius_neighbors(codes, 2)
    index = HammingNeighbors(algorithm="multi_index", n_jobs=1).fit(codes)
    calls, begun, others_done = [], Event(), Event()

    class SlowIndex(MultiIndex):
        def make(self, *arguments):
            calls.append(self)
            begun.set()
            assert others_done.wait(60)
            super().make(*arguments)

    monkeypatch.setitem(dispatch.ALGORITHMS, "multi_index", SlowIndex)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(index.radius_neighbors, codes, 2)
        assert begun.wait(60)
        assert_same(index.radius_neighbors(codes, 2), expected)
        others_done.set()
        assert_same(slow.result(), expected)
    assert_same(index.radius_neighbors(codes, 2), expected)
    # They outlive the removal of codes, but not the addition of others.
    index.remove([3]).radius_neighbors(codes, 2)
    assert len(calls) == 1
    index.partial_fit(codes[:1]).radius_neighbors(codes, 2)
    assert len(calls) == 2


def test_every_pattern_of_a_part_is_looked_up():
    for n_bits in (1, 4, 7):
        for most in (-1, 0, 2, n_bits):
            flips = _flips(n_bits, most)
            counts = np.bitwise_count(np.arange(2**n_bits))
            assert sorted(flips) == list(np.flatnonzero(counts <= most))


def test_cost_grows_with_the_radius_and_with_crowds():
    spread = packed_to_words(
        pack_bits(np.random.default_rng(0).integers(0, 2, (4096, 64)))
    )
    crowded = packed_to_words(pack_bits(clustered(4096, 64)))
    tables, full = made(MultiIndex, spread, 64), made(MultiIndex, crowded, 64)
    questions = [Question("within", radius) for radius in range(12)]
    costs = [tables.cost(question) for question in questions]
    assert costs == sorted(costs)
    assert full.cost(questions[2]) > tables.cost(questions[2])
    # Random codes fill tables evenly, up to the chance of meeting oneself.
    hoped = MultiIndex(spread, 64).cost(questions[5])
    assert hoped == pytest.approx(tables.cost(questions[5]), rel=0.5)


@pytest.mark.usefixtures("search_small")
@pytest.mark.parametrize("algorithm", ["auto", "multi_index"])
def test_neighbors_and_radii(algorithm):
    codes, queries = clustered(900, 33), clustered(60, 33, seed=1)
    brute = HammingNeighbors(algorithm="brute").fit(codes)
    index = HammingNeighbors(algorithm=algorithm).fit(codes)
    gone = np.arange(0, 900, 7)
    mask = np.random.default_rng(3).random(900) < 0.8
    for _ in range(3):
        # The first question for neighbours only tells how far away they are.
        for k in (1, 5, 5, 700, 700):
            assert_same(index.kneighbors(queries, k), brute.kneighbors(queries, k))
        assert_same(
            index.kneighbors(queries, 4, mask=mask),
            brute.kneighbors(queries, 4, mask=mask),
        )
        assert_same(index.kneighbors(n_neighbors=3), brute.kneighbors(n_neighbors=3))
        for radius in (0, 2, 40):
            assert_same(
                index.radius_neighbors(queries, radius),
                brute.radius_neighbors(queries, radius),
            )
        if len(gone):
            index.remove(gone), brute.remove(gone)
            index.partial_fit(queries), brute.partial_fit(queries)
            index.compact(), brute.compact()
            mask, gone = np.resize(mask, brute.n_samples_fit_), []


@pytest.fixture
def asked(monkeypatch):
    """Count the questions that tables answer."""
    calls = []
    find = MultiIndex.find

    def count(self, queries, radius, *rest):
        calls.append((len(queries), radius))
        return find(self, queries, radius, *rest)

    monkeypatch.setattr(MultiIndex, "find", count)
    return calls


def test_what_is_chosen(monkeypatch, asked):
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    monkeypatch.setattr(searcher, "WEIGHED_COST", 0.0)
    monkeypatch.setattr(Brute, "cost", lambda *_: 300_000.0)
    codes = np.random.default_rng(0).integers(0, 2, (2000, 64))
    queries = np.random.default_rng(1).integers(0, 2, (100, 64))
    for algorithm, answered in (("brute", 0), ("multi_index", 1)):
        index = HammingNeighbors(algorithm=algorithm).fit(codes)
        index.radius_neighbors(queries, 1)
        assert len(asked) == answered
    # Far neighbours of random codes are not looked up, however often one asks.
    for _ in range(3):
        index.kneighbors(queries)
    index.radius_neighbors(queries, 30)
    assert len(asked) == 1
    # "auto" makes tables when the questions so far would have paid for them.
    words = packed_to_words(pack_bits(codes))
    saved = 300_000.0 - MultiIndex(words, 64).cost(Question("within", 1))
    monkeypatch.setattr(MultiIndex, "making", 150 * saved / 2000)
    index = HammingNeighbors().fit(codes)
    for answered in (1, 2, 3):
        index.radius_neighbors(queries, 1)
        assert len(asked) == answered
    # Near neighbours are: those of codes that are there twice.
    index = HammingNeighbors(2, algorithm="multi_index").fit(
        np.repeat(codes, 2, axis=0)
    )
    index.kneighbors(codes[:50])
    before = len(asked)
    index.kneighbors(codes[:50])
    assert asked[before:] == [(50, 5)]


FORK_BESIDE_PRODUCTS = """
import os
import threading
import warnings
import numpy as np
from skhash.neighbors.search.multi_index import _parts

def share_out():
    _parts(bits, 4)

def share_out_for_ever():
    while True:
        share_out()

bits = np.random.default_rng(0).integers(0, 2, (3000, 256)).astype(np.float32)
warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads
threading.Thread(target=share_out_for_ever, daemon=True).start()
for _ in range(5):
    child = os.fork()
    if not child:
        share_out()
        os._exit(0)
    os.waitpid(child, 0)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_the_products_of_a_table():
    """Without the lock one of the children never ends its product, with OpenBLAS."""
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run(
        [sys.executable, "-c", FORK_BESIDE_PRODUCTS],
        env={**os.environ, **threads},
        check=True,
        timeout=100,
    )
