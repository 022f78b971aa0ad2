"""Parts of the search by planes; `test_brute` holds the whole against distances."""

import numpy as np
from numba import njit

from skhash.neighbors.kernels.bitslice import LANES, transpose


def test_squares_are_transposed():
    bits = np.random.default_rng(0).integers(0, 2, (LANES, 64, 64), dtype=np.uint8)

    def rows_of(squares):
        packed = np.packbits(squares, axis=2, bitorder="little")
        return np.ascontiguousarray(packed.view(np.uint64)[:, :, 0].T)

    # Other rows, before and behind, stay as they are.
    before, behind = np.full((2, 3, LANES), 7, dtype=np.uint64)
    square = np.concatenate([before, rows_of(bits), behind])

    @njit
    def turn(square):
        transpose(square, 3)

    turn(square)
    expected = rows_of(bits.transpose(0, 2, 1))
    np.testing.assert_array_equal(square, np.concatenate([before, expected, behind]))
