"""The compiled part of `_counts`: one pass over the database for each query."""

import numpy as np

from skhash.utils.kernels import inner_kernel, kernel, popcount

BLOCK = 1024


@inner_kernel
def _block_distances(query, database, start, stop, distances):
    """Write the distances of the codes start..stop to one query.

    One plain loop a word over a short buffer: that vectorizes.
    """
    words = database[0, start:stop]
    for j in range(len(words)):
        distances[j] = np.uint32(popcount(words[j] ^ query[0]))
    for w in range(1, len(query)):
        words = database[w, start:stop]
        for j in range(len(words)):
            distances[j] += np.uint32(popcount(words[j] ^ query[w]))


@inner_kernel
def _block_levels(wanted, classes, masks, top, start, stop, levels):
    """Write the levels of relevance of the codes start..stop, at most `top`."""
    if masks.shape[0] == 0:
        for j in range(stop - start):
            levels[j] = np.uint32(classes[start + j] == wanted[0])
        return
    words = masks[0, start:stop]
    for j in range(len(words)):
        levels[j] = np.uint32(popcount(words[j] & wanted[0]))
    for w in range(1, len(wanted)):
        words = masks[w, start:stop]
        for j in range(len(words)):
            levels[j] += np.uint32(popcount(words[j] & wanted[w]))
    for j in range(stop - start):
        levels[j] = min(levels[j], np.uint32(top))


@kernel
def joint_counts(sides, levels, first, counts):
    """Fill ``counts[i, distance * levels + level]``; with `first` >= 0, code first + i
    is left out for query i."""
    queries, database, wanted, classes, masks = sides
    n = database.shape[1]
    keys = np.empty(BLOCK, dtype=np.uint32)
    block_levels = np.empty(BLOCK, dtype=np.uint32)
    # Four tables in turn: neighbouring codes are often at the same distance, and one
    # counter would make each increment wait for the store of the one before.
    tables = np.empty((4, counts.shape[1]), dtype=np.uint32)
    for i in range(len(queries)):
        tables[:] = 0
        excluded = first + i if first >= 0 else -1
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            _block_distances(queries[i], database, start, stop, keys)
            if levels > 1:
                _block_levels(
                    wanted[i], classes, masks, levels - 1, start, stop, block_levels
                )
                for j in range(stop - start):
                    keys[j] = keys[j] * np.uint32(levels) + block_levels[j]
            fours = (stop - start) // 4 * 4
            for j in range(0, fours, 4):
                tables[0, keys[j]] += np.uint32(1)
                tables[1, keys[j + 1]] += np.uint32(1)
                tables[2, keys[j + 2]] += np.uint32(1)
                tables[3, keys[j + 3]] += np.uint32(1)
            for j in range(fours, stop - start):
                tables[0, keys[j]] += np.uint32(1)
            if start <= excluded < stop:
                counts[i, keys[excluded - start]] -= 1
        for key in range(counts.shape[1]):
            for table in range(4):
                counts[i, key] += tables[table, key]


@inner_kernel
def _start_ranks(counts, levels, ranks, hits_so_far):
    """Write how many codes, and relevant ones, are nearer than each distance."""
    nearer = hits = 0
    for distance in range(len(ranks)):
        ranks[distance], hits_so_far[distance] = nearer, hits
        for level in range(levels):
            count = counts[distance * levels + level]
            nearer += count
            hits += count if level > 0 else 0


@kernel
def ordered_sums(sides, first, counts, gains, discount, sums):
    """Sum hits, precisions at hits, and discounted gains of the order by position.

    A counting sort without the sorting: a first pass counted, so the rank of a code is
    the number of nearer codes plus that of the codes met so far at its distance.
    """
    queries, database, wanted, classes, masks = sides
    n, k, levels = database.shape[1], len(discount), len(gains)
    distances = np.empty(BLOCK, dtype=np.uint32)
    block_levels = np.empty(BLOCK, dtype=np.uint32)
    block_ranks = np.empty(BLOCK, dtype=np.int64)
    relevant = np.empty(BLOCK, dtype=np.uint32)
    ranks = np.empty(counts.shape[1] // levels, dtype=np.int64)
    hits_so_far = np.empty_like(ranks)
    for i in range(len(queries)):
        _start_ranks(counts[i], levels, ranks, hits_so_far)
        excluded = first + i if first >= 0 else -1
        hits, precision, gain = 0, 0.0, 0.0
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            _block_distances(queries[i], database, start, stop, distances)
            _block_levels(
                wanted[i], classes, masks, levels - 1, start, stop, block_levels
            )
            if start <= excluded < stop:
                block_levels[excluded - start] = 0
            n_relevant = 0  # collected without a branch, which would be a gamble
            for j in range(stop - start):
                ranks[distances[j]] += np.int64(start + j != excluded)
                block_ranks[j] = ranks[distances[j]]
                relevant[n_relevant] = j
                n_relevant += np.int64(block_levels[j] > 0)
            for j in relevant[:n_relevant]:
                hits_so_far[distances[j]] += 1
                rank = block_ranks[j]
                if rank <= k:
                    hits += 1
                    precision += hits_so_far[distances[j]] / rank
                    gain += gains[block_levels[j]] * discount[rank - 1]
        sums[i, 0], sums[i, 1], sums[i, 2] = hits, precision, gain


@kernel
def ranks_of(sides, first, counts, items, item_ranks):
    """Write the rank by (distance, position) of each item; `items` ascend in a row."""
    queries, database = sides
    n = database.shape[1]
    distances = np.empty(BLOCK, dtype=np.uint32)
    ranks = np.empty(counts.shape[1], dtype=np.int64)
    hits_so_far = np.empty_like(ranks)
    for i in range(len(queries)):
        _start_ranks(counts[i], 1, ranks, hits_so_far)
        excluded = first + i if first >= 0 else -1
        t = 0
        for start in range(0, n, BLOCK):
            if t == items.shape[1]:
                break
            stop = min(start + BLOCK, n)
            _block_distances(queries[i], database, start, stop, distances)
            for j in range(stop - start):
                if start + j == excluded:
                    continue
                ranks[distances[j]] += 1
                if t < items.shape[1] and start + j == items[i, t]:
                    item_ranks[i, t] = ranks[distances[j]]
                    t += 1
