"""The kernels of multi-index hashing: one thread, no lock held."""

from collections import namedtuple

import numpy as np

from skhash.neighbors.kernels.bits import POSITION_BITS, distance_of, is_live
from skhash.utils.kernels import inner_kernel, kernel, popcount

# Codes by the bits of each part, and which of them to look up. firsts (n_parts,) :
# where the table of a part begins in `starts`; positions (n_parts, n); masks
# (n_parts, n_words) : uint64, the bits of a part; radii (n_parts,) : the bits that
# may differ there; flip_starts (n_parts + 1,) and flips : which those may be.
Tables = namedtuple("Tables", "firsts starts positions masks radii flip_starts flips")


# Queries to look up. queries (n_queries, n_words) : uint64; keys (n_queries, n_parts)
# : int64, their bits of each part; floors (n_queries,) : int64, the last position
# that does not count.
Batch = namedtuple("Batch", "queries keys floors")


@kernel
def fill(keys, slots, positions):
    """Write the positions ordered by key; slots : where each key begins."""
    for i in range(len(keys)):
        positions[slots[keys[i]]] = i
        slots[keys[i]] += 1


@inner_kernel
def _found_before(words, position, queries, q, tables, part):
    """Return whether an earlier part finds this code too."""
    for earlier in range(part):
        distance = 0
        for word in range(words.shape[1]):
            differ = words[position, word] ^ queries[q, word]
            distance += np.int64(popcount(differ & tables.masks[earlier, word]))
        if distance <= tables.radii[earlier]:
            return True
    return False


@inner_kernel
def _look_up(words, live, tables, batch, q, radius, keys, size):
    """Append the codes found by one query; return the size, even if `keys` is full."""
    for part in range(len(tables.firsts)):
        for flip in range(tables.flip_starts[part], tables.flip_starts[part + 1]):
            entry = tables.firsts[part] + (batch.keys[q, part] ^ tables.flips[flip])
            start, place = tables.starts[entry], tables.starts[entry + 1] - 1
            # From the last one down to the floor, as they ascend.
            while place >= start and tables.positions[part, place] > batch.floors[q]:
                position = np.int64(tables.positions[part, place])
                place -= 1
                distance = distance_of(words, position, batch.queries, q)
                if distance > radius or not is_live(live, position):
                    continue
                if _found_before(words, position, batch.queries, q, tables, part):
                    continue
                if size < len(keys):
                    keys[size] = (distance << POSITION_BITS) | position
                size += 1
    return size


@kernel
def find(words, live, tables, batch, radius, most, counts, keys):
    """Write the `most` nearest of the codes found, query by query, in order.

    Return how many queries were answered, and the room that the next one needs if it
    did not fit into what the others left of `keys`.

    words (n, n_words) : uint64; live : see `is_live`; counts (n_queries,) : int64,
    written: the answers of a query; keys : int64, written.
    """
    size = 0
    for q in range(len(batch.queries)):
        start = size
        size = _look_up(words, live, tables, batch, q, radius, keys, size)
        if size > len(keys):
            return q, size - start
        keys[start:size].sort()
        counts[q] = min(size - start, most)
        size = start + counts[q]
    return len(batch.queries), 0
