"""The compiled search of `skhash.algebra._graph` in a block of keys."""

from skhash.utils.kernels import inner_kernel, kernel

GROUP = 32  # columns of which only the smallest key is looked at, if it is too large


def _smallest_key(keys, first):
    """Return the smallest of a whole group."""
    smallest = keys[first]
    for i in range(1, GROUP):
        key = keys[first + i]
        smallest = key if key < smallest else smallest
    return smallest


# Without NaN, several keys are compared at once.
_smallest = inner_kernel(_smallest_key, fastmath={"nnan", "nsz"}, inline="always")


def _take_nearest(keys, start, best_keys, best_rows):
    """Take what is smaller into the sorted lists of the smallest keys.

    Of equal keys those of the first rows stay.

    Parameters
    ----------
    keys : ndarray of shape (n_queries, n), float32
    start : int
        The row that the first column belongs to.
    best_keys : ndarray of shape (n_queries, n_neighbors), float32
        Written to, as the next one. Each row ascends.
    best_rows : ndarray of shape (n_queries, n_neighbors), int64
    """
    n_queries, n = keys.shape
    k = best_keys.shape[1]
    for query in range(n_queries):
        own, nearest, rows = keys[query], best_keys[query], best_rows[query]
        for first in range(0, n, GROUP):
            if first + GROUP <= n and _smallest(own, first) >= nearest[k - 1]:
                continue
            for column in range(first, min(first + GROUP, n)):
                key = own[column]
                if key >= nearest[k - 1]:
                    continue
                place = k - 1
                while place > 0 and key < nearest[place - 1]:
                    nearest[place], rows[place] = nearest[place - 1], rows[place - 1]
                    place -= 1
                nearest[place], rows[place] = key, start + column


take_nearest = kernel(_take_nearest, fastmath={"nnan", "nsz"})
