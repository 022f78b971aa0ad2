"""The different codes and their positions, against brute force."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skhash.codes import pack_bits, packed_to_words
from skhash.neighbors._equal_codes import EqualCodes

N_BITS = 24


def repeated(n, n_different, seed=0, hub=0.0):
    """Codes of which there are about so many different ones, one of them often."""
    rng = np.random.default_rng(seed)
    different = rng.integers(0, 2, (n_different, N_BITS), dtype=np.uint8)
    numbers = rng.integers(0, n_different, n)
    return different[np.where(rng.random(n) < hub, 0, numbers)]


def to_words(bits):
    return packed_to_words(pack_bits(bits))


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.one_of(st.integers(1, 30), st.sampled_from((255, 600))),
        "n_different": st.sampled_from((1, 2, 9, 200)),
        "hub": st.sampled_from((0.0, 0.5)),
    }
)


def some_live(n, seed):
    live = np.random.default_rng(seed).random(n) < 0.6
    live[seed % n] = True
    return live


@settings(max_examples=60, deadline=None)
@given(problem=problems, removed=st.booleans())
def test_postings(problem, removed):
    codes, n = repeated(**problem), problem["n"]
    live = some_live(n, problem["seed"]) if removed else np.ones(n, dtype=bool)
    equal = EqualCodes(to_words(codes), live if removed else None)
    different, firsts = np.unique(codes[live], axis=0, return_index=True)
    assert_array_equal(equal.firsts, np.sort(np.flatnonzero(live)[firsts]))
    assert len(equal) == len(different)
    for number, first in enumerate(equal.firsts):
        here = equal.positions[equal.starts[number] : equal.starts[number + 1]]
        same = live & (codes == codes[first]).all(axis=1)
        assert_array_equal(here, np.flatnonzero(same))
    if not removed:
        assert_array_equal(codes[equal.firsts][equal.numbers()], codes)
