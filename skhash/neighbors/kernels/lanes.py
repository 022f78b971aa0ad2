"""The inner loop of asymmetric search: one code against eight queries at a time.

The score of a code is a sum of one number per byte, looked up in a table of 256 that
the query has for it. Tables of eight queries lie side by side, so that one vector
holds what a byte gives to each of them: a code costs one load and one addition a byte
for all eight.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skhash.neighbors.kernels.bitslice import bytes_of

LANES = 8
_FLOAT, _INT64 = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_UNDEFINED = ir.Constant(_VECTOR, ir.Undefined)
_ENTRY_BYTES = 4 * LANES
_BYTE_BYTES = 256 * _ENTRY_BYTES  # all entries for one byte of the codes


@intrinsic
def score_lanes(
    typing_context, tables, packed, row, factor, term, floor, limits, scores
):
    """Score one code for eight queries; return whether one is below its limit.

    The score is ``max(floor, factor * (sum of looked-up entries) + term)``.

    tables : float32 (n_bytes, 256, LANES); packed : uint8 (n, n_bytes); row : int64;
    factor, term, floor : float32; limits : float32 (LANES,); scores : float32
    (LANES,), written.
    """
    signature = types.boolean(
        tables,
        packed,
        types.int64,
        types.float32,
        types.float32,
        types.float32,
        limits,
        scores,
    )

    def codegen(context, builder, signature, args):
        kinds = signature.args
        tables = bytes_of(context, builder, kinds[0], args[0])
        code = bytes_of(context, builder, kinds[1], args[1], args[2])
        packed = context.make_array(kinds[1])(context, builder, value=args[1])
        n_bytes = cgutils.unpack_tuple(builder, packed.shape)[1]
        total = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
        with cgutils.for_range(builder, n_bytes) as loop:
            byte = builder.load(builder.gep(code, [loop.index]))
            entry = builder.add(
                builder.mul(loop.index, ir.Constant(_INT64, _BYTE_BYTES)),
                builder.mul(
                    builder.zext(byte, _INT64), ir.Constant(_INT64, _ENTRY_BYTES)
                ),
            )
            addend = builder.load(_vector_at(builder, tables, entry), align=4)
            builder.store(builder.fadd(builder.load(total), addend), total)
        factor, term, floor = (_spread(builder, value) for value in args[3:6])
        score = builder.fadd(builder.fmul(builder.load(total), factor), term)
        is_low = builder.fcmp_ordered("<", score, floor)
        score = builder.select(is_low, floor, score)
        start = ir.Constant(_INT64, 0)
        limits = bytes_of(context, builder, kinds[6], args[6])
        limits = builder.load(_vector_at(builder, limits, start), align=4)
        scores = bytes_of(context, builder, kinds[7], args[7])
        builder.store(score, _vector_at(builder, scores, start), align=4)
        below = builder.fcmp_ordered("<", score, limits)
        mask = builder.bitcast(below, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))

    return signature, codegen


def _vector_at(builder, address, byte):
    return builder.bitcast(builder.gep(address, [byte]), _VECTOR.as_pointer())


def _spread(builder, value):
    """Return the vector that holds `value` in every lane."""
    single = builder.insert_element(_UNDEFINED, value, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(single, _UNDEFINED, lanes)
