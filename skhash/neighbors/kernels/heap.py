"""A heap of entries in the order of (first, second); the last one stands on top."""

from skhash.utils.kernels import inner_kernel


@inner_kernel
def comes_before(first, second, other_first, other_second):
    """Return whether an entry comes before another one."""
    return first < other_first or (first == other_first and second < other_second)


@inner_kernel
def replace_top(firsts, seconds, first, second):
    """Put an entry in the place of the one on top."""
    size, hole, child = len(firsts), 0, 1
    while child < size:
        other = child + 1
        if other < size and comes_before(
            firsts[child], seconds[child], firsts[other], seconds[other]
        ):
            child = other
        if not comes_before(first, second, firsts[child], seconds[child]):
            break
        firsts[hole], seconds[hole] = firsts[child], seconds[child]
        hole, child = child, 2 * child + 1
    firsts[hole], seconds[hole] = first, second


@inner_kernel
def sort_heap(firsts, seconds):
    """Put the entries in their order; they are no heap then."""
    for size in range(len(firsts) - 1, 0, -1):
        first, second = firsts[size], seconds[size]
        firsts[size], seconds[size] = firsts[0], seconds[0]
        replace_top(firsts[:size], seconds[:size], first, second)
