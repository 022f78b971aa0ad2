"""The inner loop of asymmetric search: one code against eight queries at a time.

The score of a code is a sum of one number per byte, looked up in a table of 256 that
the query has for it. Tables of eight queries lie side by side, so that one vector
holds what a byte gives to each of them: a code costs one load and one addition a byte
for all eight.
"""

from llvmlite import ir
from numba import boolean, float32, int64, uint8

from skhash.neighbors.kernels.blocks import BLOCK
from skhash.utils.llvm import BYTE, FLOAT, INT64, instruction

LANES = 8
_VECTOR = ir.VectorType(FLOAT, LANES)
_ENTRY_BYTES = 4 * LANES
_BYTE_BYTES = 256 * _ENTRY_BYTES  # all entries for one byte of the codes


@instruction(boolean)
def score_lanes(
    code,
    tables: float32[:, :, ::1],
    blocks: uint8[:, :, ::1],
    position: int64,
    factor: float32,
    term: float32,
    floor: float32,
    lanes: float32[:, ::1],
):
    """Score one code for eight queries; return whether one is below its limit.

    The score is ``max(floor, factor * (sum of looked-up entries) + term)``.

    tables : float32 (n_bytes, 256, LANES); blocks : see `blocks`; lanes : float32 (2,
    LANES), the limits, and the scores, which are written.
    """
    total = code.variable(_VECTOR([0.0] * LANES))
    block, column = (
        method(position, INT64(BLOCK)) for method in (code.udiv, code.urem)
    )
    first = code.gep(blocks.row(block), [column])
    with code.loop(tables.shape[0]) as loop:
        place = code.mul(loop.index, INT64(BLOCK))
        byte = code.zext(code.read(BYTE, first, place), INT64)
        entry = code.add(
            code.mul(loop.index, INT64(_BYTE_BYTES)),
            code.mul(byte, INT64(_ENTRY_BYTES)),
        )
        addend = code.read(_VECTOR, tables.start, entry)
        code.store(code.fadd(code.load(total), addend), total)
    factor, term, floor = (code.spread(value, LANES) for value in (factor, term, floor))
    score = code.fadd(code.fmul(code.load(total), factor), term)
    is_low = code.fcmp_ordered("<", score, floor)
    score = code.select(is_low, floor, score)
    code.write(score, lanes.start, _ENTRY_BYTES)
    limits = code.read(_VECTOR, lanes.start)
    return code.is_any(code.fcmp_ordered("<", score, limits))
