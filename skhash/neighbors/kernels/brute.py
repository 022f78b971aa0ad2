"""The kernels of exact Hamming search over 64-bit words: one thread, no lock held.

Codes are scanned in blocks of 256 or 512, in the order of their positions, against a
chunk of queries. A query keeps the distance of the k-th best so far; as positions only
grow, a code at that very distance comes too late, and the test is a strict "nearer".
Blocks with no such code, which after a short while are nearly all, cost a query the few
vector operations of `bitslice` and nothing else.

Bit r of a word is the plane r of its codes: bytes must stand in words the way they do
on a little-endian machine, as all supported ones are.

Few queries do without blocks: see `rowwise`. Buffers are allocated by
`search.brute`, as numba compiles allocations slowly. Arguments of all kernels:
words (n, n_words) and queries (n_queries, n_words) : uint64, read-only; live : see
`is_live`.
"""

from collections import namedtuple
from functools import cache

import numpy as np
from numba import int64, types, uint8, uint64

from skhash.neighbors.kernels.bits import (
    ALL,
    ONE,
    POSITION,
    POSITION_BITS,
    distance_of,
    is_live,
    live_bits,
    trailing_zeros,
)
from skhash.neighbors.kernels.bitslice import (
    fill_rows,
    fill_table,
    find_near,
    transpose,
)
from skhash.neighbors.kernels.rowwise import VECTOR_WORDS, next_near
from skhash.utils.kernels import (
    address_of,
    by_address,
    inlined_kernel,
    inner_kernel,
    kernel,
    popcount,
)

# Comparing a block of codes with this number of queries costs as much as transposing
# it: more queries where one instruction counts the bits of a vector.
FEW_QUERIES = 40 if VECTOR_WORDS == 8 else 12
# Codes that few queries are compared with in turn, so that they stay in the cache.
SLAB = 2**13
# Codes for each of k that give a first threshold; more cost more than they save.
SEEDS, MIN_SEEDS = 8, 256


# Buffers for many queries. find : the address of `_find_in_block`, for the
# program; planes (planes, lanes) and table (1-d) of one block;
# choices (queries, 2 * groups) and bias (queries, levels); hits (queries + 1, lanes)
# and hit_queries (queries + 1,), where the last slot is for answers that are no hits;
# asked (queries,) : int64, all of them.
Work = namedtuple(
    "Work", "find program planes table choices bias hits hit_queries asked"
)


# Buffers for few queries. patterns (queries, a vector of words or more) :
# uint64, the words of a query, over and over; distances (64,) : int64, room.
FewWork = namedtuple("FewWork", "patterns distances")


# Answers of queries so far, a row each, uninitialised before.
# states (n_queries, 3) : int64, the threshold, how many are nearer, and how many there
# are; histograms (n_queries, n_distances) : int64, how many at each distance that words
# can have; distances and positions (n_queries, capacity), the capacity being n or more
# than k.
Found = namedtuple("Found", "states histograms distances positions")


@inner_kernel
def _set_threshold(bias, threshold):
    """Make sums overflow from `threshold` on."""
    levels = len(bias)
    start = (1 << levels) - threshold
    for level in range(levels):
        bias[level] = ALL if (start >> level) & 1 else np.uint64(0)


@inner_kernel
def _find_in_block(words, start, asked, work, program):
    """Find the hits of the codes from `start` on; return how many queries have any.

    asked : the queries to compare; the program is known when this is compiled.
    """
    near = work.hit_queries[: len(asked)]
    for i in range(len(asked)):
        near[i] = asked[i]
    planes, table = work.planes, work.table
    for word in range(words.shape[1]):
        fill_rows(words, start, word, planes)
        transpose(planes, 64 * word)
    fill_table(planes, table)
    return find_near(program, table, work.choices, work.bias, work.hits, near)


_INDICES, _PLANES = int64[::1], uint64[:, ::1]
_WORK = [int64] * 2 + [_PLANES, uint64[::1], uint8[:, ::1], _PLANES, _PLANES]
_WORK = types.NamedTuple([*_WORK, _INDICES, _INDICES], Work)
_BLOCK = types.Array(uint64, 2, "C", readonly=True), int64, _INDICES, _WORK
_find_by_address = by_address(int64, *_BLOCK, int64)


@cache
def block_finder(program):
    """Return the address of `_find_in_block` for a program."""
    return address_of(_find_in_block, *_BLOCK, types.literal(program))


@inner_kernel
def _next_near(words, first, stop, work, q, threshold):
    """Find the first 64 codes, from `first` on, with one nearer than the threshold.

    Return where they begin, and a bit for each: whether it is nearer; 0 at the end.
    """
    patterns, distances = work
    n_lanes = (stop - first) // 64
    first, near = next_near(words, first, n_lanes, patterns, q, threshold)
    # Codes of other lengths, and the last codes.
    while near == 0 and first < stop:
        codes = words[first : min(first + 64, stop)]
        # Loops that do one thing each become vector instructions: over codes, or over
        # the words of long ones.
        distances[:] = 0
        if words.shape[1] > VECTOR_WORDS:
            for i in range(len(codes)):
                distances[i] = distance_of(codes, i, patterns, q)
        else:
            for word in range(words.shape[1]):
                bits = patterns[q, word]
                for i in range(len(codes)):
                    distances[i] += np.int64(popcount(codes[i, word] ^ bits))
        for i in range(len(codes)):
            near |= np.int64(distances[i] < threshold) << i
        first += 64 * (near == 0)
    return first, np.uint64(near)


@inner_kernel
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


@inlined_kernel
def _take(words, first, bits, queries, q, k, found):
    """Add codes behind `first`, one for each bit set; lower the threshold."""
    states, histograms, distances, positions = found
    threshold, below, size = states[q, 0], states[q, 1], states[q, 2]
    while bits:
        position = first + np.int64(trailing_zeros(bits))
        bits &= bits - ONE
        distance = distance_of(words, position, queries, q)
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
    states[q, 0], states[q, 1], states[q, 2] = threshold, below, size


@inner_kernel
def _unfinished(asked, states):
    """Drop the queries with a threshold of 0; return the others."""
    n_left = 0
    for q in asked:
        asked[n_left] = q
        n_left += states[q, 0] > 0
    return asked[:n_left]


@inner_kernel
def _seed(words, live, queries, n_planes, k, found):
    """Begin with nothing found, and thresholds from counts of the first codes.

    Without these counts, all of the first codes would be added.
    """
    states, histograms = found[:2]
    stop = min(len(words), max(MIN_SEEDS, SEEDS * k))
    for q in range(len(queries)):
        states[q, 0], states[q, 1], states[q, 2] = n_planes + 1, 0, 0
        counts = histograms[q]
        counts[:] = 0
        for i in range(stop):
            if is_live(live, i):
                counts[distance_of(words, i, queries, q)] += 1
        distance, n = 0, counts[0]
        while n < k and distance < states[q, 0]:
            distance += 1
            n += counts[distance]
        states[q, 0] = min(distance + 1, states[q, 0])
        counts[:] = 0


@inner_kernel
def _sort(k, found, distances, positions):
    """Sort the codes found by (distance, position): a counting sort."""
    for q in range(len(distances)):
        threshold, size = found.states[q, 0], found.states[q, 2]
        slots = found.histograms[q]
        start = 0
        for distance in range(threshold + 1):
            count = slots[distance]
            slots[distance] = start
            start += count
        for i in range(size):
            distance = found.distances[q, i]
            if distance <= threshold and slots[distance] < k:
                slot = slots[distance]
                distances[q, slot] = distance
                positions[q, slot] = found.positions[q, i]
                slots[distance] += 1


@kernel
def nearest(words, live, queries, n_planes, work, found, distances, positions):
    """Write the nearest of each query, ordered by (distance, position).

    distances (n_queries, k) : int32; positions (n_queries, k) : int64.
    """
    states, k, asked = found.states, distances.shape[1], work.asked
    _seed(words, live, queries, n_planes, k, found)
    for q in range(len(queries)):
        _set_threshold(work.bias[q], states[q, 0])
    find, program, lanes = work.find, work.program, work.hits.shape[1]
    for start in range(0, len(words), 64 * lanes):
        n_hits = _find_by_address(find, (words, start, asked, work, program))
        n_done = 0
        for slot in range(n_hits):
            q = work.hit_queries[slot]
            threshold = states[q, 0]
            for lane in range(lanes):
                near, first = work.hits[slot, lane], start + 64 * lane
                near = near and near & live_bits(live, first, len(words))
                if near:
                    _take(words, first, near, queries, q, k, found)
            if states[q, 0] != threshold:
                _set_threshold(work.bias[q], states[q, 0])
                # No code is nearer than 0.
                n_done += states[q, 0] == 0
        if n_done:
            asked = _unfinished(asked, states)
            if not len(asked):
                break
    _sort(k, found, distances, positions)


@kernel
def nearest_to_few(words, live, n_planes, work, found, distances, positions):
    """Search like `nearest`, code by code, for the queries in `work`."""
    states, k, queries = found.states, distances.shape[1], work.patterns
    _seed(words, live, queries, n_planes, k, found)
    for start in range(0, len(words), SLAB):
        stop = min(start + SLAB, len(words))
        for q in range(len(queries)):
            first = start
            while first < stop and states[q, 0]:
                first, near = _next_near(words, first, stop, work, q, states[q, 0])
                if near:
                    near &= live_bits(live, first, len(words))
                    _take(words, first, near, queries, q, k, found)
                first += 64
    _sort(k, found, distances, positions)


@inner_kernel
def _note(words, first, bits, queries, q, counts, keys, size):
    """Append the codes behind `first`, one for each bit set; return the new size."""
    while bits:
        position = first + np.int64(trailing_zeros(bits))
        bits &= bits - ONE
        distance = distance_of(words, position, queries, q)
        if distance >= counts.shape[1]:  # by bits behind the codes, if there are any
            continue
        counts[q, distance] += 1
        row = q * counts.shape[1] + distance
        keys[size] = (row << POSITION_BITS) | position
        size += 1
    return size


@kernel
def within(words, live, queries, work, begin, counts, keys):
    """Write codes within the radius to `keys`, from the position `begin` on.

    Return where the next call goes on, as `keys` may be full, and how many it has:
    numbers with the query and the distance above, the row of `counts`, and the position
    in the lower bits, in the order of positions for each query.

    counts (n_queries, radius + 1) : int64, advanced; keys : int64, with room for a
    block of all queries at least.
    """
    size, asked = 0, work.asked
    for q in range(len(queries)):
        _set_threshold(work.bias[q], counts.shape[1])
    find, program, lanes = work.find, work.program, work.hits.shape[1]
    for start in range(begin, len(words), 64 * lanes):
        if size + 64 * lanes * len(queries) > len(keys):
            return start, size
        n_hits = _find_by_address(find, (words, start, asked, work, program))
        for slot in range(n_hits):
            q = work.hit_queries[slot]
            for lane in range(lanes):
                near, first = work.hits[slot, lane], start + 64 * lane
                near = near and near & live_bits(live, first, len(words))
                size = _note(words, first, near, queries, q, counts, keys, size)
    return len(words), size


@kernel
def within_of_few(words, live, work, begin, counts, keys):
    """Search like `within`, code by code, for the queries in `work`."""
    size, too_far, queries = 0, counts.shape[1], work.patterns
    for start in range(begin, len(words), SLAB):
        if size + SLAB * len(queries) > len(keys):
            return start, size
        stop = min(start + SLAB, len(words))
        for q in range(len(queries)):
            first = start
            while first < stop:
                first, near = _next_near(words, first, stop, work, q, too_far)
                if near:
                    near &= live_bits(live, first, len(words))
                    size = _note(words, first, near, queries, q, counts, keys, size)
                first += 64
    return len(words), size


@kernel
def place(keys, slots, positions):
    """Write positions to the slots of their rows, and advance those."""
    for key in keys:
        row = key >> POSITION_BITS
        positions[slots[row]] = key & POSITION
        slots[row] += 1
