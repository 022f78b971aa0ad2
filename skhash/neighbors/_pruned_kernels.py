"""The kernels of pruned search: one thread, no lock held.

A code that is found is a key, its distance above and its position in the lower bits, so
that keys are in the order of answers. A query keeps the k least in a heap whose first
key is the largest: a code enters if its key is less.
"""

import numpy as np

from skhash.neighbors._bitslice import LANES, trailing_zeros
from skhash.neighbors._kernels import (
    _distance,
    _find_near,
    _next_block,
    set_threshold,
)
from skhash.utils.kernels import kernel, popcount

POSITION_BITS = 40
# Turning a block of codes on its side costs as much as comparing it, code by code, with
# so many queries.
FEW_QUERIES = 6
_ONE = np.uint64(1)


@kernel
def _reach(last, lowest):
    """Return how far a code may be to come before the key `last`.

    Its position is `lowest` or more.
    """
    return (last - lowest - 1) >> POSITION_BITS


@kernel
def _take(distance, position, live, heap):
    """Put a code in the place of the last one in a heap, if it comes before it."""
    key = (distance << POSITION_BITS) | position
    if key >= heap[0] or (len(live) > 1 and not live[position]):
        return
    place, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place] = key


@kernel
def _take_rows(words, positions, live, start, stop, queries, q, heap, distances):
    """Take the codes from `start` to `stop` in, for one query."""
    for first in range(start, stop, 64):
        # Loops that do one thing each become vector instructions.
        codes = words[first : min(first + 64, stop)]
        distances[:] = 0
        for word in range(words.shape[1]):
            bits = queries[q, word]
            for i in range(len(codes)):
                distances[i] += np.int64(popcount(codes[i, word] ^ bits))
        reach, n_near = _reach(heap[0], 0), 0
        for i in range(len(codes)):
            n_near += distances[i] <= reach
        if n_near:
            for i in range(len(codes)):
                if distances[i] <= reach:
                    _take(distances[i], np.int64(positions[first + i]), live, heap)


@kernel
def _note_last(q, heaps, lasts, bias):
    """Write the last key of a query where it is at hand, and what follows from it."""
    if heaps[q, 0] < lasts[q]:
        lasts[q] = heaps[q, 0]
        set_threshold(bias[q], _reach(lasts[q], 0) + 1)


@kernel
def _take_block(
    words, positions, live, n_planes, start, stop, queries, n_chosen, work, heaps, lasts
):
    """Take the codes of a block in, for the first `n_chosen` in `hit_queries`."""
    planes, table, choices, bias, hits, hit_queries, distances = work
    if n_chosen < FEW_QUERIES:
        for i in range(n_chosen):
            q = hit_queries[i]
            _take_rows(
                words, positions, live, start, stop, queries, q, heaps[q], distances
            )
            _note_last(q, heaps, lasts, bias)
        return
    _next_block(words[:stop], start, planes, table)
    n_hits = _find_near(n_planes, table, choices, bias, hits, hit_queries, n_chosen)
    for slot in range(n_hits):
        q = hit_queries[slot]
        for lane in range(LANES):
            bits = hits[slot, lane]
            while bits:
                place = start + 64 * lane + np.int64(trailing_zeros(bits))
                bits &= bits - _ONE
                if place < stop:
                    distance = _distance(words, place, queries, q)
                    _take(distance, np.int64(positions[place]), live, heaps[q])
        _note_last(q, heaps, lasts, bias)


@kernel
def _center_distances(centers, columns, out):
    """Write the distances of centers and queries; columns (n_words, n_queries)."""
    out[:] = 0
    for center in range(len(centers)):
        for word in range(len(columns)):
            bits = centers[center, word]
            for q in range(columns.shape[1]):
                out[center, q] += np.int32(popcount(columns[word, q] ^ bits))


@kernel
def _near_radii(away, sizes, n_codes, counts, radii):
    """Write how far away to go for clusters that have `n_codes` codes together.

    counts (n_queries, n_planes + 1) : int64, room.
    """
    counts[:] = 0
    for center in range(len(away)):
        for q in range(len(radii)):
            counts[q, away[center, q]] += sizes[center]
    for q in range(len(radii)):
        n, radius = counts[q, 0], 0
        while n < n_codes and radius < counts.shape[1] - 1:
            radius += 1
            n += counts[q, radius]
        radii[q] = radius


@kernel
def _in_ring(away, rings, lowest, block, last):
    """Return whether a code of a block may enter, by the triangle inequality."""
    reach = _reach(last, lowest[block])
    return (away - reach <= rings[block, 1]) & (away + reach >= rings[block, 0])


@kernel
def nearest(
    words,
    positions,
    live,
    n_planes,
    clusters,
    starts,
    rings,
    lowest,
    centers,
    queries,
    columns,
    n_first,
    work,
    away,
    sizes,
    counts,
    radii,
    list_room,
    heaps,
    lasts,
):
    """Leave the keys of the nearest codes of each query in its heap, in no order.

    words (n, n_words) : uint64 and positions (n,), block after block; live (n,) : bool,
    by position, or (1,) where all codes are; clusters (n_clusters + 1,) : where the
    blocks of a cluster begin; starts (n_blocks + 1,) : where the codes of a block do;
    rings (n_blocks, 2) : int32, the least and the largest distance to the center;
    lowest (n_blocks,) : int64, the least position; n_first : codes, at least, that a
    query is compared with at first; away (n_clusters, n_queries) : int32, room; sizes
    (n_clusters,) : int64; radii and list_room (n_queries + 1,) : int64, room; heaps
    (n_queries, k) : int64; lasts (n_queries,) : int64, room for the largest keys.
    """
    bias, hit_queries, distances = work[3], work[5], work[6]
    n_queries = len(queries)
    heaps[:] = np.int64(n_planes + 1) << POSITION_BITS
    _center_distances(centers, columns, away)
    _near_radii(away, sizes, n_first, counts, radii[:n_queries])
    # The nearest clusters show how near the neighbours are.
    for cluster in range(len(centers)):
        n_near = 0
        for q in range(n_queries):
            list_room[n_near] = q
            n_near += away[cluster, q] <= radii[q]
        for block in range(clusters[cluster], clusters[cluster + 1]):
            for i in range(n_near):
                q = list_room[i]
                if _in_ring(away[cluster, q], rings, lowest, block, heaps[q, 0]):
                    _take_rows(
                        words,
                        positions,
                        live,
                        starts[block],
                        starts[block + 1],
                        queries,
                        q,
                        heaps[q],
                        distances,
                    )
    lasts[:] = np.int64(n_planes + 1) << POSITION_BITS
    for q in range(n_queries):
        _note_last(q, heaps, lasts, bias)
    # Of all others, the rings that the neighbours may lie in.
    for cluster in range(len(centers)):
        last = clusters[cluster + 1] - 1
        if last < clusters[cluster]:
            continue
        n_left = 0
        for q in range(n_queries):
            list_room[n_left] = q
            distance = away[cluster, q]
            n_left += (distance > radii[q]) & (
                distance - _reach(lasts[q], 0) <= rings[last, 1]
            )
        for block in range(clusters[cluster], last + 1):
            n_chosen = 0
            for i in range(n_left):
                q = list_room[i]
                hit_queries[n_chosen] = q
                n_chosen += _in_ring(away[cluster, q], rings, lowest, block, lasts[q])
            if n_chosen:
                _take_block(
                    words,
                    positions,
                    live,
                    n_planes,
                    starts[block],
                    starts[block + 1],
                    queries,
                    n_chosen,
                    work,
                    heaps,
                    lasts,
                )
