"""The compiled part of `_beam`."""

import numpy as np
from llvmlite import ir
from numba import float32, int32, int64, uint8, void

from skhash.utils.kernels import inner_kernel, kernel
from skhash.utils.llvm import BYTE, FLOAT, INT32, INT64, has_features, instruction

LANES = 16 if has_features("avx512f") else 8
_FLOATS, _INTS = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)
# Values of a block whose costs stay in registers, of 256 and of 16.
_PART, _SMALL_PART = 128, 16
# The number of groups of costs whose minima bound the smallest costs.
GROUPS = 64
_MASK, _GROUP = ir.IntType(GROUPS), ir.VectorType(FLOAT, GROUPS)
_STARTS = [4 * LANES * i for i in range(GROUPS // LANES)]
_LARGEST = np.finfo(np.float32).max


def _number_at(code, start, index):
    """Return the address of a number of 4 bytes."""
    return code.at(start, code.mul(index, INT64(4)))


@instruction(void)
def _extend(
    code,
    tables: float32[:, ::1],
    couplings: float32[:, ::1],
    kept: uint8[:, :, ::1],
    starts: float32[:, ::1],
    state: int64[::1],
    costs: float32[::1],
):
    """Write what the codes of a row cost with each value of their next block.

    kept : uint8 (n, width, n_blocks), the codes of each row; starts : float32 (n,
    width), their costs; state : the row, the block, how many codes the row has, and the
    first row of couplings of the block
    """
    row, block, n_kept, panel = (code.read(INT64, state.start, 8 * i) for i in range(4))
    n_values = couplings.shape[1]
    table = _number_at(code, tables.row(row), code.mul(block, n_values))

    def write(values, start, target, first, size):
        offsets = range(0, 4 * size, 4 * LANES)
        alone = _number_at(code, table, first)
        sums = [
            code.variable(code.fadd(start, code.read(_FLOATS, alone, at)))
            for at in offsets
        ]
        with code.loop(block) as before:
            value = code.zext(code.read(BYTE, code.at(values, before.index)), INT64)
            entry = code.add(code.mul(before.index, n_values), value)
            line = _number_at(code, couplings.row(code.add(panel, entry)), first)
            for total, at in zip(sums, offsets, strict=True):
                added = code.fadd(code.load(total), code.read(_FLOATS, line, at))
                code.store(added, total)
        place = _number_at(code, target, first)
        for total, at in zip(sums, offsets, strict=True):
            code.write(code.load(total), place, at)

    with code.loop(n_kept) as each:
        values = code.at(kept.row(row), code.mul(each.index, kept.strides[1]))
        start = code.read(FLOAT, _number_at(code, starts.row(row), each.index))
        start = code.spread(start, LANES)
        target = _number_at(code, costs.start, code.mul(each.index, n_values))
        rest = code.urem(n_values, INT64(_PART))
        for size, total in (_PART, n_values), (_SMALL_PART, rest):
            with code.loop(code.udiv(total, INT64(size))) as part:
                first = code.mul(part.index, INT64(size))
                write(values, start, target, first, size)


@instruction(float32)
def _bound(code, costs: float32[::1], n: int64, width: int64, least: float32[::1]):
    """Return a number that at least `width` of the first `n` costs do not exceed.

    It is the one of rank `width` among the minima of 64 groups of them, which are
    written to `least`.
    """
    first = [code.variable(code.read(_FLOATS, costs.start, at)) for at in _STARTS]
    with code.loop(code.udiv(n, INT64(GROUPS))) as loop:
        line = code.at(costs.start, code.mul(loop.index, INT64(4 * GROUPS)))
        for lowest, at in zip(first, _STARTS, strict=True):
            value, low = code.read(_FLOATS, line, at), code.load(lowest)
            is_less = code.fcmp_ordered("<", value, low)
            code.store(code.select(is_less, value, low), lowest)
    minima = [code.load(lowest) for lowest in first]
    for value, at in zip(minima, _STARTS, strict=True):
        code.write(value, least.start, at)
    ranks = [code.variable(_INTS([0] * LANES)) for _ in _STARTS]
    with code.loop(INT64(GROUPS)) as loop:
        other = code.read(FLOAT, least.start, code.mul(loop.index, INT64(4)))
        other = code.spread(other, LANES)
        for rank, value in zip(ranks, minima, strict=True):
            is_less = code.sext(code.fcmp_ordered("<", other, value), _INTS)
            code.store(code.sub(code.load(rank), is_less), rank)
    width = code.spread(code.trunc(width, INT32), LANES)
    bound = nothing = _FLOATS([-float(_LARGEST)] * LANES)
    for rank, value in zip(ranks, minima, strict=True):
        is_low = code.icmp_signed("<", code.load(rank), width)
        value = code.select(is_low, value, nothing)
        is_less = code.fcmp_ordered("<", bound, value)
        bound = code.select(is_less, value, bound)
    reduce = f"llvm.vector.reduce.fmax.v{LANES}f32"
    return code.use(reduce, bound, returned=FLOAT)


@instruction(int64)
def _find(code, costs: float32[::1], n: int64, most: float32, low: int32[::1]):
    """Write which of the first `n` costs are at most so much; return how many are.

    n : rounded up to a multiple of 64
    """
    count, most = code.variable(INT64(0)), code.spread(most, GROUPS)
    with code.loop(code.udiv(code.add(n, INT64(GROUPS - 1)), INT64(GROUPS))) as loop:
        first = code.mul(loop.index, INT64(GROUPS))
        values = code.read(_GROUP, costs.start, code.mul(first, INT64(4)))
        is_low = code.fcmp_ordered("<=", values, most)
        mask = code.variable(code.bitcast(is_low, _MASK))
        check, take, done = map(code.append_basic_block, ("check", "take", "done"))
        code.branch(check)
        code.position_at_end(check)
        bits = code.load(mask)
        code.cbranch(code.icmp_unsigned("!=", bits, _MASK(0)), take, done)
        code.position_at_end(take)
        place = code.add(first, code.cttz(bits, ir.IntType(1)(1)))
        number = code.load(count)
        target = _number_at(code, low.start, number)
        code.write(code.trunc(place, INT32), target)
        code.store(code.add(number, INT64(1)), count)
        code.store(code.and_(bits, code.sub(bits, _MASK(1))), mask)
        code.branch(check)
        code.position_at_end(done)
    return code.load(count)


@inner_kernel
def _select(costs, n, low, least, best):
    """Write the least of the first `n` costs, ascending, and where they stand.

    Return how many they are: all that there are, or `len(best)`.
    """
    width, n_best = len(best), 0
    most = _bound(costs, n, width, least) if n > width else _LARGEST
    for i in range(_find(costs, n, most, low)):
        place = low[i]
        cost = costs[place]
        if n_best < width:
            rank, n_best = n_best, n_best + 1
        elif cost < least[width - 1]:
            rank = width - 1
        else:
            continue
        while rank and least[rank - 1] > cost:
            least[rank], best[rank] = least[rank - 1], best[rank - 1]
            rank -= 1
        least[rank], best[rank] = cost, place
    return n_best


@kernel
def search_beam(tables, couplings, width, values):
    """Write the codes of rows.

    All rows get a block before the next one, so that they share its couplings.

    tables : float32 (n, n_entries), what each value of each block costs alone
    couplings : float32 (n_rows, n_values), for each block in turn what the entries of
        the blocks before it add to the costs of its values
    values : uint8 (n, n_blocks)
    """
    n, n_blocks = values.shape
    n_values = couplings.shape[1]
    shift = 8 if n_values == 256 else 4
    kept = np.empty((n, width, n_blocks), np.uint8)
    longer, starts = np.empty_like(kept), np.empty((n, width), np.float32)
    for i in range(n):
        starts[i, 0] = 0
    # Costs that stay infinite fill the last group.
    costs = np.full(width * n_values + GROUPS, np.float32(np.inf))
    least, best = np.empty(GROUPS, np.float32), np.empty(width, np.int32)
    low, state = np.empty(costs.size, np.int32), np.array([0, 0, 1, 0])
    for block in range(n_blocks):
        n_kept = state[2]
        for i in range(n):
            state[0], state[1], state[2] = i, block, n_kept
            _extend(tables, couplings, kept, starts, state, costs)
            state[2] = _select(costs, n_kept * n_values, low, least, best)
            for code in range(state[2]):
                parent, value = best[code] >> shift, best[code] & (n_values - 1)
                for before in range(block):
                    longer[i, code, before] = kept[i, parent, before]
                longer[i, code, block], starts[i, code] = value, least[code]
        kept, longer = longer, kept
        state[3] += block * n_values
    for i in range(n):
        for block in range(n_blocks):
            values[i, block] = kept[i, 0, block]
