"""Distances by nibbles are those of counting bits."""

import numpy as np
from cases import each
from compiled import call
from numpy.testing import assert_array_equal

from skhash.neighbors.kernels import bits, nibbles
from skhash.neighbors.search import pruned


def bits_of(*halves):
    words = np.array(halves, dtype=np.uint64)
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


@each("shuffle", {False, nibbles.has_shuffle()})
@each("n_words", [1, 2, 5])
def test_near(shuffle, n_words):
    rng = np.random.default_rng(n_words)
    codes = rng.integers(0, 2**64, (128, n_words), dtype=np.uint64)
    queries = codes[:3].copy()
    queries[1] = ~queries[1]
    distances = np.bitwise_count(queries[:, None] ^ codes).sum(axis=2, dtype=int)
    unpacked, out = pruned._rows(16 * n_words), pruned._rows(4)
    call(nibbles.unpack, pruned._blocks(codes), 0, unpacked)
    expected = codes.view(np.uint8).T
    assert_array_equal(unpacked[::2], expected & 15)
    assert_array_equal(unpacked[1::2], expected >> 4)
    choices = pruned._choices(queries)
    near = nibbles.make_near(shuffle)
    for query, own in enumerate(np.minimum(distances, 255)):
        for most in (0, int(own.min()), int(own.min()) - 1, 255):
            if most >= 0:
                out[:] = 7
                found = call(near, unpacked, choices, query, np.uint8(most), out, 2)
                assert found == (own.min() <= most)
                assert_array_equal(out[2], own)
                assert (out[[0, 1, 3]] == 7).all()
    assert distances.max() == 64 * n_words


def test_comparisons_of_bytes():
    rng = np.random.default_rng(0)
    values, reach, places = rng.integers(0, 256, (3, 3, 128), dtype=np.uint8)
    for most in (0, 100, 255):
        halves = (call(bits.at_most, values, half, np.uint8(most)) for half in (2, 3))
        assert_array_equal(bits_of(*halves), values[1] <= most)
    for more, place in ((0, 0), (60, 100), (60, 255), (255, 100)):
        least = np.uint8(more), np.uint8(place)
        halves = (
            call(nibbles.in_reach, values, 2 + half, reach, places, 4 + half, *least)
            for half in (0, 1)
        )
        last = np.minimum(reach[2].astype(int) + more, 255)
        sooner = np.minimum(values[1] + (place > places[2]).astype(int), 255)
        assert_array_equal(bits_of(*halves), sooner <= last)
