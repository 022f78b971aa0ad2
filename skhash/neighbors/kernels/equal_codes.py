"""The kernel of equal codes: one thread, no lock held."""

from skhash.utils.kernels import kernel


@kernel
def _push(heap, size, place, stop):
    """Put in postings whose first position is before those of all others."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        heap[0, child] = heap[0, parent]
        heap[1, child] = heap[1, parent]
        child = parent
    heap[0, 0] = place
    heap[1, 0] = stop


@kernel
def _settle(positions, heap, size):
    """Let the postings on top sink to where they belong."""
    place, stop = heap[0, 0], heap[1, 0]
    parent, child = 0, 1
    while child < size:
        other = child + 1
        if other < size and positions[heap[0, other]] < positions[heap[0, child]]:
            child = other
        if positions[place] < positions[heap[0, child]]:
            break
        heap[0, parent] = heap[0, child]
        heap[1, parent] = heap[1, child]
        parent, child = child, 2 * child + 1
    heap[0, parent] = place
    heap[1, parent] = stop


@kernel
def expand(
    distances,
    codes,
    found_starts,
    positions,
    starts,
    new_starts,
    heap,
    new_distances,
    new_positions,
):
    """Write the positions of the codes that were found, query by query.

    distances and codes (n_found,) : ordered by query, distance and code; found_starts
    (n_queries + 1,) : where those of each query begin; positions and starts : those of
    `EqualCodes`; new_starts (n_queries + 1,) : where to write, and how many; heap
    (2, most found by a query) : room; new_distances and new_positions : written.

    Codes that are equally near are merged by a heap of their next positions. As their
    first positions ascend, none enters it before it is needed.
    """
    for query in range(len(found_starts) - 1):
        slot, full = new_starts[query], new_starts[query + 1]
        found, size = found_starts[query], 0
        while slot < full:
            if size == 0:
                distance = distances[found]
            if found < found_starts[query + 1] and distances[found] == distance:
                place, stop = starts[codes[found]], starts[codes[found] + 1]
                if size == 0 or positions[place] < positions[heap[0, 0]]:
                    _push(heap, size, place, stop)
                    size += 1
                    found += 1
            new_distances[slot] = distance
            new_positions[slot] = positions[heap[0, 0]]
            slot += 1
            heap[0, 0] += 1
            if heap[0, 0] == heap[1, 0]:
                size -= 1
                heap[0, 0], heap[1, 0] = heap[0, size], heap[1, size]
            _settle(positions, heap, size)
