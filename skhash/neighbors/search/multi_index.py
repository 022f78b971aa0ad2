"""Multi-index hashing: codes within a small radius, found without looking at the rest.

A code is cut into m parts of its bits. If two codes differ by r bits in all, they
differ by r // m bits or fewer in some part, so it is enough to look up, for each part,
the codes that have the query's bits there but for so many (Norouzi, Punjani and Fleet,
2012). What is found is compared whole. The answer is exact; only the time depends on
the data.
"""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np

from skhash.neighbors.kernels import multi_index as kernels
from skhash.neighbors.search.brute import _read_only
from skhash.utils.chunks import even_chunks, row_chunks
from skhash.utils.threads import count_threads, map_in_threads

# Rows from which correlations of bits are taken.
SAMPLE_ROWS = 10_000
# Queries answered at a time, a thread, and the answers that it has room for; one query
# that has more gets the room it needs.
CHUNK, ROOM = 1024, 2**16
# A thread takes about as long to start.
MIN_THREAD_SECONDS = 1e-3
# Seconds on one core: a query, a look-up, and a code that is compared; the last two
# miss the cache.
QUERY_SECONDS, LOOKUP_SECONDS, CODE_SECONDS = 5e-6, 5e-8, 3e-8


class MultiIndex:
    """Tables of the codes by the bits of each part.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.
    n_planes : int
        Bits of a code, padding of its last byte included.

    Notes
    -----
    It takes 4 bytes a code and part (8 from 2^31 codes on), and tables of no more
    entries than there are codes. Parts have at most log2(n) bits: a million codes of 64
    bits have 4 parts of 16, from 2^22 codes on there are 3 parts of 21 or 22.
    """

    def __init__(self, words, n_planes):
        n = len(words)
        n_parts = self.n_parts(n, n_planes)
        self.n_planes = n_planes
        self.parts = _parts(_bits(words[:: -(-n // SAMPLE_ROWS)], n_planes), n_parts)
        self.masks = np.stack([_mask(part, words.shape[1]) for part in self.parts])
        kind = np.int32 if n < 2**31 else np.int64
        sizes = [2 ** len(part) + 1 for part in self.parts]
        self.firsts = np.cumsum([0, *sizes[:-1]])
        self.starts = np.zeros(sum(sizes), dtype=kind)
        self.positions = np.empty((n_parts, n), dtype=kind)
        self.crowds = []
        for part, first, size, positions in zip(
            self.parts, self.firsts, sizes, self.positions, strict=True
        ):
            keys = _keys(words, n_planes, part)
            counts = np.bincount(keys, minlength=size - 1)
            starts = self.starts[first : first + size]
            np.cumsum(counts, out=starts[1:])
            kernels.fill(keys, starts[:-1].copy(), positions)
            # The expected number of codes that a query finds, if it is like the codes.
            self.crowds.append(float(np.square(counts, dtype=float).sum() / n))

    @staticmethod
    def n_parts(n, n_planes):
        """Return how many parts the codes are cut into: of log2(n) bits at most."""
        return -(-n_planes // max(1, n.bit_length() - 1))

    def seconds(self, radius):
        """Return what a query takes on one core, roughly."""
        return _seconds(list(map(len, self.parts)), self.crowds, radius)

    @classmethod
    def hoped_seconds(cls, n, n_planes, radius):
        """Return what a query would take if all entries of the tables had as many."""
        widths = _widths(n_planes, cls.n_parts(n, n_planes))
        return _seconds(widths, [n / 2**width for width in widths], radius)

    def within(self, words, queries, radius, n_jobs=None, live=None):
        """Find all codes within `radius`; see `brute.within`."""
        everything = len(words)
        distances, positions, counts = self.find(
            words, queries, radius, everything, n_jobs, live
        )
        stops = np.cumsum(counts)[:-1]
        return np.split(distances, stops), np.split(positions, stops)

    def pairs_behind(self, words, rows, radius, n_jobs=None):
        """Find pairs of codes within `radius`; see `brute.pairs_behind`."""
        first = np.arange(rows.start, rows.stop)
        distances, second, counts = self.find(
            words, words[rows], radius, len(words), n_jobs, floors=first
        )
        return distances, np.stack([np.repeat(first, counts), second], axis=1)

    def find(self, words, queries, radius, most, n_jobs=None, live=None, floors=None):
        """Find codes within `radius`, of each query the `most` nearest.

        Of query i, only codes at positions behind ``floors[i]`` count.

        Returns
        -------
        distances : ndarray of shape (n_found,), int32
        positions : ndarray of shape (n_found,), int64
            Ordered by query, distance and position.
        counts : ndarray of shape (n_queries,), int64
            How many are those of each query.
        """
        radius = min(radius, self.n_planes)
        words, queries = _read_only(words), _read_only(queries)
        live = _read_only(np.ones(1, dtype=bool) if live is None else live)
        floors = np.full(len(queries), -1) if floors is None else floors
        radii = _radii(len(self.parts), radius)
        flips = [
            _flips(len(part), bits)
            for part, bits in zip(self.parts, radii, strict=True)
        ]
        tables = (
            self.firsts,
            self.starts,
            self.positions,
            self.masks,
            np.array(radii),
            np.cumsum([0, *map(len, flips)]),
            np.concatenate(flips),
        )
        counts = np.empty(len(queries), dtype=np.int64)

        def search(rows):
            keys = np.stack(
                [_keys(queries[rows], self.n_planes, part) for part in self.parts],
                axis=1,
            )
            room, found, start = np.empty(ROOM, dtype=np.int64), [], rows.start
            while start < rows.stop:
                some, own = slice(start, rows.stop), counts[start : rows.stop]
                task = (words, live, queries[some], keys[start - rows.start :])
                answered, missing = kernels.find(
                    *task, floors[some], radius, most, *tables, own, room
                )
                found.append(room[: own[:answered].sum()].copy())
                start += answered
                if missing > len(room):
                    room = np.empty(missing, dtype=np.int64)
            return np.concatenate(found)

        threads = int(len(queries) * self.seconds(radius) / MIN_THREAD_SECONDS)
        threads = min(count_threads(n_jobs), max(1, threads))
        n_chunks = threads * -(-len(queries) // (CHUNK * threads))
        chunks = even_chunks(len(queries), min(len(queries), n_chunks))
        found = np.concatenate(map_in_threads(search, chunks, threads))
        distances = (found >> kernels.POSITION_BITS).astype(np.int32)
        found &= 2**kernels.POSITION_BITS - 1
        return distances, found, counts


def _radii(n_parts, radius):
    """Return how many bits may differ in each part; -1 leaves a part out.

    If all differed by more, that would be more than `radius` in all.
    """
    most, rest = divmod(radius, n_parts)
    return [most if part <= rest else most - 1 for part in range(n_parts)]


def _seconds(widths, crowds, radius):
    total = QUERY_SECONDS
    for width, crowd, most in zip(
        widths, crowds, _radii(len(widths), radius), strict=True
    ):
        lookups = sum(comb(width, bits) for bits in range(most + 1))
        total += lookups * (LOOKUP_SECONDS + crowd * CODE_SECONDS)
    return total


def _widths(n_planes, n_parts):
    width, rest = divmod(n_planes, n_parts)
    return [width + (part < rest) for part in range(n_parts)]


def _bits(words, n_planes):
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :n_planes]


def _parts(bits, n_parts):
    """Share the bits out evenly, each to the part where it is least like the others.

    Bits that go together in a part leave most of its table empty, and the rest crowded.
    """
    n_planes = bits.shape[1]
    centered = bits - bits.mean(axis=0, dtype=np.float32)
    covariance = centered.T @ centered
    spread = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
    likeness = np.square(covariance / spread / spread[:, None])
    sizes = _widths(n_planes, n_parts)
    parts = [[] for _ in range(n_parts)]
    # Bits that vary most are shared out first.
    for bit in np.argsort(-spread, kind="stable"):
        open_parts = [i for i in range(n_parts) if len(parts[i]) < sizes[i]]
        best = min(
            open_parts, key=lambda i: (likeness[bit, parts[i]].sum(), len(parts[i]))
        )
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
