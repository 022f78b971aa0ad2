"""The kernels of pruned search: one thread, no lock held.

A code that is found is a key, its distance above and its position in the lower bits, so
that keys are in the order of answers. A query keeps the k least in a heap whose first
key is the largest: a code enters if its key is less.

Distances are bytes; 255 stands for larger ones too, which are computed anew where it
matters. Where one byte more would be needed to be sure, more is compared than need be.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skhash.neighbors.kernels.bitslice import trailing_zeros
from skhash.neighbors.kernels.nibbles import (
    BLOCK,
    MOST,
    at_most,
    fetch,
    in_reach,
    near,
    unpack,
)
from skhash.utils.kernels import kernel, popcount

POSITION_BITS = 40
# Of so many clusters, evenly spread, a batch of queries looks which are near.
SOME_CLUSTERS = 256
# Blocks that one query chooses among at a time, and how long before their turn they are
# asked for from memory.
SPAN, AHEAD = 512, 4
_ONE = np.uint64(1)
_POSITION = 2**POSITION_BITS - 1
# A call with so many arrays would take longer than what it does.
_inlined = partial(kernel, forceinline=True)


class Index(NamedTuple):
    """Codes in clusters, cut into blocks; in each, those far from the center first.

    blocks (n_blocks, n_bytes, 128) : uint8; starts (n_blocks + 1,) : int64, where the
    codes of a block begin in `positions`; tops (n_blocks,) : uint8, the largest
    distance to the center; lowest (n_blocks,) : the least position; places (n_blocks,)
    : uint8, see `_place`, the least at the largest distance; owners (n_blocks,) :
    int64, the cluster; positions (n,); clusters (n_clusters + 1,) : int64, where the
    blocks of a cluster begin; sizes (n_clusters,) : int64, its codes; center_blocks :
    the centers as blocks; center_choices : and as queries.
    """

    blocks: np.ndarray
    starts: np.ndarray
    tops: np.ndarray
    lowest: np.ndarray
    places: np.ndarray
    owners: np.ndarray
    positions: np.ndarray
    clusters: np.ndarray
    sizes: np.ndarray
    center_blocks: np.ndarray
    center_choices: np.ndarray


@kernel
def fill_blocks(words, order, starts, blocks):
    """Write the bytes of codes, in an order, as blocks that begin at `starts`."""
    for block in range(len(blocks)):
        for i in range(starts[block + 1] - starts[block]):
            for word in range(words.shape[1]):
                bits = words[order[starts[block] + i], word]
                for byte in range(8 * word, 8 * word + 8):
                    blocks[block, byte, i] = np.uint8(bits & np.uint64(255))
                    bits >>= np.uint64(8)


@kernel
def assign(center_blocks, n_centers, choices, nibbles, out, best, owners):
    """Write the nearest center of each code, the first of several.

    choices : those of the codes; nibbles, out, best (n,) : uint8, room; owners (n,).
    """
    best[:] = MOST
    owners[:] = 0
    for block in range(len(center_blocks)):
        unpack(center_blocks, block, nibbles)
        for i in range(len(owners)):
            if best[i] == 0 or not near(nibbles, choices, i, best[i] - 1, out, 0):
                continue
            for center in range(min(BLOCK, n_centers - block * BLOCK)):
                if out[0, center] < best[i]:
                    best[i] = out[0, center]
                    owners[i] = block * BLOCK + center


@kernel
def _take(distance, position, live, heaps, q):
    """Put a code in the place of the last one in a heap, if it comes before it."""
    key = (distance << POSITION_BITS) | position
    if key >= heaps[q, 0] or (len(live) > 1 and not live[position]):
        return
    place, child, size = 0, 1, heaps.shape[1]
    while child < size:
        if child + 1 < size and heaps[q, child + 1] > heaps[q, child]:
            child += 1
        if heaps[q, child] <= key:
            break
        heaps[q, place] = heaps[q, child]
        place, child = child, 2 * child + 1
    heaps[q, place] = key


@kernel
def _distance(blocks, block, i, queries, q):
    distance = 0
    for byte in range(blocks.shape[1]):
        differ = blocks[block, byte, i] ^ queries[q, byte]
        distance += np.int64(popcount(np.uint64(differ)))
    return distance


@_inlined
def _take_hits(index, block, live, out, queries, q, last, heaps):
    """Take the codes of a block in that come before the last one in a heap.

    Return how far away the k-th nearest may be, which was `last` before.
    """
    first, stop = index.starts[block], index.starts[block + 1]
    # At the distance of the last one, those behind its position come too late.
    reach = (heaps[q, 0] - index.lowest[block] - 1) >> POSITION_BITS
    for half in range(2 if reach >= 0 else 0):
        bits = at_most(out, 0, half, np.uint8(min(reach, MOST)))
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - _ONE
            if first + i >= stop:
                break
            distance = np.int64(out[0, i])
            if distance == MOST:
                distance = _distance(index.blocks, block, i, queries, q)
            _take(distance, np.int64(index.positions[first + i]), live, heaps, q)
    return min(heaps[q, 0] >> POSITION_BITS, last)


@_inlined
def _count_hits(index, block, live, out, k, counts, q, last):
    """Count codes nearer than `last`; return the distance of the k-th, or `last`.

    counts (n_queries, 256) : int64, codes by distance, and behind them how many are
    nearer than `last`.
    """
    first, stop = index.starts[block], index.starts[block + 1]
    for half in range(2):
        if last == 0:
            break
        bits = at_most(out, 0, half, np.uint8(last - 1))
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - _ONE
            if first + i >= stop:
                break
            if len(live) > 1 and not live[index.positions[first + i]]:
                continue
            counts[q, out[0, i]] += 1
            counts[q, MOST] += out[0, i] < last
            while counts[q, MOST] >= k:
                last -= 1
                counts[q, MOST] -= counts[q, last]
    return last


@kernel
def _place(last, heap_last, n):
    """Return behind which place codes as far away as the last neighbour come too late.

    Places are positions in a byte, 0 to 255 for all codes; 255 is that of none.
    """
    if heap_last >> POSITION_BITS != last:
        return MOST
    return (heap_last & _POSITION) * 256 // n


@kernel
def _radius(counts, q, n_codes):
    """Return how far away to go for so many codes."""
    n, radius = counts[q, 0], 0
    while n < n_codes and radius < MOST - 1:
        radius += 1
        n += counts[q, radius]
    return radius


@kernel
def _first_reach(away, sizes, n_codes, counts, reach):
    """Write how far away to go for clusters that have about `n_codes` together."""
    n_groups = len(reach)
    counts[:] = 0
    step = max(1, len(sizes) // SOME_CLUSTERS)
    for cluster in range(0, len(sizes), step):
        for q in range(len(counts)):
            distance = away[cluster * n_groups + q // BLOCK, q % BLOCK]
            counts[q, distance] += sizes[cluster]
    for q in range(len(counts)):
        reach[q // BLOCK, q % BLOCK] = _radius(counts, q, n_codes // step)


@kernel
def _scan(
    counting,
    index,
    live,
    queries,
    choices,
    away,
    reach,
    lasts,
    places,
    counts,
    nibbles,
    out,
    heaps,
):
    """Compare clusters with queries: those in reach, or rings that may hold neighbours.

    The latter begin at ``reach + tops``; those that begin right there hold codes that
    are at best as far away as the last neighbour, and may come too late. Blocks of a
    cluster follow each other inwards, so that behind one that no query needs, none is
    needed.
    """
    n_groups = len(reach)
    for cluster in range(len(index.sizes)):
        for block in range(index.clusters[cluster], index.clusters[cluster + 1]):
            more = np.uint8(0) if counting else index.tops[block]
            place = np.uint8(0) if counting else index.places[block]
            needed = False
            for half in range(2 * n_groups):
                group = half // 2
                row = cluster * n_groups + group
                bits = in_reach(away, row, reach, places, group, more, place, half % 2)
                while bits:
                    i = 64 * (half % 2) + np.int64(trailing_zeros(bits))
                    bits &= bits - _ONE
                    q = BLOCK * group + i
                    if q >= len(queries):
                        break
                    if not needed:
                        needed = True
                        unpack(index.blocks, block, nibbles)
                    last = np.int64(lasts[group, i])
                    if near(nibbles, choices, q, np.uint8(last), out, 0):
                        if counting:
                            last = _count_hits(
                                index, block, live, out, heaps.shape[1], counts, q, last
                            )
                        else:
                            last = _take_hits(
                                index, block, live, out, queries, q, last, heaps
                            )
                            places[group, i] = _place(
                                last, heaps[q, 0], len(index.positions)
                            )
                        lasts[group, i] = last
            if not needed:
                break


@kernel
def nearest(
    index, live, n_planes, n_first, queries, choices, query_blocks, room, heaps
):
    """Leave the keys of the nearest codes of each query in its heap, in no order.

    live (n,) : bool, by position, or (1,) where all codes are; n_first : codes, about,
    that a query is compared with at first; queries (n_queries, n_bytes) : uint8;
    choices and query_blocks : the same for `near`; room : see `search.pruned`; heaps
    (n_queries, k) : int64.
    """
    away, reach, lasts, places, counts, nibbles, out = room
    n_groups = len(query_blocks)
    for group in range(n_groups):
        unpack(query_blocks, group, nibbles)
        for cluster in range(len(index.sizes)):
            row = cluster * n_groups + group
            near(nibbles, index.center_choices, cluster, np.uint8(0), away, row)
    _first_reach(away, index.sizes, n_first, counts, reach)
    counts[:] = 0
    lasts[:] = min(n_planes + 1, MOST)
    places[:] = MOST
    heaps[:] = np.int64(n_planes + 1) << POSITION_BITS
    # The nearest clusters show how near the neighbours are, which others may hold too.
    for counting, near_enough in ((True, reach), (False, lasts)):
        _scan(
            counting,
            index,
            live,
            queries,
            choices,
            away,
            near_enough,
            lasts,
            places,
            counts,
            nibbles,
            out,
            heaps,
        )


@kernel
def _choose(index, start, stop, away, counting, reach, place, chosen):
    """Write which of some blocks a query needs; return how many. See `_scan`."""
    n = 0
    for block in range(start, stop):
        owner = index.owners[block]
        more = 0 if counting else np.int64(index.tops[block])
        late = index.places[block] > place
        chosen[n] = block
        # Nothing is known of how much larger distances of 255 are.
        to_center = min(away[owner // BLOCK, owner % BLOCK] + late, MOST)
        n += to_center <= reach + more
    return n


@kernel
def nearest_to_few(
    index, live, n_planes, n_first, start, stop, queries, choices, room, heaps
):
    """Do what `nearest` does, query by query, for codes in some of the blocks."""
    away, chosen, counts, nibbles, out = room
    sizes, k = index.sizes, heaps.shape[1]
    heaps[:] = np.int64(n_planes + 1) << POSITION_BITS
    for q in range(len(queries)):
        for block in range(len(index.center_blocks)):
            unpack(index.center_blocks, block, nibbles)
            near(nibbles, choices, q, np.uint8(0), away, block)
        counts[:] = 0
        for cluster in range(len(sizes)):
            counts[0, away[cluster // BLOCK, cluster % BLOCK]] += sizes[cluster]
        radius = _radius(counts, 0, n_first)
        counts[:] = 0
        last = min(n_planes + 1, MOST)
        for counting in (True, False):
            first, behind = (0, len(index.blocks)) if counting else (start, stop)
            for span in range(first, behind, SPAN):
                reach = radius if counting else last
                place = MOST
                if not counting:
                    place = _place(last, heaps[q, 0], len(index.positions))
                n_chosen = _choose(
                    index,
                    span,
                    min(span + SPAN, behind),
                    away,
                    counting,
                    reach,
                    place,
                    chosen,
                )
                for i in range(n_chosen):
                    block = chosen[i]
                    fetch(index.blocks, chosen[min(i + AHEAD, n_chosen - 1)])
                    unpack(index.blocks, block, nibbles)
                    if not near(nibbles, choices, q, np.uint8(last), out, 0):
                        continue
                    if counting:
                        last = _count_hits(index, block, live, out, k, counts, 0, last)
                    else:
                        last = _take_hits(
                            index, block, live, out, queries, q, last, heaps
                        )
