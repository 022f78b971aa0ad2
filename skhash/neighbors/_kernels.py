"""Exact Hamming search over 64-bit words, one thread, no lock held.

Codes are scanned in blocks of 256, in the order of their positions, against a chunk of
queries. A query keeps the distance of the k-th best so far; as positions only grow, a
code at that very distance comes too late, and the test is a strict "nearer". Blocks
with no such code, which after a short while are nearly all, cost a query the few vector
operations of `_bitslice` and nothing else.

Bit r of a word is the plane r of its codes: bytes must stand in words the way they do
on a little-endian machine, which is all that numba compiles for.
"""

import numpy as np
from numba import njit

from skhash.neighbors._bitslice import (
    BLOCK,
    CARRY_OFFSET,
    GROUP,
    GROUP_BYTES,
    LANES,
    LONG_LEVELS,
    SHORT_LEVELS,
    STEP,
    near_64,
    near_128,
    near_256,
    near_long,
    near_short,
    popcount,
    trailing_zeros,
)

_ONE = np.uint64(1)
_ALL = np.uint64(2**64 - 1)
_PLANE_BYTES = 8 * LANES
_GROUP_WORDS = GROUP_BYTES // 8


@njit(nogil=True, cache=True)
def _n_steps(n_planes):
    return -(-n_planes // (GROUP * STEP))


@njit(nogil=True, cache=True)
def _n_levels(n_planes):
    """Return how many digits the sums of `_near` have."""
    if n_planes == 64:
        return 7
    if n_planes == 128:
        return 8
    return SHORT_LEVELS if n_planes < 2**SHORT_LEVELS else LONG_LEVELS


@njit(nogil=True, cache=True)
def _near(n_planes, table, choices, bias, query, hits):
    n_steps = _n_steps(n_planes)
    if n_planes == 64:
        return near_64(table, choices, bias, query, n_steps, hits)
    if n_planes == 128:
        return near_128(table, choices, bias, query, n_steps, hits)
    if n_planes == 256:
        return near_256(table, choices, bias, query, n_steps, hits)
    if n_planes < 2**SHORT_LEVELS:
        return near_short(table, choices, bias, query, n_steps, hits)
    return near_long(table, choices, bias, query, n_steps, hits)


@njit(nogil=True, cache=True)
def _transpose(square):
    """Transpose four 64 x 64 bit squares, side by side in the columns, in place."""
    flat = square.reshape(-1)
    width = 32
    mask = np.uint64(0xFFFFFFFF)
    while width:
        shift = np.uint64(width)
        run = LANES * width
        for start in range(0, 64 * LANES, 2 * run):
            for i in range(start, start + run):
                swap = ((flat[i] >> shift) ^ flat[i + run]) & mask
                flat[i + run] ^= swap
                flat[i] ^= swap << shift
        width >>= 1
        mask ^= mask << np.uint64(width)


@njit(nogil=True, cache=True)
def _fill_planes(words, start, planes, square):
    """Write the planes of the 256 codes from `start` on; missing codes are 0."""
    n, n_words = words.shape
    for word in range(n_words):
        for lane in range(LANES):
            first = start + 64 * lane
            present = max(0, min(64, n - first))
            for i in range(present):
                square[i, lane] = words[first + i, word]
            for i in range(present, 64):
                square[i, lane] = 0
        _transpose(square)
        for i in range(min(64, len(planes) - 64 * word)):
            for lane in range(LANES):
                planes[64 * word + i, lane] = square[i, lane]


@njit(nogil=True, cache=True)
def _fill_table(planes, table):
    """Write both digits of a ^ qa + b ^ qb + c ^ qc for all values of qa, qb, qc."""
    for group in range(len(planes) // GROUP):
        base = group * _GROUP_WORDS
        carries = base + CARRY_OFFSET // 8
        for lane in range(LANES):
            a = planes[GROUP * group, lane]
            b = planes[GROUP * group + 1, lane]
            c = planes[GROUP * group + 2, lane]
            table[base + lane] = a ^ b ^ c
            table[base + LANES + lane] = ~(a ^ b ^ c)
            for flips in range(4):
                x = a ^ (_ALL if flips & 1 else np.uint64(0))
                y = b ^ (_ALL if flips & 2 else np.uint64(0))
                carry = (x & y) | ((x ^ y) & c)
                table[carries + LANES * flips + lane] = carry
                # All three flipped: what was counted is not, and the other way round.
                table[carries + LANES * (7 - flips) + lane] = ~carry


@njit(nogil=True, cache=True)
def _choose(queries, choices):
    """Write where each query finds its digits in a group of the table, in bytes."""
    n_bits = 64 * queries.shape[1]
    for query in range(len(queries)):
        for group in range(choices.shape[1] // 2):
            flips = 0
            parity = 0
            for i in range(GROUP):
                bit = GROUP * group + i
                if bit < n_bits:
                    word = queries[query, bit // 64]
                    value = np.int64((word >> np.uint64(bit % 64)) & _ONE)
                    flips |= value << i
                    parity ^= value
            choices[query, 2 * group] = flips * _PLANE_BYTES
            choices[query, 2 * group + 1] = parity * _PLANE_BYTES


@njit(nogil=True, cache=True)
def _set_threshold(bias, threshold):
    """Make sums overflow from `threshold` on."""
    levels = len(bias)
    start = (1 << levels) - threshold
    for level in range(levels):
        bias[level] = _ALL if (start >> level) & 1 else np.uint64(0)


@njit(nogil=True, cache=True)
def _workspace(n_planes, queries, threshold):
    n_groups = _n_steps(n_planes) * STEP
    # Planes past the last bit are 0, in codes and queries alike.
    planes = np.zeros((GROUP * n_groups, LANES), np.uint64)
    table = np.empty(n_groups * _GROUP_WORDS, np.uint64)
    choices = np.empty((len(queries), 2 * n_groups), np.uint8)
    bias = np.empty((len(queries), _n_levels(n_planes)), np.uint64)
    _choose(queries, choices)
    for query in range(len(queries)):
        _set_threshold(bias[query], threshold)
    return planes, table, choices, bias


@njit(nogil=True, cache=True)
def _distance(words, position, queries, query):
    distance = 0
    for word in range(words.shape[1]):
        distance += np.int64(popcount(words[position, word] ^ queries[query, word]))
    return distance


@njit(nogil=True, cache=True)
def _compact(k, below, threshold, found_distances, found_positions):
    """Keep the k best found so far, in their order, and drop the rest."""
    room = k - below
    kept = 0
    for i in range(len(found_distances)):
        distance = found_distances[i]
        if distance > threshold or (distance == threshold and room == 0):
            continue
        if distance == threshold:
            room -= 1
        found_distances[kept] = distance
        found_positions[kept] = found_positions[i]
        kept += 1
    return kept


@njit(nogil=True, cache=True)
def _collect(
    words, queries, query, start, hits, k, state, histogram, distances, positions
):
    """Take in the hits of one block and bring the threshold down.

    state : [threshold, number of found that are nearer than it, number of found]
    """
    threshold, below, size = state[0], state[1], state[2]
    for lane in range(LANES):
        bits = hits[lane]
        while bits:
            position = start + 64 * lane + np.int64(trailing_zeros(bits))
            bits &= bits - _ONE
            if position >= len(words):
                break
            distance = _distance(words, position, queries, query)
            if distance >= threshold:
                continue
            if size == len(distances):
                size = _compact(k, below, threshold, distances, positions)
            distances[size] = distance
            positions[size] = position
            size += 1
            histogram[distance] += 1
            below += 1
            while below >= k:
                threshold -= 1
                below -= histogram[threshold]
    state[0], state[1], state[2] = threshold, below, size


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def nearest(words, n_planes, queries, k, capacity, distances, positions):
    """Find the `k` codes nearest to each query, ordered by (distance, position).

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64, C-contiguous
    n_planes : int
        Bits that may be set in a code, at most ``64 * n_words``.
    queries : ndarray of shape (n_queries, n_words), uint64, C-contiguous
    k : int
        At most n.
    capacity : int
        Room for what was found, per query: n, or more than k.
    distances : ndarray of shape (n_queries, k), int32
        Written.
    positions : ndarray of shape (n_queries, k), int64
        Written.
    """
    n_queries = len(queries)
    threshold = n_planes + 1
    planes, table, choices, bias = _workspace(n_planes, queries, threshold)
    states = np.zeros((n_queries, 3), np.int64)
    states[:, 0] = threshold
    histograms = np.zeros((n_queries, n_planes + 2), np.int64)
    found_distances = np.empty((n_queries, capacity), np.int32)
    found_positions = np.empty((n_queries, capacity), np.int64)
    square = np.empty((64, LANES), np.uint64)
    hits = np.empty(LANES, np.uint64)
    for start in range(0, len(words), BLOCK):
        _fill_planes(words, start, planes, square)
        _fill_table(planes, table)
        for q in range(n_queries):
            if _near(n_planes, table, choices, bias, q, hits):
                _collect(
                    words,
                    queries,
                    q,
                    start,
                    hits,
                    k,
                    states[q],
                    histograms[q],
                    found_distances[q],
                    found_positions[q],
                )
                _set_threshold(bias[q], states[q, 0])
    for q in range(n_queries):
        _sort(
            k,
            states[q],
            histograms[q],
            found_distances[q],
            found_positions[q],
            distances[q],
            positions[q],
        )


@njit(nogil=True, cache=True)
def within(words, n_planes, queries, radius, slots, positions, store):
    """Count the codes within `radius` of each query by distance, or store them.

    It runs twice, so that the memory is that of the answer: first counting, then, with
    the counts turned into the slots where each distance begins, storing.

    Parameters
    ----------
    words, n_planes, queries
        As in `nearest`.
    radius : int
        Inclusive, from 0 to `n_planes`.
    slots : ndarray of shape (n_queries, radius + 1), int64
        Advanced by one for each code at that distance.
    positions : ndarray of shape (n_found,), int64
        Written at the slots, in the order of the positions.
    store : bool
        Whether to write `positions`.
    """
    threshold = radius + 1
    planes, table, choices, bias = _workspace(n_planes, queries, threshold)
    square = np.empty((64, LANES), np.uint64)
    hits = np.empty(LANES, np.uint64)
    for start in range(0, len(words), BLOCK):
        _fill_planes(words, start, planes, square)
        _fill_table(planes, table)
        for q in range(len(queries)):
            if not _near(n_planes, table, choices, bias, q, hits):
                continue
            for lane in range(LANES):
                bits = hits[lane]
                while bits:
                    position = start + 64 * lane + np.int64(trailing_zeros(bits))
                    bits &= bits - _ONE
                    if position >= len(words):
                        break
                    distance = _distance(words, position, queries, q)
                    if store:
                        positions[slots[q, distance]] = position
                    slots[q, distance] += 1
