"""Leaving codes out of the comparison gives what comparing all of them gives."""

from itertools import pairwise

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from searches import (
    assert_same,
    brute_nearest,
    brute_within,
    clustered,
    made,
    nearest,
    within,
    words_of,
)

from skhash.neighbors.search import chunks, pruned
from skhash.neighbors.search.pruned import Clusters, share_left

CASES = {
    "n": st.sampled_from([1, 2, 3, 40, 130, 700, 3000]),
    "n_bits": st.sampled_from([3, 13, 64, 70, 128, 256, 300, 520]),
    "noise": st.sampled_from([0.0, 0.02, 0.1, 0.5]),
    "n_queries": st.integers(1, 80),
    "share": st.floats(0, 1),
    "some": st.booleans(),
    "seed": st.integers(0, 2**16),
}


@settings(max_examples=60)
@given(**CASES)
def test_answers_are_those_of_brute_force(
    n, n_bits, noise, n_queries, share, some, seed
):
    words = words_of(clustered(n, n_bits, seed, noise))
    queries = words_of(clustered(n_queries, n_bits, seed + 1, noise))
    live = None
    if some:
        live = np.random.default_rng(seed).random(n) < 0.6
        live[-1] = True
    n_planes = 8 * -(-n_bits // 8)
    clusters = made(Clusters, words, n_planes)
    k = max(1, int(share**3 * (n if live is None else live.sum())))
    radius = min(int(share**2 * n_planes), 254)
    for ask, brute, reach in (
        (nearest, brute_nearest, k),
        (within, brute_within, radius),
    ):
        expected = brute(words, n_planes, queries, reach, 1, live)
        assert_same(ask(clusters, queries, reach, 1, live), expected)


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_within_by_threads_and_in_little_room(monkeypatch, few, n_jobs):
    words, queries = words_of(clustered(9000, 64)), words_of(clustered(150, 64, 1))
    live = np.random.default_rng(2).random(9000) < 0.5
    monkeypatch.setattr(pruned, "FEW_QUERIES", few)
    monkeypatch.setattr(chunks, "MIN_THREAD_WORK", 1)
    monkeypatch.setattr(pruned, "ROOM", 1)
    clusters = made(Clusters, words, 64)
    for chunk, some in ((1000, None), (7, live)):
        monkeypatch.setattr(pruned, "CHUNK", chunk)
        expected = brute_within(words, 64, queries, 30, 1, some)
        # More answers than there is room for at a time.
        assert sum(map(len, expected[0])) > 2**17
        found = within(clusters, queries, 30, n_jobs, some)
        assert_same(found, expected)


def test_more_threads_than_blocks(monkeypatch):
    monkeypatch.setattr(chunks, "MIN_THREAD_WORK", 1)
    words = words_of(clustered(9, 64))
    clusters = made(Clusters, words, 64)
    for ask, brute, reach in ((within, brute_within, 30), (nearest, brute_nearest, 3)):
        found = ask(clusters, words[:2], reach, 16)
        expected = brute(words, 64, words[:2], reach, 1)
        assert_same(found, expected)


def test_more_queries_than_a_key_tells_apart():
    """A radius of 254 leaves 2^23 / 255 queries for what stands above the position."""
    words = words_of(clustered(3, 256, noise=0.5))
    queries = words_of(clustered(40_000, 256, 1, noise=0.5))
    found = within(made(Clusters, words, 256), queries, 254, 1)
    assert_same(found, brute_within(words, 256, queries, 254, 1))


def test_one_query_that_finds_more_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(pruned, "ROOM", 1)
    words = words_of(clustered(40_000, 64))
    clusters = made(Clusters, words, 64)
    distances, positions = within(clusters, words[:2], 64, 1)
    for query, (near, found) in enumerate(zip(distances, positions, strict=True)):
        away = np.bitwise_count(words[query] ^ words)[:, 0]
        assert_array_equal(found, np.argsort(away, kind="stable"))
        assert_array_equal(near, np.sort(away))


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_chunks_threads_and_first_codes(monkeypatch, few, n_jobs):
    words, queries = words_of(clustered(5000, 64)), words_of(clustered(150, 64, 1))
    live = np.random.default_rng(2).random(5000) < 0.5
    monkeypatch.setattr(pruned, "FEW_QUERIES", few)
    monkeypatch.setattr(chunks, "MIN_THREAD_WORK", 1)
    monkeypatch.setattr(pruned, "FIRST_CODES_EACH", 0)
    clusters = made(Clusters, words, 64)
    for chunk, first in ((1, 0), (7, 1), (64, 300), (200, 10**6)):
        monkeypatch.setattr(pruned, "CHUNK", chunk)
        monkeypatch.setattr(pruned, "FIRST_CODES", first)
        for some in (None, live):
            expected = brute_nearest(words, 64, queries, 7, 1, some)
            assert_same(nearest(clusters, queries, 7, n_jobs, some), expected)


@each("n_queries", [1, 40])
def test_distances_that_no_byte_holds(n_queries):
    bits = np.random.default_rng(0).integers(0, 2, (700, 512), dtype=np.uint8)
    words, queries = words_of(bits), words_of(1 - bits[:n_queries])
    clusters = made(Clusters, words, 512)
    expected = brute_nearest(words, 512, queries, 700, 1)
    assert expected[0].min() < 255 and expected[0].max() == 512
    assert_same(nearest(clusters, queries, 700, 1), expected)
    assert_same(
        nearest(clusters, queries, 2, 1), brute_nearest(words, 512, queries, 2, 1)
    )


@each("n_queries", [15, 200])
@each("k", [1, 2])
def test_equal_codes_among_those_that_no_byte_tells_apart(k, n_queries):
    # Random codes of 512 bits are some 256 bits apart; each has one equal to it.
    words = np.repeat(words_of(clustered(1840, 512, noise=0.5)), 2, axis=0)
    queries = words[:: len(words) // n_queries][:n_queries]
    expected = brute_nearest(words, 512, queries, k, 1)
    assert_same(nearest(made(Clusters, words, 512), queries, k, 1), expected)


@pytest.mark.parametrize("noise", [0.0, 0.06, 0.5])
@pytest.mark.parametrize("n_bits", [13, 64, 300])
def test_many_centers_stand_in_groups(monkeypatch, n_bits, noise):
    words = words_of(clustered(6000, n_bits, noise=noise))
    queries = words_of(clustered(40, n_bits, 1, noise))
    alone = pruned.Centers(words)
    monkeypatch.setattr(pruned, "MAX_COMPARED", 5)
    monkeypatch.setattr(pruned, "ASSIGNED", 700)
    centers = pruned.Centers(words)
    assert_array_equal(np.sort(centers.codes, axis=0), np.sort(alone.codes, axis=0))
    if noise:
        assert len(alone.heads) == 1 and len(centers.heads) > 5
    for i, (start, stop) in enumerate(pairwise(centers.starts)):
        group = centers.codes[start:stop]
        away = np.bitwise_count(group[:, None] ^ centers.heads).sum(axis=2)
        assert stop > start and (away[:, i] == away.min(axis=1)).all()
    # Where all groups are looked through, the center is the nearest.
    shortest = np.bitwise_count(words[:, None] ^ centers.codes).sum(axis=2)
    away = {}
    for probed in (1, 8, len(centers.heads)):
        monkeypatch.setattr(pruned, "PROBED", probed)
        owners = centers.assign(words, 2)
        away[probed] = shortest[np.arange(6000), owners]
    assert_array_equal(away[len(centers.heads)], shortest.min(axis=1))
    assert away[1].mean() >= away[8].mean() >= shortest.min(axis=1).mean()
    clusters = made(Clusters, words, 8 * -(-n_bits // 8))
    for some in (queries, queries[:2]):
        expected = brute_nearest(words, clusters.n_planes, some, 7, 1)
        assert_same(nearest(clusters, some, 7, 1), expected)


def test_share_left_counts_the_rings(monkeypatch):
    words, queries = words_of(clustered(4000, 64)), words_of(clustered(20, 64, 1))
    reached = brute_nearest(words, 64, queries, 5, 1)[0][:, -1]
    centers = pruned.Centers(words).codes
    between = np.bitwise_count(words[:, None] ^ centers)[..., 0].astype(int)
    to_queries = np.bitwise_count(queries[:, None] ^ centers)[..., 0].astype(int)
    to_own = to_queries[:, between.argmin(axis=1)]
    left = to_own - between.min(axis=1) <= reached[:, None]
    left = left.mean() + len(centers) / 4000
    assert share_left(words, queries, reached) == pytest.approx(left)
    monkeypatch.setattr(pruned, "SAMPLE", 1000)
    assert share_left(words, queries, reached) == pytest.approx(left, abs=0.05)
