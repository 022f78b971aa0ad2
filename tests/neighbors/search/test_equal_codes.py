"""Equal codes against `numpy.unique`."""

import numpy as np
from cases import each
from numpy.testing import assert_array_equal

from skhash.codes import pack_bits, packed_to_words
from skhash.neighbors.search.equal_codes import EqualCodes


@each("n", [1, 30, 600])
@each("n_different", [1, 2, 9, 200])
@each("n_bits", [24, 100])
def test_different_codes_and_their_positions(n, n_different, n_bits):
    rng = np.random.default_rng(n)
    different = rng.integers(0, 2, (n_different, n_bits), dtype=np.uint8)
    codes = different[rng.integers(0, n_different, n)]
    equal = EqualCodes(packed_to_words(pack_bits(codes)))
    _, firsts = np.unique(codes, axis=0, return_index=True)
    assert_array_equal(equal.firsts, np.sort(firsts))
    assert len(equal) == len(firsts)
    for number, first in enumerate(equal.firsts):
        here = equal.positions[equal.starts[number] : equal.starts[number + 1]]
        assert_array_equal(here, np.flatnonzero((codes == codes[first]).all(axis=1)))
    assert_array_equal(codes[equal.firsts][equal.numbers()], codes)
