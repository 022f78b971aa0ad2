"""The kernels of multi-index hashing: one thread, no lock held."""

import numpy as np

from skhash.utils.kernels import kernel, popcount

# An answer is a number: the distance above, the position in the lower bits.
POSITION_BITS = 44


@kernel
def fill(keys, slots, positions):
    """Write the positions ordered by key; slots : where each key begins."""
    for i in range(len(keys)):
        positions[slots[keys[i]]] = i
        slots[keys[i]] += 1


@kernel
def _found_before(words, position, queries, q, masks, radii, part):
    """Return whether an earlier part finds this code too."""
    for earlier in range(part):
        distance = 0
        for word in range(words.shape[1]):
            differ = (words[position, word] ^ queries[q, word]) & masks[earlier, word]
            distance += np.int64(popcount(differ))
        if distance <= radii[earlier]:
            return True
    return False


@kernel
def find(
    words,
    live,
    queries,
    keys,
    floors,
    radius,
    most,
    firsts,
    starts,
    positions,
    masks,
    radii,
    flip_starts,
    flips,
    counts,
    found,
):
    """Write the `most` nearest of the codes found, query by query, in order.

    Return how many queries were answered, and the room that the next one needs if it
    did not fit into what the others left of `found`.

    live (n,) : bool, or (1,) where all codes are; keys (n_queries, n_parts) : int64;
    floors (n_queries,) : int64, the last position that does not count; firsts
    (n_parts,) : where the table of a part begins in `starts`; positions (n_parts, n);
    masks (n_parts, n_words) : uint64, the bits of a part; radii (n_parts,) : the bits
    that may differ there; flip_starts (n_parts + 1,) and flips : which those may be;
    counts (n_queries,) : int64, written: the answers of a query; found : int64,
    written.
    """
    size = 0
    for q in range(len(queries)):
        start = size
        for part in range(len(firsts)):
            for flip in range(flip_starts[part], flip_starts[part + 1]):
                entry = firsts[part] + (keys[q, part] ^ flips[flip])
                # From the last one down to the floor, as they ascend.
                for place in range(starts[entry + 1] - 1, starts[entry] - 1, -1):
                    position = positions[part, place]
                    if position <= floors[q]:
                        break
                    distance = 0
                    for word in range(words.shape[1]):
                        differ = words[position, word] ^ queries[q, word]
                        distance += np.int64(popcount(differ))
                    if distance > radius or (len(live) > 1 and not live[position]):
                        continue
                    if _found_before(words, position, queries, q, masks, radii, part):
                        continue
                    if size < len(found):
                        found[size] = (distance << POSITION_BITS) | position
                    size += 1
        if size > len(found):
            return q, size - start
        found[start:size].sort()
        counts[q] = min(size - start, most)
        size = start + counts[q]
    return len(queries), 0
