"""The exact algorithms, asked one by one, and codes to ask them about."""

import numpy as np
from numpy.testing import assert_array_equal

from skhash.codes import pack_bits, packed_to_words
from skhash.neighbors.search.base import Question, as_lists
from skhash.neighbors.search.brute import Brute


def made(kind, words, n_planes):
    """Return an algorithm that is ready for questions about all codes."""
    algorithm = kind(words, n_planes)
    algorithm.make(1)
    return algorithm


def nearest(algorithm, queries, k, n_jobs=None, live=None):
    return algorithm.nearest(queries, Question("nearest", k, n_jobs, live))


def within(algorithm, queries, radius, n_jobs=None, live=None):
    question = Question("within", radius, n_jobs, live)
    return as_lists(algorithm.within(queries, question))


def brute_nearest(words, n_planes, *question):
    return nearest(Brute(words, n_planes), *question)


def brute_within(words, n_planes, *question):
    return within(Brute(words, n_planes), *question)


def clustered(n, n_bits, seed=0, noise=0.06):
    """Codes near 20 others, with two equal bits; of noise=0 many codes are equal."""
    bits = np.random.default_rng(99).integers(0, 2, (20, n_bits))
    rng = np.random.default_rng(seed)
    bits = bits[rng.integers(0, 20, n)] ^ (rng.random((n, n_bits)) < noise)
    bits[:, -1] = bits[:, 0]
    return bits.astype(np.uint8)


def words_of(bits):
    return packed_to_words(pack_bits(bits))


def assert_same(found, expected):
    """Arrays, or rows of any length, are equal and of the same types."""
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, np.ndarray) and other.dtype != object:
            assert_array_equal(one, other)
            assert one.dtype == other.dtype
        else:
            assert_same(one, other)


def bytes_held(thing, known=None):
    """Add up the arrays that an object holds, with what these are views of."""
    known = {} if known is None else known
    if isinstance(thing, np.ndarray):
        while isinstance(thing.base, np.ndarray):
            thing = thing.base
        known[id(thing)] = thing.nbytes
    elif isinstance(thing, dict):
        for part in thing.values():
            bytes_held(part, known)
    elif isinstance(thing, list | tuple):
        for part in thing:
            bytes_held(part, known)
    elif hasattr(thing, "__dict__") and type(thing).__module__.startswith("skhash."):
        bytes_held(vars(thing), known)
    return sum(known.values())
