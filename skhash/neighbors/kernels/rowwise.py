"""The inner loop of the search for few queries: 64 codes at a time, code by code.

Turning codes on their side, as `bitslice` does, takes as long as comparing them with
some queries. For fewer, the bits that differ are counted word by word, four words to a
vector, and the counts of the words of a code are brought together.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from skhash.neighbors.kernels.llvm import (
    INT32,
    INT64,
    call,
    choose_program,
    instruction,
    int64,
    load,
    spread,
    step,
    vector_of,
)

LANE = 64
VECTOR_WORDS = 4
_VECTOR = ir.VectorType(INT64, VECTOR_WORDS)
_VECTOR_BYTES = 8 * VECTOR_WORDS


def _near_lane(builder, lane, pattern, threshold, n_words):
    """Return a bit for each of 64 codes: whether it is nearer."""
    near = int64(0)
    for start in range(0, LANE, 4):
        four = step(builder, lane, 8 * n_words * start)
        distances = _four_distances(builder, four, pattern, n_words)
        nearer = builder.icmp_signed("<", distances, threshold)
        bits = builder.zext(builder.bitcast(nearer, ir.IntType(4)), INT64)
        near = builder.or_(near, builder.shl(bits, int64(start)))
    return near


def _four_distances(builder, codes, pattern, n_words):
    """Return the distances of four codes, which stand one behind the other."""

    def shuffle(a, b, order):
        return builder.shuffle_vector(a, b, vector_of(INT32, order))

    def join(a, b, one, other):
        return builder.add(shuffle(a, b, one), shuffle(a, b, other))

    def count(vector, of_pattern):
        words = load(builder, codes, vector * _VECTOR_BYTES, _VECTOR)
        own = load(builder, pattern, of_pattern * _VECTOR_BYTES, _VECTOR)
        name = f"llvm.ctpop.v{VECTOR_WORDS}i64"
        return call(builder, name, builder.xor(words, own))

    evens, odds = [0, 4, 2, 6], [1, 5, 3, 7]
    if n_words == 1:
        return count(0, 0)
    if n_words == 2:
        sums = join(count(0, 0), count(1, 0), evens, odds)
        return shuffle(sums, sums, [0, 2, 1, 3])
    sums, own = [], n_words // VECTOR_WORDS
    for code in range(4):
        total = count(code * own, 0)
        for i in range(1, own):
            total = builder.add(total, count(code * own + i, i))
        sums.append(total)
    halves = [join(*sums[i : i + 2], evens, odds) for i in (0, 2)]
    return join(*halves, [0, 1, 4, 5], [2, 3, 6, 7])


@instruction(types.UniTuple(types.int64, 2))
def next_near(
    builder,
    words,
    first: types.int64,
    n_lanes: types.int64,
    patterns,
    query: types.int64,
    threshold: types.int64,
):
    """Find the first lane, of 64 codes, in which one is nearer than the threshold.

    words : uint64 (n, n_words); first : where to begin; n_lanes : how many to look at;
    patterns : uint64 (queries, words), the words of a query, over and over, to four at
    least; query : its row.

    Returns where the lane begins, and a bit for each of its codes: whether it is
    nearer. Where none is, that is the end, and 0. Of codes that have other than 1, 2, 4
    or 8 words, none is looked at.
    """
    end, found = (cgutils.alloca_once_value(builder, int64(0)) for _ in range(2))
    thresholds = spread(builder, threshold, VECTOR_WORDS)

    def look(n_words):
        builder.store(n_lanes, end)
        with cgutils.for_range(builder, n_lanes) as loop:
            lane_bytes = builder.mul(loop.index, int64(8 * n_words * LANE))
            lane = step(builder, words.row(first), lane_bytes)
            near = _near_lane(builder, lane, patterns.row(query), thresholds, n_words)
            is_near = builder.icmp_unsigned("!=", near, int64(0))
            with builder.if_then(is_near, likely=False):
                builder.store(loop.index, end)
                builder.store(near, found)
                loop.do_break()

    programs = [
        (builder.icmp_signed("==", words.shape[1], int64(n)), lambda n=n: look(n))
        for n in (1, 2, 4, 8)
    ]
    choose_program(builder, [*programs, (None, lambda: None)])
    skipped = builder.mul(builder.load(end), int64(LANE))
    return builder.add(first, skipped), builder.load(found)
