"""Multi-index hashing: codes within a small radius, found by table look-ups.

A code is cut into m parts of its bits. If two codes differ by r bits in all, they
differ by r // m bits or fewer in some part, so it is enough to look up, for each part,
the codes that differ from the query there by at most r // m bits (Norouzi, Punjani
and Fleet, 2012). Codes found are then compared whole. The answer is exact; only the
time depends on the data.
"""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np

from skhash.neighbors.kernels import multi_index as kernels
from skhash.neighbors.kernels.bits import POSITION, POSITION_BITS
from skhash.neighbors.search.base import Algorithm
from skhash.neighbors.search.chunks import live_codes, read_only
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import fork_locks
from skhash.utils.threads import map_chunks, threads_for

# Rows for the correlations of bits.
SAMPLE_ROWS = 10_000
# Queries answered at a time per thread, and its room for answers; a query with more
# gets the room it needs.
CHUNK, ROOM = 1024, 2**16
# The cost of work that is worth a thread, see `choose`; that of a query, of a
# look-up, and of a code that is compared. The last two miss the cache.
MIN_THREAD_COST = 2**23
QUERY_COST, LOOKUP_COST, CODE_COST = 40_000.0, 400.0, 250.0


class MultiIndex(Algorithm):
    """Tables of the codes by the bits of each part.

    Notes
    -----
    Memory is 4 bytes a code and part (8 for 2^31 codes or more), and tables of no more
    entries than there are codes. Parts have at most log2(n) bits: a million codes of 64
    bits have 4 parts of 16, and 2^22 codes or more have 3 parts of 21 or 22.
    """

    making = 8000.0
    parts = _crowds = None

    @property
    def is_made(self):
        return self.parts is not None

    @property
    def nbytes(self):
        return self.starts.nbytes + self.positions.nbytes if self.is_made else 0

    def bytes_to_make(self):
        # A number a code for each part, and its place in one of them; a sample of the
        # bits, as bytes and as floats, and three matrices of their correlations.
        n, n_planes = len(self.words), self.n_planes
        numbers = (4 if n < 2**31 else 8) * (_n_parts(n, n_planes) + 1) + 8
        return n * numbers + n_planes * (5 * min(n, SAMPLE_ROWS) + 12 * n_planes)

    def make(self, n_jobs=None):
        n, n_words = self.words.shape
        bits = _bits(self.words[:: -(-n // SAMPLE_ROWS)], self.n_planes)
        parts = _parts(bits, _n_parts(n, self.n_planes))
        self.masks = np.stack([_mask(part, n_words) for part in parts])
        kind = np.int32 if n < 2**31 else np.int64
        sizes = [2 ** len(part) + 1 for part in parts]
        self.firsts = np.cumsum([0, *sizes[:-1]])
        self.starts = np.zeros(sum(sizes), dtype=kind)
        self.positions = np.empty((len(parts), n), dtype=kind)
        crowds = []
        for part, first, size, positions in zip(
            parts, self.firsts, sizes, self.positions, strict=True
        ):
            keys = _keys(self.words, self.n_planes, part)
            counts = np.bincount(keys, minlength=size - 1)
            starts = self.starts[first : first + size]
            np.cumsum(counts, out=starts[1:])
            kernels.fill(keys, starts[:-1].copy(), positions)
            # The expected number of codes that a query finds, if it is like the codes.
            crowds.append(float(np.square(counts, dtype=float).sum() / n))
        self._crowds = tuple(crowds)
        self.parts = parts

    def look_up_cost(self, radius):
        """Return the cost of a query: measured, or estimated before tables exist."""
        return _cost(len(self.words), self.n_planes, self._crowds, radius)

    def plan(self, reached, compare):
        """Return the cost of a query for neighbours, and the radii of its look-ups.

        The radii are the largest with the same look-ups in each part. Queries whose
        neighbours are farther away are compared with all codes.

        Parameters
        ----------
        reached : ndarray of shape (n_queries,)
            The distance of the last neighbour of similar queries.
        compare : float
            The cost of comparing a query with all codes.
        """
        n_parts = _n_parts(len(self.words), self.n_planes)
        spent, rest, radii, best = 0.0, 1.0, [], (np.inf, [])
        for radius in range(n_parts - 1, self.n_planes, n_parts):
            spent += rest * self.look_up_cost(radius)
            if spent >= min(compare, best[0]):
                break
            radii.append(radius)
            rest = np.count_nonzero(reached > radius) / len(reached)
            best = min(best, (spent + rest * compare, list(radii)))
        return best

    def nearest(self, queries, question):
        """Find the nearest codes; see `Algorithm.nearest`.

        Returns
        -------
        distances, positions
        rest : ndarray of int64
            The queries without an answer: fewer codes than that are within the radii.
        """
        k = question.reach
        distances = np.empty((len(queries), k), dtype=np.int32)
        positions = np.empty((len(queries), k), dtype=np.int64)
        rest = np.arange(len(queries))
        for radius in question.radii:
            if not len(rest):
                break
            near, places, counts = self.find(
                queries[rest], radius, k, question.n_jobs, question.live
            )
            # With k codes within the radius, none beyond it is nearer.
            proven = counts == k
            starts = (np.cumsum(counts) - counts)[proven]
            slots = starts[:, None] + np.arange(k)
            distances[rest[proven]] = near[slots]
            positions[rest[proven]] = places[slots]
            rest = rest[~proven]
        return distances, positions, rest

    def within(self, queries, question):
        n = len(self.words)
        return self.find(queries, question.reach, n, question.n_jobs, question.live)

    def pairs_behind(self, rows, radius, n_jobs=None):
        """Find pairs of codes within `radius`; see `Brute.pairs_behind`."""
        first, n = np.arange(rows.start, rows.stop), len(self.words)
        distances, second, counts = self.find(
            self.words[rows], radius, n, n_jobs, floors=first
        )
        return distances, np.stack([np.repeat(first, counts), second], axis=1)

    def find(self, queries, radius, most, n_jobs=None, live=None, floors=None):
        """Find codes within `radius`, of each query the `most` nearest.

        Of query i, only codes at positions behind ``floors[i]`` count.

        Returns
        -------
        distances, positions, counts
            As of `within`.
        """
        words, queries = read_only(self.words), read_only(queries)
        live, tables = live_codes(live), self._tables(radius)
        floors = np.full(len(queries), -1) if floors is None else floors
        counts = np.empty(len(queries), dtype=np.int64)

        def search(rows):
            keys = [_keys(queries[rows], self.n_planes, part) for part in self.parts]
            batch = queries[rows], np.stack(keys, axis=1), floors[rows]
            room, answers, start = np.empty(ROOM, dtype=np.int64), [], 0
            while start < rows.stop - rows.start:
                n_found = counts[rows.start + start : rows.stop]
                left = kernels.Batch(*(part[start:] for part in batch))
                answered, missing = kernels.find(
                    words, live, tables, left, radius, most, n_found, room
                )
                answers.append(room[: n_found[:answered].sum()].copy())
                start += answered
                if missing > len(room):
                    room = np.empty(missing, dtype=np.int64)
            return np.concatenate(answers)

        cost = len(queries) * self.look_up_cost(radius)
        threads = threads_for(cost, MIN_THREAD_COST, n_jobs)
        keys = np.concatenate(map_chunks(search, len(queries), CHUNK, threads))
        return (keys >> POSITION_BITS).astype(np.int32), keys & POSITION, counts

    def _tables(self, radius):
        """Return the tables, and the look-ups in them, for kernels."""
        radii = _radii(len(self.parts), radius)
        widths = map(len, self.parts)
        flips = [_flips(*part) for part in zip(widths, radii, strict=True)]
        return kernels.Tables(
            self.firsts,
            self.starts,
            self.positions,
            self.masks,
            np.array(radii),
            np.cumsum([0, *map(len, flips)]),
            np.concatenate(flips),
        )


def _n_parts(n, n_planes):
    """Return the number of parts, each of at most log2(n) bits."""
    return -(-n_planes // max(1, n.bit_length() - 1))


def _radii(n_parts, radius):
    """Return how many bits may differ in each part; -1 leaves a part out.

    If all differed by more, that would be more than `radius` in all.
    """
    most, rest = divmod(radius, n_parts)
    return [most if part <= rest else most - 1 for part in range(n_parts)]


@lru_cache(maxsize=256)
def _cost(n, n_planes, crowds, radius):
    """Return the cost of looking a query up in tables of `n` codes.

    crowds : tuple of float, or None
        How many codes a query finds in an entry of each table; None assumes that all
        entries have equally many.
    """
    widths = _widths(n_planes, _n_parts(n, n_planes))
    crowds = crowds or [n / 2**width for width in widths]
    total = QUERY_COST
    radii = _radii(len(widths), radius)
    for width, crowd, most in zip(widths, crowds, radii, strict=True):
        lookups = sum(comb(width, bits) for bits in range(most + 1))
        total += lookups * (LOOKUP_COST + crowd * CODE_COST)
    return total


def _widths(n_planes, n_parts):
    width, rest = divmod(n_planes, n_parts)
    return [width + (part < rest) for part in range(n_parts)]


def _bits(words, n_planes):
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :n_planes]


def _parts(bits, n_parts):
    """Share out the bits evenly, each to the part that it correlates least with.

    Correlated bits in a part leave most of its table empty, and the rest crowded.
    """
    n_planes = bits.shape[1]
    centered = bits - bits.mean(axis=0, dtype=np.float32)
    # A fork in the middle of a product would hang NumPy's threads.
    with fork_locks[0]:
        covariance = centered.T @ centered
    spread = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
    likeness = np.square(covariance / spread / spread[:, None])
    sizes = _widths(n_planes, n_parts)
    parts = [[] for _ in range(n_parts)]
    # Bits that vary most are shared out first.
    for bit in np.argsort(-spread, kind="stable"):
        free = [i for i in range(n_parts) if len(parts[i]) < sizes[i]]
        best = min(free, key=lambda i: (likeness[bit, parts[i]].sum(), len(parts[i])))
        parts[best].append(int(bit))
    return parts


def _mask(part, n_words):
    mask = np.zeros(n_words, dtype=np.uint64)
    for bit in part:
        mask[bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
    return mask


def _keys(words, n_planes, part):
    """Return the bits of a part as a number, for each code."""
    weights = 1 << np.arange(len(part))
    keys = np.empty(len(words), dtype=np.int64)
    for rows in row_chunks(len(words), 10 * n_planes):
        keys[rows] = _bits(words[rows], n_planes)[:, part] @ weights
    return keys


@lru_cache(maxsize=64)
def _flips(n_bits, most):
    """Return all numbers of `n_bits` bits of which at most `most` are set."""
    return np.array(
        [
            sum(1 << bit for bit in bits)
            for count in range(most + 1)
            for bits in combinations(range(n_bits), count)
        ],
        dtype=np.int64,
    )
