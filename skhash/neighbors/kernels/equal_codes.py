"""The kernel of equal codes: one thread, no lock held."""

from skhash.neighbors.kernels.heap import replace_top
from skhash.utils.kernels import inner_kernel, kernel


@inner_kernel
def _push(heap, size, first, second):
    """Put an entry on top of a heap that comes behind all others."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        heap[0, child], heap[1, child] = heap[0, parent], heap[1, parent]
        child = parent
    heap[0, 0], heap[1, 0] = first, second


@kernel
def expand(distances, codes, found_starts, equal, new_starts, room, new):
    """Write the positions of the codes that were found, query by query.

    distances and codes (n_found,) : ordered by query, distance and code; found_starts
    (n_queries + 1,) : where those of each query begin; equal : positions and starts of
    `EqualCodes`; new_starts (n_queries + 1,) : where to write, and how many; room (3,
    most found by a query) : int64; new : distances and positions, written.

    Codes that are equally near are merged by a heap of their next positions, negative,
    so that the first one stands on top. As their first positions ascend, none enters it
    before it is needed.
    """
    (positions, starts), (new_distances, new_positions) = equal, new
    heap, places = room[:2], room[2]
    for query in range(len(found_starts) - 1):
        slot, full = new_starts[query], new_starts[query + 1]
        first_found, found, size = found_starts[query], found_starts[query], 0
        while slot < full:
            if size == 0:
                distance = distances[found]
            if found < found_starts[query + 1] and distances[found] == distance:
                place = starts[codes[found]]
                if size == 0 or positions[place] < -heap[0, 0]:
                    _push(heap, size, -positions[place], found)
                    places[found - first_found] = place
                    size += 1
                    found += 1
            new_distances[slot], new_positions[slot] = distance, -heap[0, 0]
            slot += 1
            code = heap[1, 0]
            place = places[code - first_found] + 1
            if place < starts[codes[code] + 1]:
                places[code - first_found] = place
                replace_top(heap[0, :size], heap[1, :size], -positions[place], code)
                continue
            size -= 1
            last = heap[0, size], heap[1, size]
            if size:
                replace_top(heap[0, :size], heap[1, :size], last[0], last[1])
