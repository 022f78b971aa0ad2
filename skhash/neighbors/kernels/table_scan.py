"""The kernels of asymmetric search by bounds, on blocks of codes.

The score of a code is ``factor * total + term``, see `asymmetric`, and its total a sum
of table entries, one a byte. This scan adds up bytes instead: how many steps an entry
lies above the least of its table, rounded down. As many steps above the least
of all sums lies the total, or higher, so that a code whose steps are too many cannot be
among those that are looked for. All others are scored as `asymmetric` does, to the last
bit.

Terms and factors are those of the level of the code, see `law`, whose highest byte has
a table too: the least that its levels add. With a term alone, that is the term, and
``total + term`` is bounded by the sum of steps. With factors, a score of at most s is
``total + (term - s) / factor <= 0``, and so it is the second summand.

Arguments of all kernels:

* codes: `Codes`; live: see `bits.is_live`;
* queries: float32 (n_queries, n_bytes, 256), the tables of `Decoder.tables`;
* n_entries: int, those of a table of steps for a byte: ENTRIES or ENTRIES_OF_BITS.
"""

from collections import namedtuple

import numpy as np

from skhash.neighbors.kernels.bits import ONE, is_live, trailing_zeros
from skhash.neighbors.kernels.blocks import BLOCK, LINE, level_at
from skhash.neighbors.kernels.byte_tables import (
    ENTRIES,
    ENTRIES_OF_BITS,
    MOST,
    extremes,
    find_low,
    find_low_of_bits,
    write_steps,
)
from skhash.neighbors.kernels.heap import comes_before, replace_top, sort_heap
from skhash.neighbors.kernels.law import factor_and_term
from skhash.neighbors.kernels.nibbles import fetch
from skhash.utils.kernels import inlined_kernel, inner_kernel, kernel

# Codes in blocks: blocks (n_blocks, n_rows, 512) : uint8, their bytes, and behind them
# those of the levels, if they have some; n : their number; n_bytes : those of a code;
# law : `Law`; last : the largest level; least, most : 1 / factor of the shortest and of
# the longest decoded vector, or 0. Of levels, the zeros behind their bits are a part.
# has_zeros : bool, whether a code may have level 0.
Codes = namedtuple("Codes", "blocks n n_bytes law last least most has_zeros")
# Lists of codes in the order of their first byte and another one: other : int, which;
# values (2, n_lists) : uint8, of both, those of the codes of the first block, then of
# the second, and so on; items (n_lists, 2) : float32, terms and factors; starts
# (n_blocks + 1,) : int64, where those of a block begin.
Lists = namedtuple("Lists", "other values items starts")
# Memory to work in, for a chunk of queries: bounds (n_rows, 256) and fewer (n_rows,
# n_entries) : float32; lowest (2 * n_rows,) : float32; tables : the steps; scales
# (queries, 4) : float64, the least sum, what makes steps of a score, the error of a
# total, and the score that the tables are for; found (8,) : uint64.
Work = namedtuple("Work", "bounds fewer lowest tables scales found")

_ZERO, _SIXTEEN = np.float32(0), np.float32(16)
# Codes of a sampled block, from which a query learns how far its neighbours may be.
SAMPLED_CODES = 64
# The blocks after which steps are made finer, as neighbours have been found, and by
# what this number grows each time.
FIRST_STAGE, NEXT_STAGE = 4, 4
# How many blocks ahead codes are fetched.
AHEAD = 2
# Numbers of steps are made so much smaller, which is more than rounding adds.
_SHY = 1 - 2.0**-20
# The largest relative error of one operation on float32 numbers.
_ROUNDING = 2.0**-24
# The largest absolute error of one that ends below the normal numbers, and a number
# that is still far from infinity when some are added to it or multiplied with 2.
_SMALLEST, _LARGEST = 2.0**-149, 2.0**125


@kernel
def least_by_block(lists, tables, scores):
    """Write the least score of the lists of each block.

    That is the score of a code that consists of the two bytes.

    tables : those of a query; scores (n_blocks,) : float32
    """
    first, other = tables[0], tables[lists.other]
    values, items, starts = lists.values, lists.items, lists.starts
    list_scores = np.empty(len(items), dtype=np.float32)
    for i in range(len(list_scores)):  # apart from the next loop, in vectors
        total = first[values[0, i]] + other[values[1, i]]
        list_scores[i] = items[i, 1] * total + items[i, 0]
    for block in range(len(scores)):
        least = list_scores[starts[block]]
        for i in range(starts[block] + 1, starts[block + 1]):
            least = min(least, list_scores[i])
        scores[block] = least


@inlined_kernel
def _from_total(codes, n_bytes, position, total):
    """Return the score of a code, whose entries add up to `total`."""
    factor, term = factor_and_term(codes.law, level_at(codes.blocks, n_bytes, position))
    return max(codes.law.floor, factor * total + term)


@inlined_kernel
def _score(codes, query, position):
    """Return the score of a code, as the kernels of `asymmetric` compute it."""
    rows, column = codes.blocks[position // BLOCK], position % BLOCK
    total = _ZERO
    for byte in range(len(query)):
        total += query[byte, rows[byte, column]]
    return _from_total(codes, len(query), position, total)


@inner_kernel
def _work(codes, n_queries, n_entries):
    """Return memory to work in."""
    n_rows = min(codes.blocks.shape[1], codes.n_bytes + 1)
    # A vector that crosses a line of the cache is read at half the speed.
    room = np.empty(n_queries * n_rows * n_entries + LINE, dtype=np.uint8)
    tables = room[-room.ctypes.data % LINE :][: len(room) - LINE]
    return Work(
        bounds=np.empty((n_rows, 256), dtype=np.float32),
        fewer=np.empty((n_rows, n_entries), dtype=np.float32),
        lowest=np.empty(2 * n_rows, dtype=np.float32),
        tables=tables.reshape(n_queries, n_rows, n_entries),
        scales=np.empty((n_queries, 4)),
        found=np.empty(BLOCK // 64, dtype=np.uint64),
    )


@inner_kernel
def _bound_level(codes, level, score, largest):
    """Return what a level adds to a total, for scores of at most `score`.

    largest : beyond all totals, for a level whose score the total does not change
    """
    factor, term = factor_and_term(codes.law, level)
    if codes.law.times == _ZERO:
        return term
    term -= score
    if factor > 0:
        return term / factor
    # As far below the others as `_reach` sinks down to the score of this level.
    is_near = codes.has_zeros and term <= 0
    return np.float32(term * codes.least - largest if is_near else largest)


@inner_kernel
def _bound_rows(codes, query, score, bounds):
    """Write lower bounds of each row's summands, for scores of at most `score`.

    Return a bound of the rounding errors of totals, sums with a term, and bounds.
    """
    n_bytes, largest = len(query), 0.0
    for byte in range(n_bytes):
        for value in range(256):
            bounds[byte, value] = query[byte, value]
        lowest, highest = extremes(bounds, 256 * byte, 256)
        largest += max(abs(lowest), abs(highest))
    if len(bounds) > n_bytes:
        # Within the levels of a byte, bounds rise or fall, but for that of level 0.
        size = 1 << 8 * (codes.blocks.shape[1] - n_bytes - 1)
        least = 1 << codes.law.spare
        for byte in range(256):
            first, last = min(byte * size, codes.last), byte * size + size - 1
            bound = _bound_level(codes, first, score, largest)
            if size > 1:
                for level in (max(first, least), min(last, codes.last)):
                    bound = min(bound, _bound_level(codes, level, score, largest))
            bounds[n_bytes, byte] = bound
        lowest, highest = extremes(bounds, 256 * n_bytes, 256)
        largest += max(abs(lowest), abs(highest))
    return 4 * (len(bounds) + 2) * (_ROUNDING * largest + _SMALLEST)


@inner_kernel
def _halve(bounds, halves):
    """Write bounds for the halves of each value, the higher first."""
    for row in range(len(bounds)):
        for half in range(16):
            halves[row, 16 + half] = 0
        for value in range(256):
            halves[row, 16 + (value & 15)] += bounds[row, value] / _SIXTEEN
        for other in range(2):
            for half in range(16):
                halves[row, 16 * other + half] = np.inf
            for value in range(256):
                high, low = value >> 4, 16 + (value & 15)
                target, by = (low, high) if other else (high, low)
                rest = bounds[row, value] - halves[row, by]
                halves[row, target] = min(halves[row, target], rest)


@inner_kernel
def _take_least(bounds, pairs):
    """Write bounds for pairs of values."""
    for row in range(len(bounds)):
        for pair in range(pairs.shape[1]):
            least, other = bounds[row, 2 * pair], bounds[row, 2 * pair + 1]
            pairs[row, pair] = min(least, other)


@inner_kernel
def _find_low(blocks, block, work, q, limit):
    """Call the function for the tables of a query."""
    if ENTRIES != ENTRIES_OF_BITS:
        if work.tables.shape[2] == ENTRIES_OF_BITS:
            return find_low_of_bits(blocks, block, work.tables, q, limit, work.found)
    return find_low(blocks, block, work.tables, q, limit, work.found)


@inner_kernel
def _limit(reach, scale):
    """Return the most steps of a code whose sum is at most `reach`, or -1."""
    lowest, times = scale[0], scale[1]
    steps = (reach - lowest) * times
    return int(min(np.floor(steps * (1 + 1e-9) + 1e-9), MOST - 1.0))


@inner_kernel
def _reach(codes, score, scale):
    """Return the largest sum of a code whose score is at most `score`.

    With factors, that is nothing by the tables for this score, and by those for a
    larger one as much less as ``1 / factor`` times the difference.
    """
    if codes.law.times != _ZERO:
        return scale[2] - (scale[3] - score) * codes.least
    return score + scale[2]


@inner_kernel
def _make_steps(codes, query, score, work, q):
    """Write the tables of a query for scores of at most `score`; return the limit."""
    if score < codes.law.floor:
        return -1
    slack, most = 0.0, score
    if codes.law.times != _ZERO:
        slack = 32 * _ROUNDING * (1 + abs(score))
        most = (2 + abs(score)) * codes.most
    # Bounds beyond float32 would exclude no code.
    if score == np.inf or most > _LARGEST:
        for row in range(work.tables.shape[1]):
            for entry in range(work.tables.shape[2]):
                work.tables[q, row, entry] = 0
        for i in range(work.scales.shape[1]):
            work.scales[q, i] = 0
        return 0
    bounds, lowest = work.bounds, work.lowest
    error, n_rows = _bound_rows(codes, query, score + slack, bounds), len(bounds)
    n_tables, size = n_rows, work.tables.shape[2]
    if ENTRIES != ENTRIES_OF_BITS:
        if size == ENTRIES_OF_BITS:
            _halve(bounds, work.fewer)
            n_tables, size = 2 * n_rows, 16
        else:
            _take_least(bounds, work.fewer)
        bounds = work.fewer
    least_sum = 0.0
    for i in range(n_tables):
        lowest[i], _ = extremes(bounds, size * i, size)
        least_sum += lowest[i]
    work.scales[q, 2], work.scales[q, 3] = error, score
    reach = _reach(codes, score, work.scales[q])
    spread = max(reach - least_sum, error)
    times = min((MOST - 1) / spread, _LARGEST) if spread > 0 else 0.0
    few = np.float32(times * _SHY)
    for i in range(n_tables):
        write_steps(bounds, size * i, size, lowest[i], few, work.tables, q)
    work.scales[q, 0], work.scales[q, 1] = least_sum, times
    return _limit(reach, work.scales[q])


@inner_kernel
def _first_limit(codes, live, query, step, few):
    """Return the largest of the `few` smallest scores of a sample, or infinity.

    step : from one block of the sample to the next
    """
    if not few:
        return np.float32(np.inf)
    scores, places = np.empty(few, dtype=np.float32), np.empty(few, dtype=np.int64)
    totals = np.empty(SAMPLED_CODES, dtype=np.float32)
    for i in range(few):
        scores[i] = np.inf
    for block in range(0, len(codes.blocks), step):
        for i in range(SAMPLED_CODES):
            totals[i] = 0
        for byte in range(len(query)):
            for i in range(SAMPLED_CODES):
                totals[i] += query[byte, codes.blocks[block, byte, i]]
        first = block * BLOCK
        for i in range(min(SAMPLED_CODES, codes.n - first)):
            if is_live(live, first + i):
                score = _from_total(codes, len(query), first + i, totals[i])
                if score < scores[0]:
                    replace_top(scores, places, score, first + i)
    return scores[0]


@inlined_kernel
def _list_found(masks, block, n, live, places):
    """Write the codes of a block that were found; return how many.

    places : int64 (512,)
    """
    n_found = 0
    for word in range(len(masks)):
        bits = masks[word]
        while bits:
            position = block * BLOCK + 64 * word + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if position < n and is_live(live, position):
                places[n_found] = position
                n_found += 1
    return n_found


@inlined_kernel
def _take(codes, query, places, order, most, heap):
    """Put the codes at `places` into the heap of the nearest; return whether any was.

    order, most : see `nearest`
    """
    (scores, positions), changed = heap, False
    for i in range(len(places)):
        score = _score(codes, query, places[i])
        if score <= most and score <= scores[0]:
            position = order[places[i]] if len(order) else places[i]
            if comes_before(score, position, scores[0], positions[0]):
                replace_top(scores, positions, score, position)
                changed = True
    return changed


@kernel
def nearest(codes, live, queries, layout, sample, n_entries, scores, positions):
    """Write the k codes of smallest (score, position) of each query, in this order.

    layout : int64, the blocks to search; and int32 (n,), the positions of the codes by
    place in the blocks, or (0,) where these are the same and the blocks increase;
    sample : int, from one sampled block to the next, and how many scores of the sample
    reach the largest score to look for, or 0; scores (n_queries, k) : float32, and
    positions (n_queries, k) : int64, written. Where the blocks have fewer than k such
    codes, scores of infinity stand behind theirs, with position 0.
    """
    work = _work(codes, len(queries), n_entries)
    mosts = np.empty(len(queries), dtype=np.float32)
    for q in range(len(queries)):
        mosts[q] = _first_limit(codes, live, queries[q], *sample)
        for i in range(scores.shape[1]):
            scores[q, i], positions[q, i] = np.inf, 0
    # Where nothing is known of the scores, a block tells what to look for.
    first, stage = 0, FIRST_STAGE
    for q in range(len(queries)):
        if mosts[q] == np.inf:
            stage = 1
    blocks, order = layout
    limits = np.empty(len(queries), dtype=np.int64)
    places = np.empty(BLOCK, dtype=np.int64)
    while first < len(blocks):
        last = min(len(blocks), stage)
        for q in range(len(queries)):
            most = min(mosts[q], scores[q, 0])
            limits[q] = _make_steps(codes, queries[q], most, work, q)
        for i in range(first, last):
            block = blocks[i]
            if len(order):  # the next block may stand anywhere
                fetch(codes.blocks, blocks[min(i + AHEAD, len(blocks) - 1)])
            for q in range(len(queries)):
                if limits[q] < 0 or not _find_low(
                    codes.blocks, block, work, q, limits[q]
                ):
                    continue
                n_found = _list_found(work.found, block, codes.n, live, places)
                query, hits = queries[q], places[:n_found]
                heap = scores[q], positions[q]
                changed = _take(codes, query, hits, order, mosts[q], heap)
                most = min(mosts[q], scores[q, 0])
                if changed and most < np.inf:
                    reach = _reach(codes, most, work.scales[q])
                    limits[q] = min(limits[q], _limit(reach, work.scales[q]))
        first, stage = last, stage * NEXT_STAGE
    for q in range(len(queries)):
        sort_heap(scores[q], positions[q])


@inner_kernel
def _longer(array):
    return np.concatenate((array, np.empty_like(array)))


@kernel
def within(codes, live, queries, span, radius, n_entries):
    """Return the codes of blocks with scores of at most `radius`, by position.

    span : the first block to search, and the one behind the last; radius : float32

    Returns
    -------
    owners, positions : int64 (n_found,)
        The query, and the code.
    scores : float32 (n_found,)
    """
    size, n, work = 0, codes.n, _work(codes, len(queries), n_entries)
    places = np.empty(BLOCK, dtype=np.int64)
    owners, positions = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
    scores = np.empty(BLOCK, dtype=np.float32)
    limits = np.empty(len(queries), dtype=np.int64)
    for q in range(len(queries)):
        limits[q] = _make_steps(codes, queries[q], radius, work, q)
    for block in range(span[0], span[1]):
        for q in range(len(queries)):
            if limits[q] < 0 or not _find_low(codes.blocks, block, work, q, limits[q]):
                continue
            n_found = _list_found(work.found, block, n, live, places)
            if size + n_found > len(scores):
                owners, positions = _longer(owners), _longer(positions)
                scores = _longer(scores)
            for i in range(n_found):
                position = places[i]
                score = _score(codes, queries[q], position)
                if score <= radius:
                    owners[size], positions[size], scores[size] = q, position, score
                    size += 1
    return owners[:size], positions[:size], scores[:size]
