"""Equal codes, stored once: each different code, and the positions where it stands.

A search among the different codes tells all: of codes that are equally near, those
that stand first come first, so the k nearest codes are all among the positions of the
k nearest different codes, where these are ordered by their first positions.
"""

from threading import Lock

import numpy as np

from skhash.neighbors.kernels import equal_codes as kernels
from skhash.utils.chunks import even_chunks, row_chunks
from skhash.utils.threads import count_threads, map_in_threads

# Answers below which a thread takes longer to start than to write its share.
MIN_THREAD_ANSWERS = 2**16
# Codes, about, that tell how many are different; seconds a word that questions must
# have taken before that is worth counting, and those of sorting codes.
SAMPLE_ROWS, COUNT_AFTER, SORT_SECONDS = 2**14, 6e-8, 4e-7
# A search of the different codes must take so much less.
GAIN = 0.8


class EqualCodes:
    """The different codes, and their positions.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.
    live : ndarray of shape (n,), bool, default=None
        Which of them count. None is all.

    Attributes
    ----------
    firsts : ndarray of shape (n_different,), int64
        The first position of each different code, ascending.
    starts : ndarray of shape (n_different + 1,), int64
    positions : ndarray of shape (n_live,), int32, or int64 from 2^31 codes on
        Those of the different code i are ``positions[starts[i] : starts[i + 1]]``,
        ascending.
    """

    def __init__(self, words, live=None):
        order = np.lexsort(words.T if live is None else words[live].T)
        if live is not None:
            order = np.flatnonzero(live)[order]
        in_order = words[order]
        is_new = np.ones(len(order), dtype=bool)
        np.any(in_order[1:] != in_order[:-1], axis=1, out=is_new[1:])
        # Where each code begins, and how many are equal: first as sorted, then by the
        # first positions.
        begins = np.flatnonzero(is_new)
        counts = np.diff(begins, append=len(order))
        by_first = np.argsort(order[begins])
        begins, counts = begins[by_first], counts[by_first]
        self.firsts = order[begins]
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        order = order.astype(np.int32 if len(words) < 2**31 else np.int64)
        places = np.arange(len(order)) + np.repeat(begins - self.starts[:-1], counts)
        self.positions = order[places]

    def __len__(self):
        return len(self.firsts)

    def numbers(self):
        """Return the number of the different code that each position has."""
        numbers = np.empty(len(self.positions), dtype=np.int64)
        numbers[self.positions] = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return numbers

    def pair_blocks(self, block_rows):
        """Yield pairs i < j of positions of equal codes, for so many i at a time."""
        n = len(self.positions)
        places, stops = np.empty((2, n), dtype=np.int64)
        places[self.positions] = np.arange(n)
        stops[self.positions] = np.repeat(self.starts[1:], np.diff(self.starts))
        for rows in row_chunks(n, 1, block_rows):
            behind = places[rows] + 1
            counts = stops[rows] - behind
            shifts = behind - (np.cumsum(counts) - counts)
            second = self.positions[np.arange(counts.sum()) + np.repeat(shifts, counts)]
            first = np.repeat(np.arange(rows.start, rows.stop), counts)
            yield np.stack([first, second], axis=1)

    def expand(self, distances, codes, counts, wanted, n_jobs=None):
        """Return the positions of different codes that were found.

        Parameters
        ----------
        distances : ndarray of shape (n_found,), int32
        codes : ndarray of shape (n_found,), int64
            Numbers of different codes, ordered by query, distance and number.
        counts : ndarray of shape (n_queries,), int64
            How many of them are those of each query.
        wanted : ndarray of shape (n_queries,), int64
            How many positions each query wants; it must have found as many.

        Returns
        -------
        distances : ndarray of shape (wanted.sum(),), int32
        positions : ndarray of shape (wanted.sum(),), int64
            Ordered by query, distance and position.
        """
        found_starts = np.concatenate([[0], np.cumsum(counts)])
        starts = np.concatenate([[0], np.cumsum(wanted)])
        new_distances = np.empty(starts[-1], dtype=np.int32)
        positions = np.empty(starts[-1], dtype=np.int64)

        def search(rows):
            bounds = slice(rows.start, rows.stop + 1)
            kernels.expand(
                distances,
                codes,
                found_starts[bounds],
                self.positions,
                self.starts,
                starts[bounds],
                np.empty((2, counts[rows].max()), dtype=np.int64),
                new_distances,
                positions,
            )

        threads = max(1, min(len(counts), len(positions) // MIN_THREAD_ANSWERS))
        threads = threads if threads == 1 else min(count_threads(n_jobs), threads)
        map_in_threads(search, even_chunks(len(counts), threads), threads)
        return new_distances, positions


class DistinctSearch:
    """Searches the different ones among the codes that count.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
    live : ndarray of shape (n,), bool, or None
    make_searcher : callable
        Of the words of the different codes.
    """

    def __init__(self, words, live, make_searcher):
        self.live = _copy(live)
        self.codes = EqualCodes(words, self.live)
        self._searcher = make_searcher(words[self.codes.firsts])

    def nearest(self, queries, k, n_jobs=None):
        """Find the `k` nearest codes; see `brute.nearest`."""
        n_asked = min(k, len(self.codes))
        distances, codes = self._searcher.nearest(
            queries, n_asked, n_jobs, None, "auto"
        )
        counts, wanted = np.full(len(queries), n_asked), np.full(len(queries), k)
        distances, positions = self.codes.expand(
            distances.ravel(), codes.ravel(), counts, wanted, n_jobs
        )
        return distances.reshape(-1, k), positions.reshape(-1, k)

    def within(self, queries, radius, n_jobs=None):
        """Find all codes within `radius`; see `brute.within`."""
        distances, codes = self._searcher.within(queries, radius, n_jobs, None, "auto")
        counts = np.array([len(some) for some in codes])
        distances, codes = np.concatenate(distances), np.concatenate(codes)
        n_equal = self.codes.starts[codes + 1] - self.codes.starts[codes]
        stops = np.concatenate([[0], np.cumsum(n_equal)])[np.cumsum(counts)]
        wanted = np.diff(stops, prepend=0)
        distances, positions = self.codes.expand(
            distances, codes, counts, wanted, n_jobs
        )
        return np.split(distances, stops[:-1]), np.split(positions, stops[:-1])


class DistinctChoice:
    """Tells whether to search the different codes, and makes that when it is due.

    It is made for one set of live codes at a time. For other masks all codes are
    searched, until one has been asked for often enough to take the place.
    """

    def __init__(self, words, make_searcher):
        self._words, self._make_searcher = words, make_searcher
        self._made, self._asked = None, _Asked(None)
        self._making = Lock()

    def __call__(self, n_queries, live, seconds):
        """Return what searches the different codes, or None where that does not pay.

        Parameters
        ----------
        n_queries : int
        live : ndarray of shape (n,), bool, or None
        seconds : callable
            Of a share of the codes: those that a query takes among so many.
        """
        n = len(self._words)
        made, asked = self._made, self._asked
        if made is not None and _are_same(made.live, live):
            return made if seconds(len(made.codes) / n) < GAIN * seconds(1) else None
        if not _are_same(asked.live, live):
            asked = self._asked = _Asked(live)
        elif asked.share is not None and asked.share > GAIN:
            return None
        now = seconds(1)
        asked.spent += n_queries * now
        if asked.share is None:
            if asked.spent < COUNT_AFTER * self._words.size:
                return None
            asked.share = share_different(self._words, live)
        then = seconds(asked.share)
        if asked.share > GAIN or then > GAIN * now:
            return None
        saved = asked.spent * (1 - then / now)
        due = saved > SORT_SECONDS * self._words.size
        if not due or not self._making.acquire(blocking=False):
            return None
        try:
            if self._made is not made:  # another thread was faster
                return None
            made = self._made = DistinctSearch(self._words, live, self._make_searcher)
            return made
        finally:
            self._making.release()


class _Asked:
    """How much time questions about these live codes took."""

    def __init__(self, live):
        self.live, self.spent, self.share = _copy(live), 0.0, None


def _copy(live):
    """Return what stays as it is, where whoever asked writes to the mask later."""
    return None if live is None else live.copy()


def _are_same(live, other):
    if live is None or other is None:
        return live is other
    return np.array_equal(live, other)


def share_different(words, live=None):
    """Estimate how many different codes count, as a share of all codes.

    All codes of some, chosen by a hash, are counted, so that codes of which there are
    many do not mislead.
    """
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1])
    hashes = words @ (2 * factors.astype(np.uint64) + np.uint64(1))
    n_chosen = 1 + len(words) // SAMPLE_ROWS
    chosen = hashes <= np.uint64((2**64 - 1) // n_chosen)
    if live is not None:
        chosen &= live
    return min(1.0, n_chosen * len(np.unique(hashes[chosen])) / len(words))
