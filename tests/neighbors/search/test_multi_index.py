"""Looking codes up by parts gives what comparing all of them gives."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cases import each, memory_below
from numpy.testing import assert_array_equal
from searches import assert_same, brute_within, clustered, made, within, words_of

from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.multi_index import MultiIndex


@each("n_bits", [3, 8, 13, 64, 70, 128])
@each("n", [1, 2, 37, 1500])
def test_within(n, n_bits):
    words = words_of(clustered(n, n_bits))
    queries = words_of(clustered(40, n_bits, seed=1))
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


@each("n_bits", [8, 64, 70])
def test_pairs_behind(n_bits):
    words = words_of(clustered(500, n_bits))
    n_planes = 8 * -(-n_bits // 8)
    tables = made(MultiIndex, words, n_planes)
    for radius in (0, 2, 6, n_planes):
        if n_bits > 64 and radius > 6:
            continue  # too many look-ups
        for rows in (slice(0, 500), slice(130, 260), slice(499, 500)):
            expected = Brute(words, n_planes).pairs_behind(rows, radius)
            found = tables.pairs_behind(rows, radius)
            assert_same(found, expected)


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
    words = words_of(clustered(600, 16, noise=0.04))
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
    # Not 50 answers of n codes each, but the room and one of these.
    with memory_below(8 * (2**16 + 2 * n)):
        _, positions, _ = tables.find(queries, 0, k, 1)
    assert_array_equal(positions.reshape(50, k), np.tile(np.arange(k), (50, 1)))


def test_the_memory_of_tables_of_long_codes_is_known_before():
    tables = MultiIndex(words_of(clustered(500, 1024)), 1024)
    with memory_below(1.5 * tables.bytes_to_make()):
        tables.make()


def test_cost_grows_with_the_radius_and_with_crowds():
    spread = words_of(np.random.default_rng(0).integers(0, 2, (4096, 64)))
    crowded = words_of(clustered(4096, 64))
    tables, full = made(MultiIndex, spread, 64), made(MultiIndex, crowded, 64)
    costs = [tables.look_up_cost(radius) for radius in range(12)]
    assert costs == sorted(costs)
    assert full.look_up_cost(2) > costs[2]
    # Random codes fill tables evenly, up to the chance of meeting oneself.
    hoped = MultiIndex(spread, 64).look_up_cost(5)
    assert hoped == pytest.approx(costs[5], rel=0.5)


def test_radii_are_planned_as_far_as_they_pay(monkeypatch):
    """Of 4 parts: 3, 7, 11, ... With each, half of the queries are answered."""
    tables = MultiIndex(np.zeros((2**16, 1), dtype=np.uint64), 64)
    monkeypatch.setattr(MultiIndex, "look_up_cost", lambda self, radius: 2.0**radius)
    reached = np.array([3, 3, 3, 3, 7, 7, 11, 15])
    for compare, radii in ((8, []), (17, [3]), (500, [3, 7]), (1e9, [3, 7, 11, 15])):
        cost, found = tables.plan(reached, float(compare))
        assert found == radii
        spent, rest = 0.0, 1.0
        for radius in radii:
            spent += rest * 2.0**radius
            rest = np.mean(reached > radius)
        assert cost == (spent + rest * compare if radii else np.inf)


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
