"""The kernels of Jaccard search over codes that are kept as planes: one thread, no lock.

A plane holds one bit of 512 codes. The ones that a query has in common with 512 codes
are the sum of the planes where the query has a one: of fingerprints, with ones in a
few percent of their bits, that reads a few percent of the codes. The sum begins at a
number that makes it overflow exactly where enough ones are in common, as in `bitslice`.

Codes stand in the order of their counts of ones, so that a block has nearly one count.
Any other order is as exact, but slower.
"""

from collections import namedtuple
from functools import reduce

import numpy as np
from llvmlite import ir
from numba import int32, int64, uint64

from skhash.neighbors.kernels.bits import ONE, is_live, trailing_zeros
from skhash.neighbors.kernels.bitslice import (
    LANES,
    LONG,
    SHORT,
    STEPS,
    Adder,
    transpose,
)
from skhash.neighbors.kernels.heap import comes_before, replace_top
from skhash.utils.kernels import inlined_kernel, inner_kernel, kernel
from skhash.utils.llvm import INT32, INT64, instruction

BLOCK, WORDS = 512, 8  # codes of a block, and words of a plane
SPAN = 64 * LANES  # codes that are transposed at a time
_VECTOR = ir.VectorType(INT64, LANES)
# Far more than products of shares and counts round by.
MARGIN = 1e-6

# Codes by place: planes (n_blocks, n_planes + 1, 8) : uint64, the last plane being 0;
# counts (n,) : their ones; positions (n,) : where they stand in the index; spans
# (n_blocks, 2) : int64, the least and the largest count of a block.
Index = namedtuple("Index", "planes counts positions spans")
# Queries: ones (n_queries,) : int64, how many; rows (n_queries, n) : int32, the planes
# where they have one, and then the plane of zeros, to whole steps; reach and shares
# (n_queries,) : float64, see `_share`. Room: asked and needs (n_queries + 1,) : int64;
# sums (n_queries + 1, levels + 1, 8) : uint64.
Queries = namedtuple("Queries", "ones rows reach shares asked needs sums")
# Codes that were found: queries, distances and positions (n,).
Found = namedtuple("Found", "queries distances positions")


@kernel
def fill(words, order, first, planes, square):
    """Write the codes ``words[order]`` to the places from `first` on, and no others.

    square : uint64 (65, LANES), room
    """
    stop, n_planes = first + len(order), planes.shape[1] - 1
    for start in range(first // SPAN * SPAN, stop, SPAN):
        for word in range(words.shape[1]):
            square[:] = 0
            for place in range(max(start, first), min(start + SPAN, stop)):
                lane, i = (place - start) // 64, (place - start) % 64
                square[i, lane] = words[order[place - first], word]
                square[64, lane] |= ONE << np.uint64(i)
            transpose(square, 0)
            for i in range(min(64, n_planes - 64 * word)):
                for lane in range(LANES):
                    block, column = start // BLOCK, start % BLOCK // 64 + lane
                    known = planes[block, 64 * word + i, column] & ~square[64, lane]
                    planes[block, 64 * word + i, column] = known | square[i, lane]


@kernel
def read(planes, words, square):
    """Write the codes of the first places, as `fill` takes them, to `words`."""
    n_planes = planes.shape[1] - 1
    for start in range(0, len(words), SPAN):
        for word in range(words.shape[1]):
            square[:] = 0
            for i in range(min(64, n_planes - 64 * word)):
                for lane in range(LANES):
                    block, column = start // BLOCK, start % BLOCK // 64 + lane
                    square[i, lane] = planes[block, 64 * word + i, column]
            transpose(square, 0)
            for place in range(start, min(start + SPAN, len(words))):
                lane, i = (place - start) // 64, (place - start) % 64
                words[place, word] = square[i, lane]


def _make_add(levels):
    """Build the function that adds planes, for sums of so many digits."""
    step = STEPS[levels]

    @instruction(int64)
    def add(
        code,
        planes: uint64[:, :, ::1],
        block: int64,
        ahead: int64,
        ones: int64[::1],
        rows: int32[:, ::1],
        asked: int64[::1],
        needs: int64[::1],
        sums: uint64[:, :, ::1],
    ):
        """Write the sums of some queries, less what they need; return how many.

        Those with sums that are not negative move to the front of `asked` and `needs`.
        Of each, `sums` has the digits, and at last a bit for each code: whether its sum
        is not negative.
        """
        slots = code.variable(INT64(0))
        with code.loop(asked.shape[0]) as loop:
            slot = code.load(slots)
            query, need = (code.read(INT64, a.row(loop.index)) for a in (asked, needs))
            code.write(query, asked.row(slot))
            code.write(need, needs.row(slot))
            n_ones = code.read(INT64, ones.row(query))
            n_steps = code.udiv(code.add(n_ones, INT64(step - 1)), INT64(step))
            task = rows.row(query), n_steps, need, sums.row(slot)
            blocks = planes.row(block), planes.row(ahead)
            hits = [
                add_lanes(code, *blocks, *task, 8 * i) for i in range(0, WORDS, LANES)
            ]
            moved = code.zext(reduce(code.or_, map(code.is_any, hits)), INT64)
            code.store(code.add(slot, moved), slots)
        return code.load(slots)

    def add_lanes(code, block, ahead, row, n_steps, need, sums, first):
        """Add the planes in as many lanes as a vector has, from a byte on."""
        start, none = code.sub(INT64(2**levels), need), _VECTOR([0] * LANES)
        places = []
        for level in range(levels):
            digit = code.and_(code.lshr(start, INT64(level)), INT64(1))
            places.append(code.variable(code.spread(code.neg(digit), LANES)))
        everything = code.icmp_signed("==", need, INT64(0))
        places.append(code.variable(code.spread(code.sext(everything, INT64), LANES)))
        with code.loop(n_steps) as loop:
            *digits, overflow = map(code.load, places)
            adder = Adder(code, digits)
            adder.overflow = overflow
            chosen = code.at(row, code.mul(loop.index, INT64(4 * step)))
            for i in range(step):
                place = code.sext(code.read(INT32, chosen, 4 * i), INT64)
                offset = code.mul(place, INT64(8 * WORDS))
                adder.add(0, code.read(_VECTOR, code.at(block, offset), first))
                if first == 0:
                    code.fetch(code.at(ahead, offset))
            adder.settle()
            digits = [digit for (digit,) in adder.waiting]
            for place, digit in zip(places, [*digits, adder.overflow], strict=True):
                code.store(digit, place)
        for level, place in enumerate(places):
            code.write(code.load(place), sums, 8 * WORDS * level + first)
        return code.load(places[-1])

    return add


_add_few, _add_many = _make_add(SHORT), _make_add(LONG)


@inner_kernel
def distance(common, ones, others):
    """Return the Jaccard distance of two codes.

    It is the float64 next to the quotient. Quotients of counts below 2^22 differ by
    more than that rounds, so floats are in the order of quotients, and equal if they
    are.
    """
    union = ones + others - common
    return (union - common) / union if union > 0 else 0.0


@inner_kernel
def _share(reach):
    """Return which share of the ones of two codes must be common, counted once.

    ``1 - common / union <= reach`` is ``common >= share * (ones + others)``.
    """
    return (1 - reach) / (2 - reach) if reach < 1 else 0.0


@inner_kernel
def _ask(ones, shares, low, high, asked, needs):
    """Write the queries that codes with `low` to `high` ones can be near to.

    And how many ones these must have in common at least; return how many queries.
    """
    n = 0
    for q in range(len(ones)):
        likest = min(max(ones[q], low), high)
        asked[n] = q
        needs[n] = np.ceil(shares[q] * (ones[q] + low) - MARGIN)
        n += min(ones[q], likest) >= shares[q] * (ones[q] + likest) - MARGIN
    return n


@inlined_kernel
def _look_at(index, block, ahead, queries):
    """Add the planes of a block for the queries that may be near; return how many."""
    low, high = index.spans[block, 0], index.spans[block, 1]
    n = _ask(queries.ones, queries.shares, low, high, queries.asked, queries.needs)
    asked, needs = queries.asked[:n], queries.needs[:n]
    task = block, ahead, queries.ones, queries.rows, asked, needs, queries.sums
    if queries.sums.shape[1] == SHORT + 1:
        return _add_few(index.planes, *task)
    return _add_many(index.planes, *task)


@inlined_kernel
def _take(index, live, block, queries, slot, found, size):
    """Append the codes of a block within reach of a query; return the new size."""
    q, need, digits = queries.asked[slot], queries.needs[slot], queries.sums[slot]
    ones, reach, levels = queries.ones[q], queries.reach[q], len(digits) - 1
    counts, positions = index.counts, index.positions
    for lane in range(WORDS):
        bits, first = digits[levels, lane], BLOCK * block + 64 * lane
        while bits:
            i = trailing_zeros(bits)
            bits &= bits - ONE
            place = first + np.int64(i)
            if place >= len(counts):
                break
            common = need
            for level in range(levels):
                common += np.int64((digits[level, lane] >> i) & ONE) << level
            away = distance(common, ones, np.int64(counts[place]))
            position = np.int64(positions[place])
            if away <= reach and is_live(live, position):
                found.queries[size] = q
                found.distances[size] = away
                found.positions[size] = position
                size += 1
    return size


@kernel
def nearest(index, live, visits, queries, found, distances, positions):
    """Leave the nearest codes of each query in its heap, in no order.

    visits : int64, the blocks, the likest first; found : room for a block; distances
    and positions (n_queries, k) : heaps of codes that come behind all others.
    """
    for i in range(len(visits)):
        block, ahead = visits[i], visits[min(i + 1, len(visits) - 1)]
        for slot in range(_look_at(index, block, ahead, queries)):
            q = queries.asked[slot]
            n, own, places = 0, distances[q], positions[q]
            n = _take(index, live, block, queries, slot, found, n)
            for hit in range(n):
                away, position = found.distances[hit], found.positions[hit]
                if comes_before(away, position, own[0], places[0]):
                    replace_top(own, places, away, position)
            if n:
                queries.reach[q], queries.shares[q] = own[0], _share(own[0])


@kernel
def within(index, live, visits, queries, begin, found):
    """Write codes within reach to `found`, from the block ``visits[begin]`` on.

    Return where the next call goes on, as `found` may be full, and how many it has.
    """
    size, n_queries = 0, len(queries.ones)
    for q in range(n_queries):
        queries.shares[q] = _share(queries.reach[q])
    for i in range(begin, len(visits)):
        if size + BLOCK * n_queries > len(found.positions):
            return i, size
        block, ahead = visits[i], visits[min(i + 1, len(visits) - 1)]
        for slot in range(_look_at(index, block, ahead, queries)):
            size = _take(index, live, block, queries, slot, found, size)
    return len(visits), size
