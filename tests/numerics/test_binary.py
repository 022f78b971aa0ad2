"""Units on packed words against products of signs in NumPy."""

import numpy as np
import pytest
from cases import each

from skhash.codes import bits_to_signs, pack_bits, packed_to_words
from skhash.numerics._binary import BinaryUnits

# (rows, inputs, units): where tiles, bytes and words end, one less and one more.
SHAPES = [
    *((1, 1, 1), (3, 63, 7), (4, 64, 8), (5, 65, 9), (7, 1, 31), (8, 127, 32)),
    *((9, 128, 33), (2, 129, 63), (6, 200, 64), (11, 7, 65), (0, 10, 10)),
    (13, 1000, 130),
]


def words_of(bits):
    return packed_to_words(pack_bits(bits))


def unpacked(on):
    return np.unpackbits(on.view(np.uint8), axis=1)


@each("shape", SHAPES)
def test_units_are_on_where_the_product_exceeds_the_threshold(shape):
    n, n_inputs, n_units = shape
    rng = np.random.default_rng(n_inputs)
    rows = rng.integers(2, size=(n, n_inputs))
    weights = rng.integers(2, size=(n_units, n_inputs))
    product = bits_to_signs(rows, np.int64) @ bits_to_signs(weights, np.int64).T
    # Half of the thresholds are products that occur: where they tie, units are off.
    thresholds = rng.integers(-n_inputs - 1, n_inputs + 1, size=n_units)
    if n:
        thresholds[::2] = product[rng.integers(n)][::2]
    units = BinaryUnits(words_of(weights), (n_inputs - thresholds - 1) // 2)
    on = units(words_of(rows))
    assert on.shape == (n, -(-n_units // 64))
    bits = unpacked(on)
    np.testing.assert_array_equal(bits[:, :n_units], product > thresholds)
    assert not bits[:, n_units:].any()


def test_limits_that_all_or_none_keep():
    rows = np.array([[0], [2**64 - 1], [2**63]], dtype=np.uint64)
    weights = np.zeros((3, 1), dtype=np.uint64)
    on = BinaryUnits(weights, np.array([-(2**40), 64, 63]))(rows)
    np.testing.assert_array_equal(
        unpacked(on)[:, :3], [[0, 1, 1], [0, 1, 0], [0, 1, 1]]
    )


def test_rows_of_another_width():
    words = np.zeros((2, 2), dtype=np.uint64)
    with pytest.raises(ValueError, match="Weights of 1 words .* rows of 2"):
        BinaryUnits(words[:, :1], np.zeros(2, dtype=np.int64))(words)
