"""The kernels of Jaccard search among codes kept as planes: one thread, no lock.

A plane holds one bit of 512 codes. The ones that a query has in common with 512 codes
are the sum of the planes where the query has a one: of fingerprints, with ones in a
few percent of their bits, that reads a few percent of the codes. The sum begins at a
number that makes it overflow exactly where enough ones are in common, as in `bitslice`.

Codes stand in the order of their counts of ones, so that a block has nearly one count.
Any other order is as exact, but slower.
"""

from collections import namedtuple

import numpy as np
from llvmlite import ir
from numba import int32, int64, uint64

from skhash.neighbors.kernels.bits import ONE, is_live, trailing_zeros
from skhash.neighbors.kernels.bitslice import LONG, SHORT, STEPS, Adder
from skhash.neighbors.kernels.heap import comes_before, replace_top
from skhash.utils.kernels import inlined_kernel, inner_kernel, kernel
from skhash.utils.llvm import INT32, INT64, instruction

BLOCK, WORDS = 512, 8  # codes of a block, and words of a plane
# How many blocks ahead planes are asked for from memory, which takes as long as two.
AHEAD = 4
_PLANE = ir.VectorType(INT64, WORDS)
# Far more than the rounding of products of shares and counts.
MARGIN = 1e-6

# Codes by place: planes (n_blocks, n_planes + 1, 8) : uint64, the last plane being 0;
# counts (n,) : their ones; positions (n,) : where they stand in the index; spans
# (n_blocks, 2) : int64, the least and the largest count of a block.
Index = namedtuple("Index", "planes counts positions spans")
# Queries: rows (n_queries, n) : int32, how many ones they have, then the planes where,
# then the plane of zeros, to whole steps; reach (n_queries,) : float64, how far away
# codes may be. Room: asked (n_queries + 1, 2) : int64, of which queries a block is
# looked at, and how many ones must be in common; sums (n_queries + 1, levels + 1, 8) :
# uint64.
Queries = namedtuple("Queries", "rows reach asked sums")
# Codes that were found: queries, distances and positions (n,).
Found = namedtuple("Found", "queries distances positions")


@kernel
def fill(words, order, first, planes):
    """Write the codes ``words[order]`` from the place `first` on, where bits are 0."""
    for i in range(len(order)):
        block, column = divmod(first + i, BLOCK)
        for word in range(words.shape[1]):
            bits = words[order[i], word]
            while bits:
                plane = 64 * word + np.int64(trailing_zeros(bits))
                bits &= bits - ONE
                planes[block, plane, column // 64] |= ONE << np.uint64(column % 64)


@kernel
def read(planes, positions, words):
    """Write the codes, of the first places, to their positions in `words`, all 0."""
    for block in range(len(planes)):
        for plane in range(planes.shape[1] - 1):
            for lane in range(WORDS):
                bits, first = planes[block, plane, lane], BLOCK * block + 64 * lane
                while bits:
                    place = first + np.int64(trailing_zeros(bits))
                    bits &= bits - ONE
                    if place >= len(positions):
                        break
                    bit = ONE << np.uint64(plane % 64)
                    words[positions[place], plane // 64] |= bit


@instruction(int64)
def _add_planes(
    code,
    levels: int,
    planes: uint64[:, :, ::1],
    block: int64,
    ahead: int64,
    rows: int32[:, ::1],
    asked: int64[:, ::1],
    sums: uint64[:, :, ::1],
):
    """Write the sums of queries, less what they need; return how many.

    Those with sums that are not negative move to the front of `asked`. Of each, `sums`
    has the digits, and at last a bit for each code: whether its sum is not negative.
    Planes of the block `ahead` are asked for from memory.
    """
    slots, step = code.variable(INT64(0)), STEPS[levels]
    with code.loop(asked.shape[0]) as loop:
        slot = code.load(slots)
        query, need = (code.read(INT64, asked.row(loop.index), i) for i in (0, 8))
        code.write(query, asked.row(slot))
        code.write(need, asked.row(slot), 8)
        bias = code.sub(INT64(2**levels), need)
        digits = [code.lshr(bias, INT64(level)) for level in range(levels)]
        digits = [code.neg(code.and_(digit, INT64(1))) for digit in digits]
        all_hit = code.sext(code.icmp_signed("==", need, INT64(0)), INT64)
        places = [
            code.variable(code.spread(word, WORDS)) for word in (*digits, all_hit)
        ]
        n_ones = code.sext(code.read(INT32, rows.row(query)), INT64)
        n_steps = code.udiv(code.add(n_ones, INT64(step - 1)), INT64(step))
        with code.loop(n_steps) as turn:
            *digits, overflow = map(code.load, places)
            adder = Adder(code, digits)
            adder.overflow = overflow
            row = code.at(rows.row(query), code.mul(turn.index, INT64(4 * step)))
            for i in range(step):
                plane = code.sext(code.read(INT32, row, 4 * (i + 1)), INT64)
                offset = code.mul(plane, planes.strides[1])
                adder.add(0, code.read(_PLANE, code.at(planes.row(block), offset)))
                code.fetch(code.at(planes.row(ahead), offset))
            adder.settle()
            digits = [digit for (digit,) in adder.waiting]
            for place, word in zip(places, [*digits, adder.overflow], strict=True):
                code.store(word, place)
        for level, place in enumerate(places):
            code.write(code.load(place), sums.row(slot), 8 * WORDS * level)
        moved = code.zext(code.is_any(code.load(places[-1])), INT64)
        code.store(code.add(slot, moved), slots)
    return code.load(slots)


@inner_kernel
def _ask(queries, low, high):
    """Choose the queries to which codes with `low` to `high` ones can be near.

    A code is if ``common >= share * (its ones + those of the query)``. Return how many
    there are.
    """
    n, rows, reach, asked = 0, queries.rows, queries.reach, queries.asked
    for q in range(len(reach)):
        ones = np.int64(rows[q, 0])
        share = (1 - min(reach[q], 1.0)) / (2 - min(reach[q], 1.0))
        likest = min(max(ones, low), high)
        asked[n, 0], asked[n, 1] = q, np.ceil(share * (ones + low) - MARGIN)
        n += min(ones, likest) >= share * (ones + likest) - MARGIN
    return n


@inlined_kernel
def _look_at(index, visits, i, queries):
    """Add the planes of a block for the queries that may be near; return how many."""
    block, ahead = visits[i], visits[min(i + AHEAD, len(visits) - 1)]
    n = _ask(queries, index.spans[block, 0], index.spans[block, 1])
    planes, rows, asked, sums = index.planes, queries.rows, queries.asked, queries.sums
    if sums.shape[1] == SHORT + 1:
        return _add_planes(SHORT, planes, block, ahead, rows, asked[:n], sums)
    return _add_planes(LONG, planes, block, ahead, rows, asked[:n], sums)


@inlined_kernel
def _take(index, live, block, queries, slot, hits, size):
    """Append the codes of a block within reach of a query; return the new size.

    A distance is the float64 next to a quotient of counts. As these are below 2^22,
    different quotients differ by more than the rounding: floats are in their order.
    """
    q, need, digits = queries.asked[slot, 0], queries.asked[slot, 1], queries.sums[slot]
    ones, reach, levels = queries.rows[q, 0], queries.reach[q], len(digits) - 1
    for lane in range(WORDS):
        bits, place = digits[levels, lane], BLOCK * block + 64 * lane
        while bits:
            i = trailing_zeros(bits)
            bits &= bits - ONE
            if place + np.int64(i) >= len(index.counts):
                break
            position = np.int64(index.positions[place + i])
            if not is_live(live, position):
                continue
            common = need
            for level in range(levels):
                common += np.int64((digits[level, lane] >> i) & ONE) << level
            union = ones + np.int64(index.counts[place + i]) - common
            distance = (union - common) / max(union, 1)
            if distance <= reach:
                hits.queries[size], hits.positions[size] = q, position
                hits.distances[size] = distance
                size += 1
    return size


@kernel
def nearest(index, live, visits, queries, hits, distances, positions):
    """Leave the nearest codes of each query in its heap, in no order.

    visits : int64, the blocks, the likest first; hits : room for a block; distances
    and positions (n_queries, k) : heaps of codes that come behind all others.
    """
    for i in range(len(visits)):
        for slot in range(_look_at(index, visits, i, queries)):
            q, size = queries.asked[slot, 0], 0
            size = _take(index, live, visits[i], queries, slot, hits, size)
            heap, places = distances[q], positions[q]
            for hit in range(size):
                distance, position = hits.distances[hit], hits.positions[hit]
                if comes_before(distance, position, heap[0], places[0]):
                    replace_top(heap, places, distance, position)
            queries.reach[q] = min(queries.reach[q], heap[0])


@kernel
def within(index, live, visits, queries, begin, hits):
    """Write codes within reach to `hits`, from the block ``visits[begin]`` on.

    Return where the next call goes on, as `hits` may be full, and how many it has.
    """
    size = 0
    for i in range(begin, len(visits)):
        if size + BLOCK * len(queries.reach) > len(hits.positions):
            return i, size
        for slot in range(_look_at(index, visits, i, queries)):
            size = _take(index, live, visits[i], queries, slot, hits, size)
    return len(visits), size
