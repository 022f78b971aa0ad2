"""Every way to compare blocks of codes, against all distances, and its choice."""

import numpy as np
import pytest
from searches import brute_nearest, brute_within

from skhash.codes import hamming_distances, pack_bits, packed_to_words
from skhash.neighbors.kernels.bitslice import (
    LONG,
    PLAIN,
    SHORT,
    TERNARY,
    WAYS,
    WIDE,
    possible_ways,
)
from skhash.neighbors.search import blocks

N_QUERIES = 40
HAS_CHOICE = pytest.mark.skipif(
    len(possible_ways()) == 1, reason="This machine has one way only."
)


@pytest.fixture(params=sorted({PLAIN, *possible_ways()}))
def way(request, monkeypatch):
    monkeypatch.setattr(blocks, "fastest_way", lambda program: request.param)
    return request.param


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the fastest way is remembered; nobody has asked for one yet."""
    monkeypatch.delenv("SKHASH_VECTOR_BITS", raising=False)
    path = tmp_path / "way.txt"
    monkeypatch.setattr(blocks, "_place", lambda program: path)
    blocks.fastest_way.cache_clear()
    yield path
    blocks.fastest_way.cache_clear()


# A program each, and lengths that leave planes over.
@pytest.mark.parametrize("n_bits", [3, 64, 72, 128, 200, 256, 520])
@pytest.mark.parametrize("n", [1, 255, 512, 513, 1400])
def test_all_ways_find_the_same(way, n_bits, n):
    random = np.random.default_rng(n + n_bits)
    # Some near others, so that there are ties, and bits that are seldom set.
    codes = random.random((n, n_bits)) < random.choice([0.02, 0.5], size=n_bits)
    queries = codes[random.integers(n, size=N_QUERIES)] ^ (
        random.random((N_QUERIES, n_bits)) < 0.05
    )
    packed, asked = pack_bits(codes), pack_bits(queries)
    distances = hamming_distances(asked, packed)
    order = np.argsort(distances, axis=1, kind="stable")
    in_order = np.take_along_axis(distances, order, axis=1)
    arguments = packed_to_words(packed), 8 * packed.shape[1], packed_to_words(asked)

    k = min(n, 7)
    found, positions = brute_nearest(*arguments, k, 1)
    np.testing.assert_array_equal(found, in_order[:, :k])
    np.testing.assert_array_equal(positions, order[:, :k])

    radius = int(np.median(in_order[:, k // 2]))
    found, positions = brute_within(*arguments, radius, 1)
    for query in range(N_QUERIES):
        n_near = np.count_nonzero(distances[query] <= radius)
        np.testing.assert_array_equal(found[query], in_order[query, :n_near])
        np.testing.assert_array_equal(positions[query], order[query, :n_near])


@HAS_CHOICE
@pytest.mark.parametrize("program", [64, SHORT, LONG])
def test_the_fastest_way_is_measured_by_the_second_process(program, place, monkeypatch):
    assert blocks.fastest_way(program) == WIDE
    assert place.read_text() == blocks.NOT_MEASURED
    blocks.fastest_way.cache_clear()
    assert blocks.fastest_way(program) in possible_ways()
    measured = int(place.read_text())
    assert measured in possible_ways()
    # A third one, which does not measure.
    blocks.fastest_way.cache_clear()
    monkeypatch.setattr(blocks, "measured_way", None)
    place.write_text(str({TERNARY: WIDE, WIDE: TERNARY}[measured]))
    assert blocks.fastest_way(program) != measured
    assert [*place.parent.iterdir()] == [place]


@HAS_CHOICE
@pytest.mark.parametrize("found", [b"", b"\xff", b"-1", b"0", b"99"])
def test_what_was_measured_and_makes_no_sense_is_measured_again(found, place):
    place.write_bytes(found)
    assert blocks.fastest_way(64) in possible_ways()
    assert place.read_bytes() != found


@HAS_CHOICE
@pytest.mark.parametrize("broken", ["folder is missing", "nowhere to write"])
def test_a_way_is_found_where_none_can_be_remembered(broken, place, monkeypatch):
    nowhere = None if broken == "nowhere to write" else place.parent / "none" / "way"
    monkeypatch.setattr(blocks, "_place", lambda program: nowhere)
    assert blocks.fastest_way(64) == WIDE
    assert not [*place.parent.iterdir()]


@pytest.mark.parametrize("slow", possible_ways())
def test_the_faster_way_is_the_one_that_takes_less_time(slow, monkeypatch):
    now = 0.0

    def count_hits(words, work):
        nonlocal now
        now += 2.0 if work.way == slow else 1.0

    monkeypatch.setattr(blocks, "perf_counter", lambda: now)
    monkeypatch.setattr(blocks.kernels, "count_hits", count_hits)
    found = blocks.measured_way(64, possible_ways())
    assert found != slow or len(possible_ways()) == 1


def test_a_way_can_be_asked_for(place, monkeypatch):
    for way in possible_ways():
        monkeypatch.setenv("SKHASH_VECTOR_BITS", str(64 * WAYS[way].lanes))
        blocks.fastest_way.cache_clear()
        assert blocks.fastest_way(64) == way
    assert not place.exists()
    monkeypatch.setenv("SKHASH_VECTOR_BITS", "")
    blocks.fastest_way.cache_clear()
    assert blocks.fastest_way(64) in possible_ways()
    monkeypatch.setenv("SKHASH_VECTOR_BITS", "1024")
    blocks.fastest_way.cache_clear()
    with pytest.raises(ValueError, match=r"SKHASH_VECTOR_BITS='1024'.*256"):
        blocks.fastest_way(64)
