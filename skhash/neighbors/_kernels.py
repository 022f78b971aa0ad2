"""The kernels of exact Hamming search over 64-bit words: one thread, no lock held.

Codes are scanned in blocks of 256, in the order of their positions, against a chunk of
queries. A query keeps the distance of the k-th best so far; as positions only grow, a
code at that very distance comes too late, and the test is a strict "nearer". Blocks
with no such code, which after a short while are nearly all, cost a query the few vector
operations of `_bitslice` and nothing else.

Bit r of a word is the plane r of its codes: bytes must stand in words the way they do
on a little-endian machine, which is all that numba compiles for.

What the kernels work in (`work`) is made by `_search`, as numba takes long to compile
an allocation: planes (planes, LANES) and table (1-d) of one block; choices (queries,
2 * groups) and bias (queries, levels); hits (queries + 1, LANES) and hit_queries
(queries + 1,), where one slot more than queries takes answers that are no hits;
distances (64,) of the codes of a lane.
"""

import numpy as np

from skhash.neighbors._bitslice import (
    BLOCK,
    GROUP_BYTES,
    LANES,
    LONG_STEP,
    SHORT_LEVELS,
    SHORT_STEP,
    fill_group,
    near_64,
    near_128,
    near_256,
    near_long,
    near_short,
    swap_bits,
    trailing_zeros,
)
from skhash.utils.kernels import kernel, popcount

# Turning a block of codes on its side costs as much as comparing it with so many.
FEW_QUERIES = 4
_ONE = np.uint64(1)
_ALL = np.uint64(2**64 - 1)
_GROUP_WORDS = GROUP_BYTES // 8


@kernel
def _find_near(n_planes, table, choices, bias, hits, hit_queries, n_asked):
    """Write the queries that have hits in a block, and the hits; return how many.

    The first `n_asked` entries of `hit_queries` are the queries to compare. Those that
    have hits move to its front.

    Nothing branches on a hit: each query writes its answers into the next slot, which
    moves on if there are any. The loop stands here once a program, as a call costs as
    much as a turn.
    """
    n_groups = len(table) // _GROUP_WORDS
    short_steps, long_steps = n_groups // SHORT_STEP, n_groups // LONG_STEP
    slot = 0
    if n_planes == 64:
        for i in range(n_asked):
            q = hit_queries[i]
            hit_queries[slot] = q
            slot += near_64(table, choices, bias, q, 0, hits, slot)
    elif n_planes == 128:
        for i in range(n_asked):
            q = hit_queries[i]
            hit_queries[slot] = q
            slot += near_128(table, choices, bias, q, 0, hits, slot)
    elif n_planes == 256:
        for i in range(n_asked):
            q = hit_queries[i]
            hit_queries[slot] = q
            slot += near_256(table, choices, bias, q, 0, hits, slot)
    elif n_planes < 2**SHORT_LEVELS:
        for i in range(n_asked):
            q = hit_queries[i]
            hit_queries[slot] = q
            slot += near_short(table, choices, bias, q, short_steps, hits, slot)
    else:
        for i in range(n_asked):
            q = hit_queries[i]
            hit_queries[slot] = q
            slot += near_long(table, choices, bias, q, long_steps, hits, slot)
    return slot


@kernel
def _transpose(planes, first):
    """Transpose four 64 x 64 bit squares, side by side in 64 rows, in place."""
    width = 32
    mask = _ALL >> np.uint64(32)
    while width:
        for start in range(first, first + 64, 2 * width):
            for row in range(start, start + width):
                swap_bits(planes, row, width, mask)
        width >>= 1
        mask ^= mask << np.uint64(width)


@kernel
def _fill_planes(words, start, planes):
    """Write the planes of the 256 codes from `start` on; missing codes are 0."""
    for word in range(words.shape[1]):
        for lane in range(LANES):
            # Slices, as they spare the loop the arithmetic of two indices.
            codes = words[start + 64 * lane : start + 64 * (lane + 1), word]
            rows = planes[64 * word : 64 * (word + 1), lane]
            for i in range(len(codes)):
                rows[i] = codes[i]
            for i in range(len(codes), 64):
                rows[i] = 0
        _transpose(planes, 64 * word)


@kernel
def _next_block(words, start, planes, table):
    """Make the table of the 256 codes from `start` on."""
    _fill_planes(words, start, planes)
    for group in range(len(table) // _GROUP_WORDS):
        fill_group(planes, table, group)


@kernel
def set_threshold(bias, threshold):
    """Make sums overflow from `threshold` on."""
    levels = len(bias)
    start = (1 << levels) - threshold
    for level in range(levels):
        bias[level] = _ALL if (start >> level) & 1 else np.uint64(0)


@kernel
def _distance(words, position, queries, query):
    distance = 0
    for word in range(words.shape[1]):
        distance += np.int64(popcount(words[position, word] ^ queries[query, word]))
    return distance


@kernel
def _threshold(bias):
    """Return what `set_threshold` wrote."""
    start = 0
    for level in range(len(bias)):
        start |= np.int64(bias[level] & _ONE) << level
    return (1 << len(bias)) - start


@kernel
def _find_near_few(words, start, queries, bias, hits, hit_queries, distances):
    """Do what `_find_near` does, code by code, without the planes of the block."""
    slot = 0
    for q in range(len(queries)):
        threshold = _threshold(bias[q])
        hit_queries[slot] = q
        found = False
        for lane in range(LANES):
            # Loops that do one thing each become vector instructions.
            codes = words[start + 64 * lane : start + 64 * (lane + 1)]
            bits = queries[q, 0]
            for i in range(len(codes)):
                distances[i] = np.int64(popcount(codes[i, 0] ^ bits))
            for word in range(1, words.shape[1]):
                bits = queries[q, word]
                for i in range(len(codes)):
                    distances[i] += np.int64(popcount(codes[i, word] ^ bits))
            n_near = 0
            for i in range(len(codes)):
                n_near += distances[i] < threshold
            hits[slot, lane] = 0
            if n_near:
                found = True
                for i in range(len(codes)):
                    if distances[i] < threshold:
                        hits[slot, lane] |= _ONE << np.uint64(i)
        if found:
            slot += 1
    return slot


@kernel
def _find_in_block(words, n_planes, queries, start, work):
    """Find the hits of the 256 codes from `start` on; return how many queries have any.

    A block is turned on its side where enough queries share the cost of that.
    """
    planes, table, choices, bias, hits, hit_queries, lane = work
    if len(queries) < FEW_QUERIES:
        return _find_near_few(words, start, queries, bias, hits, hit_queries, lane)
    _next_block(words, start, planes, table)
    for q in range(len(queries)):
        hit_queries[q] = q
    return _find_near(n_planes, table, choices, bias, hits, hit_queries, len(queries))


@kernel
def _compact(k, state, distances, positions):
    """Keep the k best found so far, in their order; return how many those are."""
    threshold, below = state[0], state[1]
    room = k - below
    kept = 0
    for i in range(len(distances)):
        distance = distances[i]
        if distance > threshold or (distance == threshold and room == 0):
            continue
        if distance == threshold:
            room -= 1
        distances[kept] = distance
        positions[kept] = positions[i]
        kept += 1
    return kept


@kernel
def _collect(
    words,
    live,
    queries,
    start,
    hits,
    hit_queries,
    n_hits,
    k,
    bias,
    states,
    histograms,
    distances,
    positions,
):
    """Take in the hits of one block and bring the thresholds down.

    states : a row a query: its threshold, how many of those found are nearer, and how
    many are found.
    """
    for slot in range(n_hits):
        q = hit_queries[slot]
        threshold, below, size = states[q, 0], states[q, 1], states[q, 2]
        for lane in range(LANES):
            bits = hits[slot, lane] & live[(start >> 6) + lane]
            while bits:
                position = start + 64 * lane + np.int64(trailing_zeros(bits))
                bits &= bits - _ONE
                distance = _distance(words, position, queries, q)
                if distance >= threshold:
                    continue
                if size == distances.shape[1]:
                    states[q, 0], states[q, 1] = threshold, below
                    size = _compact(k, states[q], distances[q], positions[q])
                distances[q, size] = distance
                positions[q, size] = position
                size += 1
                histograms[q, distance] += 1
                below += 1
                while below >= k:
                    threshold -= 1
                    below -= histograms[q, threshold]
        if threshold != states[q, 0]:
            set_threshold(bias[q], threshold)
        states[q, 0], states[q, 1], states[q, 2] = threshold, below, size


@kernel
def _sort(k, state, histogram, found_distances, found_positions, distances, positions):
    """Order what was found by (distance, position): a counting sort."""
    threshold, size = state[0], state[2]
    start = 0
    for distance in range(threshold + 1):
        count = histogram[distance]
        histogram[distance] = start
        start += count
    for i in range(size):
        distance = found_distances[i]
        if distance <= threshold and histogram[distance] < k:
            slot = histogram[distance]
            distances[slot] = distance
            positions[slot] = found_positions[i]
            histogram[distance] += 1


@kernel
def nearest(
    words,
    live,
    n_planes,
    queries,
    k,
    work,
    states,
    histograms,
    found_distances,
    found_positions,
    distances,
    positions,
):
    """Write the `k` nearest of each query, ordered by (distance, position).

    words (n, n_words) and queries (n_queries, n_words) : uint64, read-only; live
    (n_lanes,) : uint64, read-only, a bit for each place of a block, set where a code
    there may be found; n_planes : bits that may be set in a code; states (n_queries, 3)
    : see `_collect`; histograms (n_queries, n_planes + 2) : zeros; found_distances and
    found_positions (n_queries, capacity) : room, capacity being n or more than k;
    distances (n_queries, k) : int32 and positions (n_queries, k) : int64, written.
    """
    bias, hits, hit_queries = work[3:6]
    for start in range(0, len(words), BLOCK):
        n_hits = _find_in_block(words, n_planes, queries, start, work)
        _collect(
            words,
            live,
            queries,
            start,
            hits,
            hit_queries,
            n_hits,
            k,
            bias,
            states,
            histograms,
            found_distances,
            found_positions,
        )
    for q in range(len(queries)):
        _sort(
            k,
            states[q],
            histograms[q],
            found_distances[q],
            found_positions[q],
            distances[q],
            positions[q],
        )


@kernel
def within(words, live, n_planes, queries, work, slots, positions, store):
    """Advance the slot of each code found; with `store`, write its position there.

    slots (n_queries, radius + 1) : int64, one for each distance; the radius is what
    `work` was made for.
    """
    hits, hit_queries = work[4:6]
    for start in range(0, len(words), BLOCK):
        n_hits = _find_in_block(words, n_planes, queries, start, work)
        for hit in range(n_hits):
            q = hit_queries[hit]
            for lane in range(LANES):
                bits = hits[hit, lane] & live[(start >> 6) + lane]
                while bits:
                    position = start + 64 * lane + np.int64(trailing_zeros(bits))
                    bits &= bits - _ONE
                    distance = _distance(words, position, queries, q)
                    if store:
                        positions[slots[q, distance]] = position
                    slots[q, distance] += 1
