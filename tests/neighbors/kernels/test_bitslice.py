"""Parts of the search by planes; `test_blocks` holds the whole against distances."""

import numpy as np
import pytest
from numba import njit

from skhash.neighbors.kernels.bitslice import WAYS, transpose


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_squares_are_transposed(way):
    n_lanes = WAYS[way].lanes
    bits = np.random.default_rng(0).integers(0, 2, (n_lanes, 64, 64), dtype=np.uint8)

    def rows_of(squares):
        packed = np.packbits(squares, axis=2, bitorder="little")
        return np.ascontiguousarray(packed.view(np.uint64)[:, :, 0].T)

    # Other rows, before and behind, stay as they are.
    before, behind = np.full((2, 3, n_lanes), 7, dtype=np.uint64)
    square = np.concatenate([before, rows_of(bits), behind])

    @njit
    def turn(square):
        transpose(square, 3, way)

    turn(square)
    expected = rows_of(bits.transpose(0, 2, 1))
    np.testing.assert_array_equal(square, np.concatenate([before, expected, behind]))
