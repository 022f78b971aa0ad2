"""Words with a bit a code, and answers encoded as numbers."""

import numpy as np
from llvmlite import ir
from numba import int64, uint8, uint64

from skhash.utils.kernels import inner_kernel, popcount
from skhash.utils.llvm import INT64, instruction

# An answer is a number, so that numbers are in the order of answers: the distance, or a
# row of counts by distance, above, and the position in the lower `POSITION_BITS`. Codes
# have 2^22 bits at most, and 2^40 codes of one byte fill a terabyte.
POSITION_BITS = 40
POSITION = 2**POSITION_BITS - 1
BYTES = ir.VectorType(ir.IntType(8), 64)
ONE, ALL = np.uint64(1), np.uint64(2**64 - 1)


@instruction(uint64)
def trailing_zeros(code, word: uint64):
    """Return the position of the lowest bit that is set in a word that is not 0."""
    return code.cttz(word, ir.IntType(1)(1))


@instruction(uint64)
def at_most(code, values: uint8[::1], part: int64, most: uint8):
    """Return a bit for each of 64 bytes: whether it is `most` or less.

    values : uint8, in one piece; part : which 64 of them.
    """
    values = code.read(BYTES, values.start, code.mul(part, INT64(64)))
    low = code.icmp_unsigned("<=", values, code.spread(most, 64))
    return code.bitcast(low, INT64)


@inner_kernel
def is_live(live, position):
    """Return whether a code may be found.

    live : bool (n,), or (0,) where all codes may be, here and in all kernels.
    """
    return len(live) == 0 or live[position]


@inner_kernel
def live_bits(live, first, n):
    """Return a bit for each of 64 places from `first` on: whether it has a live code.

    first : a multiple of 64; n : the number of codes.
    """
    if first + 64 <= n:
        return ~at_most(live, first >> 6, np.uint8(0)) if len(live) else ALL
    bits = np.uint64(0)
    for i in range(n - first):
        bits |= np.uint64(is_live(live, first + i)) << np.uint64(i)
    return bits


@inner_kernel
def distance_of(codes, position, queries, query):
    """Return how many bits differ.

    codes : uint64 (rows, n_words); queries : likewise, or with more words behind them.
    """
    distance = 0
    for word in range(codes.shape[1]):
        distance += np.int64(popcount(codes[position, word] ^ queries[query, word]))
    return distance
