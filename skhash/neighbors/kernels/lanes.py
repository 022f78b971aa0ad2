"""The inner loop of asymmetric search: one code against eight queries at a time.

The score of a code is a sum of one number per byte, looked up in a table of 256 that
the query has for it. Tables of eight queries lie side by side, so that one vector
holds what a byte gives to each of them: a code costs one load and one addition a byte
for all eight.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from skhash.neighbors.kernels.llvm import (
    BYTE,
    FLOAT,
    INT64,
    instruction,
    int64,
    is_any,
    load,
    spread,
    store,
    vector_of,
)

LANES = 8
_VECTOR = ir.VectorType(FLOAT, LANES)
_ENTRY_BYTES = 4 * LANES
_BYTE_BYTES = 256 * _ENTRY_BYTES  # all entries for one byte of the codes


@instruction(types.boolean)
def score_lanes(
    builder,
    tables,
    packed,
    row: types.int64,
    factor: types.float32,
    term: types.float32,
    floor: types.float32,
    lanes,
):
    """Score one code for eight queries; return whether one is below its limit.

    The score is ``max(floor, factor * (sum of looked-up entries) + term)``.

    tables : float32 (n_bytes, 256, LANES); packed : uint8 (n, n_bytes); lanes : float32
    (2, LANES), the limits, and the scores, which are written.
    """
    code = packed.row(row)
    total = cgutils.alloca_once_value(builder, vector_of(FLOAT, [0.0] * LANES))
    with cgutils.for_range(builder, packed.shape[1]) as loop:
        byte = builder.zext(load(builder, code, loop.index, BYTE), INT64)
        entry = builder.add(
            builder.mul(loop.index, int64(_BYTE_BYTES)),
            builder.mul(byte, int64(_ENTRY_BYTES)),
        )
        addend = load(builder, tables.start, entry, _VECTOR)
        builder.store(builder.fadd(builder.load(total), addend), total)
    factor, term, floor = (spread(builder, one, LANES) for one in (factor, term, floor))
    score = builder.fadd(builder.fmul(builder.load(total), factor), term)
    is_low = builder.fcmp_ordered("<", score, floor)
    score = builder.select(is_low, floor, score)
    store(builder, score, lanes.start, _ENTRY_BYTES)
    limits = load(builder, lanes.start, 0, _VECTOR)
    return is_any(builder, builder.fcmp_ordered("<", score, limits))
