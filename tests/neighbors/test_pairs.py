"""Pairs within a radius and their groups, against brute force."""

import numpy as np
import pandas as pd
import pytest
from cases import each
from searches import assert_same
from sklearn.cluster import DBSCAN

from skhash.codes import hamming_distances, pack_bits
from skhash.neighbors import _pairs, duplicate_groups, radius_pairs
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.choose import Searcher
from skhash.neighbors.search.multi_index import MultiIndex


def make_codes(seed, n, n_bits, n_centres):
    """Codes around some centres: equal ones, near ones and far ones."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 2, (n_centres, n_bits))
    return centres[rng.integers(0, n_centres, n)] ^ (rng.random((n, n_bits)) < 0.05)


def expected_pairs(codes, radius):
    packed = pack_bits(codes)
    all_distances = hamming_distances(packed, packed)
    i, j = np.nonzero(np.triu(all_distances <= radius, k=1))
    distances = all_distances[i, j].astype(np.int32)
    order = np.lexsort((j, distances, i))
    return distances[order], np.stack([i, j], axis=1)[order]


def expected_groups(codes, radius):
    """DBSCAN whose points are all core points: the connected components."""
    distances = hamming_distances(pack_bits(codes), pack_bits(codes))
    dbscan = DBSCAN(eps=radius + 0.5, min_samples=1, metric="precomputed")
    return dbscan.fit(distances).labels_  # numbered by first appearance, too


@pytest.fixture
def asked(monkeypatch):
    """List by what blocks of pairs are found."""
    kinds = []

    def count(owner, kind):
        find = owner.pairs_behind

        def counting(*arguments):
            kinds.append(kind)
            return find(*arguments)

        monkeypatch.setattr(owner, "pairs_behind", counting)

    count(Brute, "compare")
    count(MultiIndex, "look up")
    return kinds


def let_comparing_cost(times, monkeypatch):
    def costs(self, *_):
        return {"brute": times * self.words.size, "pruned": np.inf}

    monkeypatch.setattr(Searcher, "_compare_costs", costs)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["compare", "look up"])
def test_blocks_and_formats_and_threads(n_jobs, packed, kind, asked, monkeypatch):
    """Blocks of rows, of uneven size, give what one block gives."""
    monkeypatch.setattr(_pairs, "BLOCK_ROWS", 130)
    monkeypatch.setattr("skhash.neighbors.search.chunks.MIN_THREAD_WORK", 1)
    monkeypatch.setattr("skhash.neighbors.search.multi_index.MIN_THREAD_COST", 1e-9)
    if kind == "look up":
        let_comparing_cost(10**6, monkeypatch)
    codes = make_codes(0, 700, 24, 60)
    given = pack_bits(codes) if packed else codes
    kwargs = {"packed": packed, "n_jobs": n_jobs}
    for radius in (1, 4):
        found = radius_pairs(given, radius, **kwargs)
        assert_same(found, expected_pairs(codes, radius))
        groups, kept = duplicate_groups(given, radius, **kwargs)
        np.testing.assert_array_equal(groups, expected_groups(codes, radius))
        assert kept.tolist() == [groups.tolist().index(i) for i in range(len(kept))]
        assert 1 < groups.max() + 1 < 700
    assert set(asked) == {kind}


def test_what_is_chosen(asked, monkeypatch):
    """Tables where they are hoped to be faster, and are; sorting at radius 0."""
    let_comparing_cost(230, monkeypatch)
    spread = np.random.default_rng(0).integers(0, 2, (1000, 32))
    crowded = spread.copy()
    crowded[:, 1:] = 0
    for codes, radius, kinds in (
        (spread, 0, []),
        (crowded, 0, []),
        (spread, 1, ["look up"]),
        (crowded, 1, ["compare"]),
        (spread, 16, ["compare"]),
        (spread[:50], 1, ["compare"]),
    ):
        asked.clear()
        radius_pairs(codes, radius)
        assert [*{*asked}] == kinds


@each("metric, radius", [("hamming", 12), ("jaccard", 1)])
def test_blocks_are_smaller_where_codes_have_many_pairs(metric, radius, monkeypatch):
    monkeypatch.setattr(_pairs, "BLOCK_PAIRS", 1000)
    words = np.arange(300, dtype=np.uint64)[:, None]
    sizes = [len(d) for d, _ in _pairs._pair_blocks(words, 64, radius, metric, 1)]
    assert sum(sizes) == 300 * 299 / 2
    assert max(sizes[1:]) < 1200


def test_a_chain_is_one_group_and_equal_codes_cost_nothing():
    """Ends of the chain differ in all bits; of equal codes there would be 2e9 pairs."""
    chain = np.tri(31, 30, k=-1, dtype=np.uint8)
    codes = np.concatenate([np.repeat(chain[:1], 2**16, axis=0), chain[::-1]])
    assert not duplicate_groups(codes, 1)[0].any()
    np.testing.assert_array_equal(
        np.bincount(duplicate_groups(codes, 0)[0]), [2**16 + 1] + [1] * 30
    )


@each("n_bits", [28, 64, 256])
def test_hashes_are_codes(n_bits):
    """Strings and integers of any number of bits, by bits that Python writes."""
    codes, radius = make_codes(1, 300, n_bits, 40), n_bits // 10
    integers = [int("".join(map(str, code)), 2) for code in codes]
    strings = [f"{one:0{n_bits // 4}X}" for one in integers]
    forms = [integers, strings, np.array(strings)]
    if n_bits <= 64:
        forms.append(
            [np.uint64(one) if i % 2 else one for i, one in enumerate(integers)]
        )
    forms += [np.array(integers, dtype=np.uint64)] if n_bits <= 64 else []
    expected, own = expected_pairs(codes, radius), expected_groups(codes, radius)
    firsts = [own.tolist().index(group) for group in own]
    for hashes in forms:
        assert_same(radius_pairs(hashes, radius), expected)
        distances, groups, _ = duplicate_groups(hashes, radius, return_distance=True)
        np.testing.assert_array_equal(groups, own)
        np.testing.assert_array_equal(distances, (codes != codes[firsts]).sum(axis=1))
        assert distances.dtype == np.int32
    assert distances.max() > 0 and 1 < own.max() < 299


REFUSED = {
    "Hashes must be": [
        *([-1, 2], [1.5], [True], ["ab", None]),
        *([np.int64(-1)], [np.True_], ["ab", 1], [1, "ab"]),
    ],
    "must hold . hexadecimal digits, as the first does; got '": [
        *(["abc", "a"], ["", ""], ["", "a"], ["00", "0g"], ["+1"], ["abcd", "ab  "])
    ],
}


@each("message", REFUSED)
def test_hashes_that_are_refused(message):
    for hashes in REFUSED[message]:
        with pytest.raises(ValueError, match=message):
            duplicate_groups(hashes, 1)


@each("none", [[], np.zeros(0, dtype=np.uint64), np.zeros((0, 8))])
def test_no_codes_have_no_pairs(none):
    distances, pairs = radius_pairs(none, 1)
    assert distances.shape == (0,) and pairs.shape == (0, 2)
    distances, groups, kept = duplicate_groups(none, 1, return_distance=True)
    assert distances.shape == groups.shape == kept.shape == (0,)


@each(
    "priority", [[1], [[1, 2]], [1, np.nan], [1, np.datetime64("NaT", "s")], [1, 2, 3]]
)
def test_priorities_that_are_refused(priority):
    with pytest.raises(ValueError, match="priority must hold .* 2 in all"):
        duplicate_groups(["ab", "cd"], 1, priority=np.array(priority))


def test_the_newest_is_kept_and_of_equal_ones_the_first():
    days = np.array(["2024-01-02", "2025-03-01", "2025-03-01", "NaT"], dtype="M8[D]")
    groups, kept = duplicate_groups(["0", "1", "0"], 1, priority=days[:3])
    assert groups.tolist() == [0, 0, 0] and kept.tolist() == [1]
    groups, kept = duplicate_groups([], 1, priority=[])
    assert groups.shape == kept.shape == (0,)


def test_what_is_refused():
    with pytest.raises(ValueError, match="'radius'.*-1"):
        radius_pairs([[0, 1]], -1)
    with pytest.raises(ValueError, match="packed=True"):
        duplicate_groups([[0, 2]], 1)
    with pytest.raises(ValueError, match="uint8"):
        radius_pairs([[0, 2]], 1, packed=True)
    for missing in None, pd.NA:
        with pytest.raises(ValueError, match="priority must hold values of one kind"):
            duplicate_groups([[0], [1]], 1, priority=["a", missing])


@each("radius", [np.int8(1), np.uint8(1), np.int64(1)])
@each("n", [30, 3000])
def test_radii_of_few_bits(radius, n):
    codes = make_codes(0, n, 40, n_centres=10)
    assert_same(duplicate_groups(codes, radius), duplicate_groups(codes, 1))
    assert_same(radius_pairs(codes, radius), radius_pairs(codes, 1))
