"""Jaccard search by planes, see `kernels.planes`.

Codes with a and b ones have a distance of at least ``1 - min(a, b) / max(a, b)``
(Swamidass and Baldi, 2007). So blocks of codes are visited in the order of this bound,
and passed over where it is too large.
"""

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.kernels import planes as kernels
from skhash.neighbors.kernels.bitslice import LONG, SHORT, STEPS
from skhash.neighbors.kernels.planes import BLOCK, WORDS
from skhash.neighbors.search.base import Question, as_lists, by_query
from skhash.neighbors.search.chunks import live_codes, read_only, threads_for_pairs
from skhash.numerics._nearest import smallest
from skhash.utils.chunks import CHUNK_BYTES
from skhash.utils.threads import map_chunks

# Queries that share a pass over the codes, the bytes of one, and how many codes they
# find at a time, besides those of a block.
MAX_CHUNK, QUERY_BYTES, ROOM = 1024, 2**12, 2**16
# For more than `MANY` neighbours, a search of every eighth block estimates first how
# far away the last neighbour is.
MANY, SAMPLED = 100, 8


def find(what, store, selected, queries, reach, n_jobs):
    """Search a store of planes for packed queries; see `choose.find`."""
    planes, live = store["blocks"], selected.live
    if selected.positions is not None:
        live = np.zeros(store.n, dtype=bool)
        live[selected.positions] = True
    search = store.codes_key.once("planes", lambda: PlaneSearch(planes))
    question = Question(what, reach, n_jobs, live)
    return as_lists(question.ask(search, packed_to_words(queries)))


class PlaneSearch:
    """Searches codes by their Jaccard distance.

    Parameters
    ----------
    planes : Planes
    """

    def __init__(self, planes):
        n = len(planes)
        counts, starts = planes.counts[:n], np.arange(0, n, BLOCK)
        spans = [part.reduceat(counts, starts) for part in (np.minimum, np.maximum)]
        self.index = kernels.Index(
            read_only(planes.array),
            read_only(counts),
            read_only(planes.positions[:n]),
            read_only(np.stack(spans, axis=1).astype(np.int64)),
        )

    def nearest(self, queries, question):
        """Find the nearest codes; see `Algorithm.nearest`. Distances are floats."""
        k, live = question.reach, live_codes(question.live)
        if not k:
            return np.empty((len(queries), 0)), np.empty((len(queries), 0), np.int64)

        def find(asked, visits, k):
            shape, room = (len(asked.reach), k), _room(BLOCK)
            heaps = np.full(shape, np.inf), np.full(shape, len(self.index.counts))
            kernels.nearest(self.index, live, visits, asked, room, *heaps)
            return heaps

        def search(asked, visits):
            if k > MANY and len(visits) > 2 * SAMPLED:
                share = k / SAMPLED
                find(asked, visits[::SAMPLED].copy(), int(share + 4 * share**0.5))
            heaps = find(asked, visits, k)
            rest = np.flatnonzero(np.isinf(heaps[0][:, 0]))
            if len(rest):  # whose last neighbours are farther away
                farther = np.full(len(rest), np.inf)
                rest_asked = asked._replace(rows=asked.rows[rest], reach=farther)
                for heap, other in zip(heaps, find(rest_asked, visits, k), strict=True):
                    heap[rest] = other
            return smallest(*heaps, k)

        return self._map(search, queries, np.inf, question, 16 * k)

    def within(self, queries, question):
        """Find all codes within the radius; see `Algorithm.within`."""
        live = live_codes(question.live)

        def search(asked, visits):
            room, start, parts = _room(ROOM + BLOCK * len(asked.reach)), 0, [_room(0)]
            while start < len(visits):
                start, size = kernels.within(
                    self.index, live, visits, asked, start, room
                )
                parts.append([part[:size].copy() for part in room])
            owners, distances, positions = map(np.concatenate, zip(*parts, strict=True))
            return by_query(owners, positions, distances, len(asked.reach))

        return self._map(search, queries, question.reach, question, 1)

    def _map(self, search, queries, reach, question, bytes_per_query):
        """Call ``search(asked, visits)`` on chunks of queries, and join the answers."""
        n_ones, n = float(np.bitwise_count(queries).sum()), len(self.index.counts)
        threads = threads_for_pairs(n * n_ones / 64, question.n_jobs)
        has_live = np.ones(len(self.index.spans), dtype=bool)
        if question.live is not None:
            live = question.live[self.index.positions]
            has_live = np.logical_or.reduceat(live, np.arange(0, n, BLOCK))

        def answer(rows):
            asked = self._asked(queries[rows], reach)
            visits = self._visits(asked.rows[:, 0])
            return search(asked, visits[has_live[visits]])

        bytes_per_query += QUERY_BYTES + 6 * self.index.planes.shape[1]
        bytes_per_query += 16 * n_ones / len(queries)  # see `_asked`
        size = int(min(MAX_CHUNK, CHUNK_BYTES / bytes_per_query))
        chunks = map_chunks(answer, len(queries), size, threads)
        return tuple(map(np.concatenate, zip(*chunks, strict=True)))

    def _asked(self, queries, reach):
        """Return queries, and room to work in, for kernels."""
        bits = np.unpackbits(queries.view(np.uint8), axis=1, bitorder="little")
        ones, n = bits.sum(axis=1, dtype=np.int64), len(queries)
        levels = SHORT if ones.max() < 2**SHORT else LONG
        width = -(-ones.max() // STEPS[levels]) * STEPS[levels]
        rows = np.full((n, 1 + width), self.index.planes.shape[1] - 1, dtype=np.int32)
        rows[:, 0] = ones
        rows[:, 1:][np.arange(width) < ones[:, None]] = np.nonzero(bits)[1]
        asked = np.empty((n + 1, 2), dtype=np.int64)
        sums = np.empty((n + 1, levels + 1, WORDS), dtype=np.uint64)
        return kernels.Queries(rows, np.full(n, float(reach)), asked, sums)

    def _visits(self, ones):
        """Return the blocks, those first that can be the nearest to the queries."""
        ones = ones.sum() / len(ones) + 1  # 1, as none is no divisor
        likest = np.clip(ones, *(self.index.spans + 1).T)
        return np.argsort(np.maximum(ones / likest, likest / ones))


def _room(n):
    """Return room for codes that are found."""
    kinds = np.int32, np.float64, np.int64
    return kernels.Found(*(np.empty(n, dtype=kind) for kind in kinds))
