"""The kernels of pruned search: one thread, no lock held.

A code that is found is a key, its distance above and its position in the lower bits, so
that keys are in the order of answers. A query keeps the k least in a heap whose first
key is the largest: a code enters if its key is less.

Distances are bytes, 255 standing for all that are larger too. Where that might matter,
they are computed again.
"""

import numpy as np

from skhash.neighbors._bitslice import trailing_zeros
from skhash.neighbors._nibbles import BLOCK, MOST, at_most, in_reach, near, unpack
from skhash.utils.kernels import kernel, popcount

POSITION_BITS = 40
# Fewer queries do not fill a block, to be compared with the centers.
FEW_QUERIES = 16
# So many clusters tell how far away the nearest are.
SOME_CLUSTERS = 256
_ONE = np.uint64(1)


@kernel
def fill_blocks(words, order, starts, blocks):
    """Write the bytes of codes, in an order, side by side; starts : of each block."""
    for block in range(len(blocks)):
        for i in range(starts[block], starts[block + 1]):
            for word in range(words.shape[1]):
                bits = words[order[i], word]
                for byte in range(8 * word, 8 * word + 8):
                    blocks[block, byte, i - starts[block]] = np.uint8(bits & np.uint64(255))
                    bits >>= np.uint64(8)


@kernel
def assign(center_blocks, n_centers, choices, nibbles, out, best, owners):
    """Write the nearest center of each code, the first of several.

    choices : those of the codes; best (n,) : uint8, room.
    """
    best[:] = MOST
    owners[:] = 0
    for block in range(len(center_blocks)):
        unpack(center_blocks, block, nibbles)
        for i in range(len(owners)):
            if best[i] == 0 or not near(nibbles, choices, i, best[i] - 1, out, 0):
                continue
            for half in range(2):
                while best[i] > 0:
                    bits = at_most(out, 0, half, best[i] - 1)
                    if not bits:
                        break
                    place = 64 * half + np.int64(trailing_zeros(bits))
                    if block * BLOCK + place >= n_centers:
                        break
                    best[i] = out[0, place]
                    owners[i] = block * BLOCK + place


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
def _distance(block, i, query):
    distance = 0
    for byte in range(len(block)):
        distance += np.int64(popcount(np.uint64(block[byte, i] ^ query[byte])))
    return distance


@kernel
def _take_hits(block, first, n_codes, lowest, positions, live, out, query, heap):
    """Take those codes of a block in that come before the last one in the heap."""
    # At the distance of the last one, those after its position come too late.
    reach = (heap[0] - lowest - 1) >> POSITION_BITS
    if reach < 0:
        return
    for half in range(2):
        bits = at_most(out, 0, half, np.uint8(min(reach, MOST)))
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - _ONE
            if i >= n_codes:
                break
            distance = np.int64(out[0, i])
            if distance == MOST:
                distance = _distance(block, i, query)
            _take(distance, np.int64(positions[first + i]), live, heap)


@kernel
def _count_hits(first, n_codes, positions, live, out, k, counts, last):
    """Count distances less than `last`; return the new one, of the k-th that counts.

    counts (256,) : int64; by distance; its last entry is how many are less than `last`.
    """
    for half in range(2):
        bits = at_most(out, 0, half, last - 1)
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - _ONE
            if i >= n_codes:
                break
            if len(live) == 1 or live[positions[first + i]]:
                counts[out[0, i]] += 1
                counts[MOST] += out[0, i] < last
                while counts[MOST] >= k:
                    last -= 1
                    counts[MOST] -= counts[last]
    return last


@kernel
def _scan(index, live, query_arrays, away, reach, lasts, counts, nibbles, out, heaps, counting):
    """Compare queries with the clusters at distances from `low` to `high`.

    With `rings`, the distances of codes to their centers are added to `high`.
    """
    blocks, starts, tops, lowest, clusters, positions = index[:6]
    queries, choices = query_arrays
    for cluster in range(len(clusters) - 1):
        for block in range(clusters[cluster], clusters[cluster + 1]):
            more = np.uint8(0) if counting else tops[block]
            needed = False
            for group in range(len(reach)):
                row = cluster * len(reach) + group
                for half in range(2):
                    bits = in_reach(away, row, reach, group, more, half)
                    while bits:
                        i = 64 * half + np.int64(trailing_zeros(bits))
                        bits &= bits - _ONE
                        q = BLOCK * group + i
                        last = lasts[group, i]
                        if q >= len(queries):
                            break
                        if counting and last == 0:
                            continue
                        if not needed:
                            needed = True
                            unpack(blocks, block, nibbles)
                        if not near(nibbles, choices, q, last - counting, out, 0):
                            continue
                        first, n_codes = starts[block], starts[block + 1] - starts[block]
                        if counting:
                            lasts[group, i] = _count_hits(
                                first, n_codes, positions, live, out, heaps.shape[1], counts[q], last)
                        else:
                            _take_hits(
                                blocks[block],
                                first,
                                n_codes,
                                lowest[block],
                                positions,
                                live,
                                out,
                                queries[q],
                                heaps[q],
                            )
                            lasts[group, i] = min(lasts[group, i], heaps[q, 0] >> POSITION_BITS)
            if not needed:
                # The other blocks are nearer to the center still.
                break


@kernel
def _center_distances(
    center_blocks, center_choices, query_blocks, choices, nibbles, out, away
):
    n_groups, n = len(query_blocks), len(center_choices)
    if len(choices) < FEW_QUERIES:
        for block in range(len(center_blocks)):
            unpack(center_blocks, block, nibbles)
            first = BLOCK * block
            for q in range(len(choices)):
                near(nibbles, choices, q, np.uint8(0), out, 0)
                for i in range(min(BLOCK, n - first)):
                    away[first + i, q] = out[0, i]
        return
    for group in range(n_groups):
        unpack(query_blocks, group, nibbles)
        for center in range(n):
            row = center * n_groups + group
            near(nibbles, center_choices, center, np.uint8(0), away, row)


@kernel
def _first_radii(away, sizes, n_codes, n_queries, counts, high):
    """Write how far away to go for clusters that have about `n_codes` together.

    counts (n_queries, 256) : int64, room.
    """
    counts[:] = 0
    step = max(1, len(sizes) // SOME_CLUSTERS)
    for cluster in range(0, len(sizes), step):
        for q in range(n_queries):
            row = cluster * len(high) + q // BLOCK
            counts[q, away[row, q % BLOCK]] += sizes[cluster]
    for q in range(n_queries):
        n, radius = counts[q, 0], 0
        while n * step < n_codes and radius < MOST - 1:
            radius += 1
            n += counts[q, radius]
        high[q // BLOCK, q % BLOCK] = radius


@kernel
def nearest(
    index, live, n_planes, n_first, queries, choices, query_blocks, work, heaps
):
    """Leave the keys of the nearest codes of each query in its heap, in no order.
    """
    sizes, center_blocks, center_choices = index[6:9]
    away, reach, lasts, counts, nibbles, out = work
    _center_distances(
        center_blocks, center_choices, query_blocks, choices, nibbles, out, away
    )
    # The nearest clusters show how near the neighbours are.
    _first_radii(away, sizes, n_first, len(queries), counts, reach)
    counts[:] = 0
    lasts[:] = min(n_planes + 1, MOST)
    arrays = queries, choices
    _scan(
        index, live, arrays, away, reach, lasts, counts, nibbles, out, heaps, True
    )
    heaps[:] = np.int64(n_planes + 1) << POSITION_BITS
    _scan(
        index, live, arrays, away, lasts, lasts, counts, nibbles, out, heaps, False
    )
