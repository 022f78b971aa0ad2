"""The kernels of pruned search: one thread, no lock held.

A query keeps the k first codes in the order of (distance, position) in a heap: a code
enters if it comes before the last of them.

Distances are bytes; 255 stands for larger ones too, which are computed again where it
matters. Where a byte is not precise enough, more codes are compared.

Arguments of all kernels: index : `Index`; live : see `is_live`; batch : `Batch`; whole
and rings : `Rings`, of clusters that are needed as a whole, and of blocks.
"""

from collections import namedtuple

import numpy as np

from skhash.neighbors.kernels.bits import (
    ONE,
    POSITION_BITS,
    at_most,
    is_live,
    trailing_zeros,
)
from skhash.neighbors.kernels.heap import comes_before, replace_top
from skhash.neighbors.kernels.nibbles import BLOCK, MOST, fetch, in_reach, near, unpack
from skhash.utils.kernels import inlined_kernel, inner_kernel, kernel, popcount

# Evenly spread clusters that a batch of queries samples to find near ones.
SOME_CLUSTERS = 256
# Blocks that one query chooses among at a time, and how long before their turn they are
# asked for from memory.
SPAN, AHEAD = 128, 4


# Codes in clusters, cut into blocks; in each, those far from the center first: blocks
# (n_blocks, n_bytes, 128) : uint8; starts (n_blocks + 1,) : int64, where the codes of a
# block begin in `positions`; lowest (n_blocks,) : the least position; positions (n,);
# clusters (n_clusters + 1,) : int64, where the blocks of a cluster begin; sizes
# (n_clusters,) : int64, its codes; center_blocks : the centers as blocks;
# center_choices : and as queries.
Index = namedtuple(
    "Index",
    "blocks starts lowest positions clusters sizes center_blocks center_choices",
)
# Bounds for whether a query needs a block: owners (n_blocks,) : int64, the cluster;
# tops (n_blocks,) : uint8, the largest distance to the center; places (n_blocks,) :
# uint8, see `_place`, the least at the largest distance. Of clusters that are needed as
# a whole, tops and places are 0.
Rings = namedtuple("Rings", "owners tops places")
# Queries, what they found, and room to work in: queries (n_queries, n_bytes) and
# choices (n_queries, 2 * n_bytes), for `near` : uint8; distances and positions
# (n_queries, k) : int64, heaps; counts (n_queries, 256) : int64, codes by distance, and
# behind them how many are nearer than the k-th may be; chosen : int64, as many as
# queries or SPAN; nibbles (2 * n_bytes, 128) and out (1, 128) : uint8.
# A group is 128 queries, one of them for few queries: away (n_clusters * groups, 128),
# the distances to centers, and for few (centers / 128, 128); reach, lasts and places
# (groups, 128) : uint8, how far away clusters are looked at, how far away the k-th
# neighbour is at most, and its `_place`.
Batch = namedtuple(
    "Batch",
    "queries choices distances positions counts chosen nibbles out away reach lasts "
    "places",
)


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


@inner_kernel
def _distance(blocks, block, i, queries, q):
    distance = 0
    for byte in range(blocks.shape[1]):
        differ = blocks[block, byte, i] ^ queries[q, byte]
        distance += np.int64(popcount(np.uint64(differ)))
    return distance


@inlined_kernel
def _take_hits(index, block, live, batch, q, last):
    """Add the codes of a block that come before the last one in a heap.

    Return how far away the k-th nearest may be, which was `last` before.
    """
    distances, positions = batch.distances[q], batch.positions[q]
    start, stop = index.starts[block], index.starts[block + 1]
    # At the distance of the last one, those behind its position come too late.
    reach = distances[0] - (index.lowest[block] >= positions[0])
    for half in range(2 if reach >= 0 else 0):
        bits = at_most(batch.out, half, np.uint8(min(reach, MOST)))
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if start + i >= stop:
                break
            distance = np.int64(batch.out[0, i])
            if distance == MOST:
                distance = _distance(index.blocks, block, i, batch.queries, q)
            position = np.int64(index.positions[start + i])
            enters = comes_before(distance, position, distances[0], positions[0])
            if enters and is_live(live, position):
                replace_top(distances, positions, distance, position)
    return min(distances[0], last)


@inlined_kernel
def _count_hits(index, block, live, batch, q, last):
    """Count codes nearer than `last`; return the distance of the k-th, or `last`."""
    start, stop = index.starts[block], index.starts[block + 1]
    counts, k = batch.counts[q], batch.distances.shape[1]
    for half in range(2):
        if last == 0:
            break
        bits = at_most(batch.out, half, np.uint8(last - 1))
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if start + i >= stop:
                break
            if not is_live(live, index.positions[start + i]):
                continue
            distance = batch.out[0, i]
            counts[distance] += 1
            counts[MOST] += distance < last
            while counts[MOST] >= k:
                last -= 1
                counts[MOST] -= counts[last]
    return last


@inner_kernel
def _place(last, batch, q, n):
    """Return the place behind which codes at the last distance come too late.

    Places are positions in a byte, 0 to 255 for all codes; 255 is that of none.
    """
    if batch.distances[q, 0] != last:
        return MOST
    return batch.positions[q, 0] * 256 // n


@inner_kernel
def _radius(counts, n_codes):
    """Return the radius that holds `n_codes` codes."""
    n, radius = counts[0], 0
    while n < n_codes and radius < MOST - 1:
        radius += 1
        n += counts[radius]
    return radius


@inner_kernel
def _first_reach(index, batch, n_codes):
    """Write the reach at which clusters have about `n_codes` together."""
    n_groups = len(batch.reach)
    step = max(1, len(index.sizes) // SOME_CLUSTERS)
    for cluster in range(0, len(index.sizes), step):
        for q in range(len(batch.counts)):
            distance = batch.away[cluster * n_groups + q // BLOCK, q % BLOCK]
            batch.counts[q, distance] += index.sizes[cluster]
    for q in range(len(batch.counts)):
        radius = _radius(batch.counts[q], n_codes // step)
        batch.reach[q // BLOCK, q % BLOCK] = radius
        batch.counts[q] = 0


@inlined_kernel
def _choose_queries(rings, cluster, block, batch, reach):
    """Write the queries that need a block; return how many.

    Rings begin at ``reach + tops``; those that begin right there hold codes that are at
    best as far away as the last neighbour, and may come too late.
    """
    n, more, place = 0, rings.tops[block], rings.places[block]
    n_halves = 2 * len(reach)
    for half in range(n_halves):
        part = cluster * n_halves + half
        bits = in_reach(batch.away, part, reach, batch.places, half, more, place)
        while bits:
            q = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if q >= len(batch.queries):
                break
            batch.chosen[n] = q
            n += 1
    return n


@inner_kernel
def _look_through(index, rings, reach, live, batch, takes):
    """Compare queries with codes in reach: count the near ones, or take them.

    Blocks of a cluster follow each other inwards, so that behind one that no query
    needs, none is needed.
    """
    n = len(index.positions)
    for cluster in range(len(index.sizes)):
        for block in range(index.clusters[cluster], index.clusters[cluster + 1]):
            n_chosen = _choose_queries(rings, cluster, block, batch, reach)
            if not n_chosen:
                break
            unpack(index.blocks, block, batch.nibbles)
            for q in batch.chosen[:n_chosen]:
                last = batch.lasts[q // BLOCK, q % BLOCK]
                if not near(batch.nibbles, batch.choices, q, last, batch.out, 0):
                    continue
                if takes:
                    last = _take_hits(index, block, live, batch, q, np.int64(last))
                    batch.places[q // BLOCK, q % BLOCK] = _place(last, batch, q, n)
                else:
                    last = _count_hits(index, block, live, batch, q, np.int64(last))
                batch.lasts[q // BLOCK, q % BLOCK] = last


@inner_kernel
def _compare_with_centers(index, query_blocks, batch):
    """Write the distances of the centers from queries."""
    n_groups, zero = len(query_blocks), np.uint8(0)
    for group in range(n_groups):
        unpack(query_blocks, group, batch.nibbles)
        for cluster in range(len(index.sizes)):
            row = cluster * n_groups + group
            near(batch.nibbles, index.center_choices, cluster, zero, batch.away, row)


@kernel
def nearest(index, whole, rings, live, n_first, query_blocks, batch):
    """Leave the nearest codes of each query in its heap, in no order.

    n_first : codes, about, that a query is compared with at first; query_blocks : the
    queries, for `near`.
    """
    _compare_with_centers(index, query_blocks, batch)
    _first_reach(index, batch, n_first)
    # The nearest clusters show how near the neighbours are, which others may hold too.
    _look_through(index, whole, batch.reach, live, batch, takes=False)
    _look_through(index, rings, batch.lasts, live, batch, takes=True)


@inner_kernel
def _choose_blocks(rings, start, stop, batch, reach, place):
    """Write which of the blocks a query needs; return how many."""
    n = 0
    for block in range(start, stop):
        owner = rings.owners[block]
        late = rings.places[block] > place
        batch.chosen[n] = block
        # Nothing is known of how much larger distances of 255 are.
        to_center = min(batch.away[owner // BLOCK, owner % BLOCK] + late, MOST)
        n += to_center <= reach + np.int64(rings.tops[block])
    return n


@inner_kernel
def _is_near(blocks, batch, i, n_chosen, q, last):
    """Compare one query with one of the blocks chosen, and fetch one of the next."""
    fetch(blocks, batch.chosen[min(i + AHEAD, n_chosen - 1)])
    unpack(blocks, batch.chosen[i], batch.nibbles)
    return near(batch.nibbles, batch.choices, q, np.uint8(last), batch.out, 0)


@inner_kernel
def _count_near_one(index, whole, live, batch, q, radius):
    """Count like `_count_near`, for one query and a radius; return how near."""
    last = np.int64(batch.lasts[0, 0])
    for start in range(0, len(index.blocks), SPAN):
        stop = min(start + SPAN, len(index.blocks))
        n_chosen = _choose_blocks(whole, start, stop, batch, radius, MOST)
        for i in range(n_chosen):
            if _is_near(index.blocks, batch, i, n_chosen, q, last):
                last = _count_hits(index, batch.chosen[i], live, batch, q, last)
    return last


@inner_kernel
def _compare_one_with_centers(index, batch, q):
    for block in range(len(index.center_blocks)):
        unpack(index.center_blocks, block, batch.nibbles)
        near(batch.nibbles, batch.choices, q, np.uint8(0), batch.away, block)


@kernel
def nearest_to_few(index, whole, rings, live, n_first, part, batch):
    """Search like `nearest`, query by query, for codes in part of the blocks.

    part : the first block, and where they end.
    """
    for q in range(len(batch.queries)):
        _compare_one_with_centers(index, batch, q)
        counts = batch.counts[q]
        for cluster in range(len(index.sizes)):
            away = batch.away[cluster // BLOCK, cluster % BLOCK]
            counts[away] += index.sizes[cluster]
        radius = _radius(counts, n_first)
        counts[:] = 0
        last = _count_near_one(index, whole, live, batch, q, radius)
        for start in range(part[0], part[1], SPAN):
            place = _place(last, batch, q, len(index.positions))
            stop = min(start + SPAN, part[1])
            n_chosen = _choose_blocks(rings, start, stop, batch, last, place)
            for i in range(n_chosen):
                if _is_near(index.blocks, batch, i, n_chosen, q, last):
                    last = _take_hits(index, batch.chosen[i], live, batch, q, last)


@inlined_kernel
def _note_hits(index, block, live, batch, q, radius, keys, size):
    """Append the codes of a block within the radius; return the new size."""
    start, stop = index.starts[block], index.starts[block + 1]
    for half in range(2):
        bits = at_most(batch.out, half, np.uint8(radius))
        while bits:
            i = 64 * half + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if start + i >= stop:
                break
            position = np.int64(index.positions[start + i])
            if is_live(live, position):
                row = q * (radius + 1) + np.int64(batch.out[0, i])
                keys[size] = (row << POSITION_BITS) | position
                size += 1
    return size


@kernel
def within(index, rings, live, radius, query_blocks, begin, batch, keys):
    """Write codes within the radius to `keys`, from the block `begin` on.

    Return where the next call goes on, as `keys` may be full, and how many it has, in
    no order: numbers as of `brute.within`. `batch` is that of the call before, and its
    `reach` the radius; keys : int64, with room for a block of all queries at least.
    """
    if begin == 0:
        _compare_with_centers(index, query_blocks, batch)
    size, most = 0, np.uint8(radius)
    for cluster in range(rings.owners[begin], len(index.sizes)):
        begin = max(begin, index.clusters[cluster])
        for block in range(begin, index.clusters[cluster + 1]):
            if size + BLOCK * len(batch.queries) > len(keys):
                return block, size
            n_chosen = _choose_queries(rings, cluster, block, batch, batch.reach)
            if not n_chosen:
                break
            unpack(index.blocks, block, batch.nibbles)
            for q in batch.chosen[:n_chosen]:
                if near(batch.nibbles, batch.choices, q, most, batch.out, 0):
                    size = _note_hits(index, block, live, batch, q, radius, keys, size)
    return len(index.blocks), size


@kernel
def within_of_one(index, rings, live, radius, part, q, batch, keys):
    """Search like `within`, for one query, and for codes in part of the blocks.

    part : the first block, and where they end.
    """
    _compare_one_with_centers(index, batch, q)
    size = 0
    for start in range(part[0], part[1], SPAN):
        if size + SPAN * BLOCK > len(keys):
            return start, size
        stop = min(start + SPAN, part[1])
        n_chosen = _choose_blocks(rings, start, stop, batch, radius, MOST)
        for i in range(n_chosen):
            if _is_near(index.blocks, batch, i, n_chosen, q, radius):
                block = batch.chosen[i]
                size = _note_hits(index, block, live, batch, q, radius, keys, size)
    return part[1], size
