"""Leaving codes out of the comparison gives what comparing all of them gives."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from searches import brute_nearest, brute_within, made, nearest, within

from skhash.codes import pack_bits, packed_to_words
from skhash.neighbors import HammingNeighbors
from skhash.neighbors.search import (
    chunks,
    memory,
    pruned,
    searcher,
)
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import Clusters, share_left


def clustered(n, n_bits, seed=0, noise=0.06):
    """Codes near 20 others; with noise=0.5 they are random, with 0 many are equal."""
    bits = np.random.default_rng(99).integers(0, 2, (20, n_bits))
    rng = np.random.default_rng(seed)
    bits = bits[rng.integers(0, 20, n)] ^ (rng.random((n, n_bits)) < noise)
    return bits.astype(np.uint8)


def words_of(bits):
    return packed_to_words(pack_bits(bits))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)
        assert one.dtype == other.dtype


CASES = {
    "n": st.sampled_from([1, 2, 3, 40, 130, 700, 3000]),
    "n_bits": st.sampled_from([3, 13, 64, 70, 128, 256, 300, 520]),
    "noise": st.sampled_from([0.0, 0.02, 0.1, 0.5]),
    "n_queries": st.integers(1, 80),
    "share": st.floats(0, 1),
    "some": st.booleans(),
    "seed": st.integers(0, 2**16),
}


@settings(max_examples=60, deadline=None)
@given(**CASES)
def test_nearest(n, n_bits, noise, n_queries, share, some, seed):
    words = words_of(clustered(n, n_bits, seed, noise))
    queries = words_of(clustered(n_queries, n_bits, seed + 1, noise))
    live = None
    if some:
        live = np.random.default_rng(seed).random(n) < 0.6
        live[-1] = True
    n_found = n if live is None else live.sum()
    k = max(1, int(share**3 * n_found))
    n_planes = 8 * -(-n_bits // 8)
    expected = brute_nearest(words, n_planes, queries, k, 1, live)
    clusters = made(Clusters, words, n_planes)
    assert_same(nearest(clusters, queries, k, 1, live), expected)


@settings(max_examples=60, deadline=None)
@given(**CASES)
def test_within(n, n_bits, noise, n_queries, share, some, seed):
    words = words_of(clustered(n, n_bits, seed, noise))
    queries = words_of(clustered(n_queries, n_bits, seed + 1, noise))
    live = np.random.default_rng(seed).random(n) < 0.6 if some else None
    n_planes = 8 * -(-n_bits // 8)
    radius = min(int(share**2 * n_planes), 254)
    expected = brute_within(words, n_planes, queries, radius, 1, live)
    found = within(made(Clusters, words, n_planes), queries, radius, 1, live)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


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
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)


def test_more_threads_than_blocks(monkeypatch):
    monkeypatch.setattr(chunks, "MIN_THREAD_WORK", 1)
    words = words_of(clustered(9, 64))
    clusters = made(Clusters, words, 64)
    for ask, brute, reach in ((within, brute_within, 30), (nearest, brute_nearest, 3)):
        found = ask(clusters, words[:2], reach, 16)
        expected = brute(words, 64, words[:2], reach, 1)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)


def test_more_queries_than_a_key_tells_apart():
    """A radius of 254 leaves 2^23 / 255 queries for what stands above the position."""
    words = words_of(clustered(3, 256, noise=0.5))
    queries = words_of(clustered(40_000, 256, 1, noise=0.5))
    found = within(made(Clusters, words, 256), queries, 254, 1)
    for one, other in zip(
        found, brute_within(words, 256, queries, 254, 1), strict=True
    ):
        assert len(one) == len(other) == 40_000
        assert_same([np.concatenate(one)], [np.concatenate(other)])


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


@pytest.mark.parametrize("n_queries", [1, 40])
@pytest.mark.parametrize("n_bits", [8, 64, 300])
def test_equal_codes_come_in_the_order_of_positions(n_queries, n_bits):
    bits = np.zeros((2000, n_bits), dtype=np.uint8)
    bits[1::7, 0] = 1
    queries = words_of(bits[:n_queries])
    clusters = made(Clusters, words_of(bits), 8 * -(-n_bits // 8))
    equal = np.flatnonzero(bits[:, 0] == 0)
    for k in (1, 5, 1000):
        distances, positions = nearest(clusters, queries[:1], k, 1)
        assert_array_equal(positions[0], equal[:k])
        assert_array_equal(distances[0], 0)
    expected = brute_nearest(words_of(bits), clusters.n_planes, queries, 1900, 1)
    assert_same(nearest(clusters, queries, 1900, 1), expected)


@pytest.mark.parametrize("n_queries", [1, 40])
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


@pytest.mark.parametrize("n_queries", [15, 200])
@pytest.mark.parametrize("k", [1, 2])
def test_equal_codes_among_those_that_no_byte_tells_apart(k, n_queries):
    # Random codes of 512 bits are some 256 bits apart; each has one equal to it.
    words = np.repeat(words_of(clustered(1840, 512, noise=0.5)), 2, axis=0)
    queries = words[:: len(words) // n_queries][:n_queries]
    expected = brute_nearest(words, 512, queries, k, 1)
    assert_same(nearest(made(Clusters, words, 512), queries, k, 1), expected)


@pytest.mark.parametrize("n_bits", [64, 512])
def test_blocks_are_rings_of_clusters(n_bits):
    bits = clustered(9000, n_bits, noise=0.2 if n_bits == 64 else 0.5)
    if n_bits == 512:
        bits[-20:] = 1 - bits[0]  # farther from a center than a byte tells
    words = words_of(bits)
    clusters = made(Clusters, words, n_bits)
    index, rings = clusters.index, clusters.rings
    assert_array_equal(np.sort(index.positions), np.arange(9000))
    assert_array_equal(np.diff(index.clusters), np.bincount(rings.owners))
    sizes = np.diff(index.starts)
    assert sizes.max() == 128 and sizes.min() > 0
    centers = from_blocks(index.center_blocks)[: len(index.sizes)]
    assert_array_equal(centers, pruned.Centers(words).codes)
    assert_array_equal(index.center_choices, pruned._choices(centers))
    shortest = np.bitwise_count(words[:, None, :] ^ centers[None]).sum(axis=2)
    for block, (start, stop) in enumerate(pairwise(index.starts)):
        owner, positions = rings.owners[block], index.positions[start:stop]
        codes = from_blocks(index.blocks[block : block + 1])
        assert_array_equal(codes[: stop - start], words[positions])
        away = shortest[positions, owner].astype(int)
        # The nearest center, the first of several, as far as bytes tell.
        assert_array_equal(np.minimum(shortest[positions], 255).argmin(axis=1), owner)
        assert (np.diff(away) <= 0).all()
        assert (np.diff(positions)[np.diff(away) == 0] > 0).all()
        assert rings.tops[block] == min(away[0], 255)
        assert index.lowest[block] == positions.min()
        farthest = positions[away == away[0]].min()
        assert rings.places[block] == farthest * 256 // 9000
        if block and rings.owners[block - 1] == owner:
            outer = index.positions[start - 1]
            assert shortest[outer, owner] >= away[0]
            assert sizes[block - 1] == 128


def from_blocks(blocks):
    """The words of blocks, empty places of the last one included."""
    codes = np.moveaxis(blocks, 1, 2).reshape(-1, blocks.shape[1])
    return np.ascontiguousarray(codes).view(np.uint64)


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


@pytest.fixture
def asked(monkeypatch):
    """Count the questions that clusters answer."""
    calls = []
    find = Clusters.nearest

    def count(self, queries, question):
        calls.append((len(queries), question.reach))
        return find(self, queries, question)

    monkeypatch.setattr(Clusters, "nearest", count)
    monkeypatch.setattr(searcher, "MIN_CODES", 1)
    monkeypatch.setattr(searcher, "WEIGHED_COST", 0.0)
    # Few codes, compared as if they were many, and no tables.
    for name in ("QUERY_COST", "FEW_QUERY_COST"):
        monkeypatch.setattr(pruned, name, 0.0)
    for name in ("LEFT_COST", "FEW_LEFT_COST"):
        monkeypatch.setattr(pruned, name, 2.2)
    monkeypatch.setattr(MultiIndex, "cost", lambda *_: np.inf)
    return calls


def test_pruned_gives_the_same_answers(asked):
    codes, queries = clustered(900, 33), clustered(60, 33, seed=1)
    index = HammingNeighbors(algorithm="pruned").fit(codes)
    brute = HammingNeighbors(algorithm="brute").fit(codes)
    mask = np.random.default_rng(3).random(900) < 0.8
    for k in (1, 5, 700):
        assert_same(
            index.kneighbors(queries, k, mask=mask),
            brute.kneighbors(queries, k, mask=mask),
        )
        assert_same(index.kneighbors(n_neighbors=k), brute.kneighbors(n_neighbors=k))
    before = len(asked)
    for one, other in zip(
        index.radius_neighbors(queries, 3),
        brute.radius_neighbors(queries, 3),
        strict=True,
    ):
        assert_same(one, other)
    assert len(asked) == before > 0
    for one in (index, brute):
        one.remove(np.arange(0, 900, 7)).partial_fit(queries)
    assert_same(index.kneighbors(queries, 5), brute.kneighbors(queries, 5))


def test_what_auto_chooses(monkeypatch, asked):
    monkeypatch.setattr(pruned, "MIN_CLUSTERED", 1)
    monkeypatch.setattr(Clusters, "making", 0.0)
    monkeypatch.setattr(pruned, "JUDGED_COST", 0.0)
    queries = clustered(300, 64, seed=1)
    # Of random codes, almost all are left, and comparing them all is faster.
    far = HammingNeighbors().fit(clustered(3000, 64, noise=0.5))
    for _ in range(3):
        far.kneighbors(queries)
    assert not asked
    codes = clustered(3000, 64)
    near = HammingNeighbors().fit(codes)
    near.kneighbors(queries)
    assert not asked
    near.kneighbors(queries)
    assert asked == [(300, 5)]
    # What is known of five neighbours says nothing of six; too few queries do not tell.
    near.kneighbors(queries[:3], 6)
    near.kneighbors(queries[:3], 6)
    near.kneighbors(queries[:3], 5)
    assert asked == [(300, 5), (3, 5)]
    share = near._store.codes_key.searcher.algorithms["pruned"]
    share = share.left["nearest", 5]
    # The share is judged anew, so that other queries may change the choice.
    with monkeypatch.context() as patch:
        patch.setattr(pruned, "share_left", lambda *_: 1.0)
        for _ in range(2):
            near.kneighbors(queries)
            assert len(asked) == 3
    # It waits until the clusters would have paid for themselves.
    saved = 3000 * (1 - pruned.LEFT_COST * share)
    monkeypatch.setattr(Clusters, "making", 450 * saved / 3000)
    waiting = HammingNeighbors().fit(codes)
    for answered in (3, 3, 4):
        waiting.kneighbors(queries)
        assert len(asked) == answered
    for algorithm in ("brute", "multi_index"):
        HammingNeighbors(algorithm=algorithm).fit(codes).kneighbors(queries)
    assert len(asked) == 4


def test_auto_judges_by_what_it_remembers(monkeypatch, asked):
    monkeypatch.setattr(pruned, "MIN_CLUSTERED", 1)
    monkeypatch.setattr(Clusters, "making", 0.0)
    codes, queries = clustered(3000, 64), clustered(60, 64, seed=1)
    # Single queries tell as soon as there are enough of them, ...
    monkeypatch.setattr(pruned, "JUDGED_COST", 0.0)
    index = HammingNeighbors().fit(codes)
    for query in queries[: memory.ENOUGH]:
        index.kneighbors(query[None])
    assert not asked
    index.kneighbors(queries[:1])
    assert asked == [(1, 5)]
    # ... all of the same number of neighbours, ...
    index = HammingNeighbors().fit(codes)
    for i, query in enumerate(queries):
        index.kneighbors(query[None], 5 + i % 2)
    assert len(asked) == 1
    # ... and after so much comparing. Few queries gain less.
    monkeypatch.setattr(pruned, "JUDGED_COST", 50 * 3000.0)
    monkeypatch.setattr(pruned, "FEW_LEFT_COST", 100.0)
    index = HammingNeighbors().fit(codes)
    for _ in range(2):
        index.kneighbors(queries[:20])
        assert len(asked) == 1
    index.kneighbors(queries[:20])
    index.kneighbors(queries[:2])
    assert asked[1:] == [(20, 5)]
