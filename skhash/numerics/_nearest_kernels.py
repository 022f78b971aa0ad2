"""The compiled part of `skhash.numerics._nearest`: the smallest keys of a block."""

from functools import partial

from skhash.utils.kernels import inner_kernel, kernel

# Without NaN, and in any order, several numbers are taken at once.
MANY = {"nnan", "nsz", "reassoc", "contract"}
GROUP = 32  # columns that are passed over together where no key can be small enough


@partial(inner_kernel, fastmath=MANY)
def _smallest_key(keys, first):
    smallest = keys[first]
    for i in range(1, GROUP):
        key = keys[first + i]
        smallest = key if key < smallest else smallest
    return smallest


@inner_kernel
def _insert(key, row, nearest, rows):
    place = len(nearest) - 1
    while place > 0 and key < nearest[place - 1]:
        nearest[place], rows[place] = nearest[place - 1], rows[place - 1]
        place -= 1
    nearest[place], rows[place] = key, row


@kernel
def take_nearest(keys, start, best_keys, best_rows):
    """Insert keys that are smaller into the lists of the smallest.

    Of equal keys those of the first rows stay.

    Parameters
    ----------
    keys : ndarray of shape (n_queries, n), float32
    start : int
        The row that the first column belongs to.
    best_keys : ndarray of shape (n_queries, n_neighbors), float32
        Ascending. Written to, as the next one.
    best_rows : ndarray of shape (n_queries, n_neighbors), int64
    """
    n = keys.shape[1]
    for query in range(len(keys)):
        query_keys, nearest, rows = keys[query], best_keys[query], best_rows[query]
        for first in range(0, n, GROUP):
            if first + GROUP <= n and _smallest_key(query_keys, first) >= nearest[-1]:
                continue
            for column in range(first, min(first + GROUP, n)):
                if query_keys[column] < nearest[-1]:
                    _insert(query_keys[column], start + column, nearest, rows)
