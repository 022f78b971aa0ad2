"""The inner loop of the search for few queries: 64 codes at a time, code by code.

Turning codes on their side, as `bitslice` does, takes as long as comparing them with
some queries. For fewer, the bits that differ are counted word by word, four words to a
vector, and the counts of the words of a code are brought together.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skhash.neighbors.kernels.bitslice import bytes_of, load, spread

LANE = 64
VECTOR_WORDS = 4
_INT64 = ir.IntType(64)
_VECTOR = ir.VectorType(_INT64, VECTOR_WORDS)
_VECTOR_BYTES = 8 * VECTOR_WORDS


def _near_lane(builder, lane, pattern, threshold, n_words):
    """Return a bit for each of 64 codes: whether it is nearer."""
    near = ir.Constant(_INT64, 0)
    for start in range(0, LANE, 4):
        four = builder.gep(lane, [ir.Constant(_INT64, 8 * n_words * start)])
        distances = _four_distances(builder, four, pattern, n_words)
        nearer = builder.icmp_signed("<", distances, threshold)
        bits = builder.zext(builder.bitcast(nearer, ir.IntType(4)), _INT64)
        near = builder.or_(near, builder.shl(bits, ir.Constant(_INT64, start)))
    return near


def _four_distances(builder, codes, pattern, n_words):
    """Return the distances of four codes, which stand one behind the other."""

    def shuffle(a, b, order):
        kind = ir.VectorType(ir.IntType(32), VECTOR_WORDS)
        return builder.shuffle_vector(a, b, ir.Constant(kind, order))

    def join(a, b, one, other):
        return builder.add(shuffle(a, b, one), shuffle(a, b, other))

    def count(vector, of_pattern):
        byte = ir.Constant(_INT64, vector * _VECTOR_BYTES)
        words = load(builder, codes, byte, _VECTOR)
        byte = ir.Constant(_INT64, of_pattern * _VECTOR_BYTES)
        differ = builder.xor(words, load(builder, pattern, byte, _VECTOR))
        return builder.call(popcount, [differ])

    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    name = f"llvm.ctpop.v{VECTOR_WORDS}i64"
    popcount = cgutils.get_or_insert_function(builder.module, kind, name)

    evens, odds = [0, 4, 2, 6], [1, 5, 3, 7]
    if n_words == 1:
        return count(0, 0)
    if n_words == 2:
        sums = join(count(0, 0), count(1, 0), evens, odds)
        return shuffle(sums, sums, [0, 2, 1, 3])
    sums = []
    for code in range(4):
        own = n_words // VECTOR_WORDS
        total = count(code * own, 0)
        for i in range(1, own):
            total = builder.add(total, count(code * own + i, i))
        sums.append(total)
    halves = [join(*sums[i : i + 2], evens, odds) for i in (0, 2)]
    return join(*halves, [0, 1, 4, 5], [2, 3, 6, 7])


def _make_next_near(n_words: int):
    """Build the function for codes of 1, 2, 4 or 8 words."""

    @intrinsic
    def next_near(typing_context, words, first, n_lanes, patterns, query, threshold):
        """Find the first lane, of 64 codes, in which one is nearer than the threshold.

        words : uint64 (n, n_words); first : int64, where to begin; n_lanes : int64, how
        many to look at; patterns : uint64 (queries, words), the words of a query, over
        and over, to four at least; query : int64, its row; threshold : int64.

        Returns where the lane begins, and a bit for each of its codes: whether it is
        nearer. Where none is, that is the end, and 0.
        """
        signature = types.UniTuple(types.int64, 2)(
            words, types.int64, types.int64, patterns, types.int64, types.int64
        )

        def codegen(context, builder, signature, args):
            words, first, n_lanes, patterns, query, threshold = args
            codes = bytes_of(context, builder, signature.args[0], words, first)
            pattern = bytes_of(context, builder, signature.args[3], patterns, query)
            threshold = spread(builder, threshold)
            lane_bytes = ir.Constant(_INT64, 8 * n_words * LANE)
            zero = ir.Constant(_INT64, 0)
            end, found = (
                cgutils.alloca_once_value(builder, x) for x in (n_lanes, zero)
            )
            with cgutils.for_range(builder, n_lanes) as loop:
                lane = builder.gep(codes, [builder.mul(loop.index, lane_bytes)])
                near = _near_lane(builder, lane, pattern, threshold, n_words)
                with builder.if_then(
                    builder.icmp_unsigned("!=", near, zero), likely=False
                ):
                    builder.store(loop.index, end)
                    builder.store(near, found)
                    loop.do_break()
            skipped = builder.mul(builder.load(end), ir.Constant(_INT64, LANE))
            parts = builder.add(first, skipped), builder.load(found)
            return context.make_tuple(builder, signature.return_type, parts)

        return signature, codegen

    return next_near


next_near_1, next_near_2, next_near_4, next_near_8 = map(_make_next_near, (1, 2, 4, 8))
