"""The inner loop of the search for few queries: 64 codes at a time, code by code.

Turning codes on their side, as `bitslice` does, takes as long as comparing them with
some queries. For fewer, the bits that differ are counted word by word, four words to a
vector, and the counts of the words of a code are brought together.
"""

from functools import reduce

from llvmlite import ir
from numba import int64, types

from skhash.utils.llvm import INT32, INT64, instruction

LANE = 64
VECTOR_WORDS = 4
_VECTOR = ir.VectorType(INT64, VECTOR_WORDS)
_VECTOR_BYTES = 8 * VECTOR_WORDS


def _near_lane(code, lane, pattern, threshold, n_words):
    """Return a bit for each of 64 codes: whether it is nearer."""
    near = INT64(0)
    for start in range(0, LANE, 4):
        four = code.at(lane, 8 * n_words * start)
        distances = _four_distances(code, four, pattern, n_words)
        nearer = code.icmp_signed("<", distances, threshold)
        bits = code.zext(code.bitcast(nearer, ir.IntType(4)), INT64)
        near = code.or_(near, code.shl(bits, INT64(start)))
    return near


def _four_distances(code, codes, pattern, n_words):
    """Return the distances of four codes, which stand one behind the other."""

    def shuffle(a, b, order):
        return code.shuffle_vector(a, b, ir.VectorType(INT32, len(order))(order))

    def join(a, b, one, other):
        return code.add(shuffle(a, b, one), shuffle(a, b, other))

    def count(vector, of_pattern):
        words = code.read(_VECTOR, codes, vector * _VECTOR_BYTES)
        own = code.read(_VECTOR, pattern, of_pattern * _VECTOR_BYTES)
        return code.use("llvm.ctpop.v4i64", code.xor(words, own))

    evens, odds = [0, 4, 2, 6], [1, 5, 3, 7]
    if n_words == 1:
        return count(0, 0)
    if n_words == 2:
        sums = join(count(0, 0), count(1, 0), evens, odds)
        return shuffle(sums, sums, [0, 2, 1, 3])
    sums, own = [], n_words // VECTOR_WORDS
    for first in range(0, 4 * own, own):
        parts = [count(first + i, i) for i in range(own)]
        sums.append(reduce(code.add, parts))
    halves = [join(*sums[i : i + 2], evens, odds) for i in (0, 2)]
    return join(*halves, [0, 1, 4, 5], [2, 3, 6, 7])


@instruction(types.UniTuple(int64, 2))
def next_near(
    code, words, first: int64, n_lanes: int64, patterns, query: int64, threshold: int64
):
    """Find the first lane, of 64 codes, in which one is nearer than the threshold.

    words : uint64 (n, n_words); first : where to begin; n_lanes : how many to look at;
    patterns : uint64 (queries, words), the words of a query, over and over, to four at
    least; query : its row.

    Returns where the lane begins, and a bit for each of its codes: whether it is
    nearer. Where none is, that is the end, and 0. Of codes that have other than 1, 2, 4
    or 8 words, none is looked at.
    """
    end, found = (code.variable(INT64(0)) for _ in range(2))
    thresholds = code.spread(threshold, VECTOR_WORDS)

    def look(n_words):
        code.store(n_lanes, end)
        with code.loop(n_lanes) as loop:
            lane_bytes = code.mul(loop.index, INT64(8 * n_words * LANE))
            lane = code.at(words.row(first), lane_bytes)
            near = _near_lane(code, lane, patterns.row(query), thresholds, n_words)
            is_near = code.icmp_unsigned("!=", near, INT64(0))
            with code.if_then(is_near, likely=False):
                code.store(loop.index, end)
                code.store(near, found)
                loop.do_break()

    programs = [
        (code.icmp_signed("==", words.shape[1], INT64(n)), lambda n=n: look(n))
        for n in (1, 2, 4, 8)
    ]
    code.choose([*programs, (None, lambda: None)])
    skipped = code.mul(code.load(end), INT64(LANE))
    return code.add(first, skipped), code.load(found)
