"""Equal codes, stored once: each different code, and the positions where it stands.

A search among the different codes tells all: of codes that are equally near, those
that stand first come first, so the k nearest codes are all among the positions of the
k nearest different codes, where these are ordered by their first positions.
"""

from dataclasses import replace

import numpy as np

from skhash.neighbors.kernels import equal_codes as kernels
from skhash.neighbors.search.algorithm import Algorithm, Question
from skhash.neighbors.search.searcher import Searcher
from skhash.utils.chunks import even_chunks, row_chunks
from skhash.utils.threads import map_in_threads, threads_for

# Answers below which a thread takes longer to start than to write its share.
MIN_THREAD_ANSWERS = 2**16
# Codes, about, that tell how many are different, and the cost a word that questions
# must have had before that is worth counting; see `Algorithm`.
SAMPLE_ROWS, COUNT_AFTER = 2**14, 500.0
# The cost of a query among the different codes, and of a neighbour found there.
QUERY_COST, EXPAND_COST = 40_000.0, 600.0
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
                (self.positions, self.starts),
                starts[bounds],
                np.empty((3, counts[rows].max()), dtype=np.int64),
                (new_distances, positions),
            )

        threads = threads_for(len(positions), MIN_THREAD_ANSWERS, n_jobs)
        threads = max(1, min(len(counts), threads))
        map_in_threads(search, even_chunks(len(counts), threads), threads)
        return new_distances, positions


class Distinct(Algorithm):
    """Searches the different ones among the codes that count.

    It is made for one set of live codes at a time. For other masks all codes are
    searched, until one has been asked for often enough to take the place.
    """

    making = 3000.0

    def __init__(self, words, n_planes, before=None):
        super().__init__(words, n_planes, before)
        self._made, self._asked = None, _Case(None)

    def account(self, question):
        """Return the case that a question is about."""
        case = question.notes.get(self)
        if case is None:
            known = filter(None, (self._made, self._asked))
            case = next((one for one in known if one.is_of(question.live)), None)
            if case is None:
                case = self._asked = _Case(question.live)
            question.notes[self] = case
        return case

    def is_made(self, question):
        return self.account(question).searcher is not None

    def bytes_to_make(self):
        # The different codes, a sort of all of them, and their places.
        return self.words.nbytes + 32 * len(self.words)

    def make(self, question):
        case = self.account(question)
        case.codes = EqualCodes(self.words, case.live)
        case.share = len(case.codes) / len(self.words)
        different = self.words[case.codes.firsts]
        kinds = {name: type(one) for name, one in self.before.items()}
        case.searcher = Searcher(different, self.n_planes, kinds)
        self._made = case

    def expect(self, question, cost):
        case = self.account(question)
        if case.share is not None:
            return False
        spent, case.spent = case.spent, case.spent + cost
        if case.spent < COUNT_AFTER * self.words.size:
            return False
        case.share = share_different(self.words, case.live)
        case.saved = spent * (1 - case.share)
        return True

    def cost(self, question):
        share = self.account(question).share
        if share is None or question.share < 1:
            return np.inf
        others, some = self.before.values(), replace(question, share=share)
        cost = QUERY_COST + EXPAND_COST * question.memory.n_found(question)
        cost += min(one.cost(some) for one in others)
        # What would be made before long counts as made.
        worthwhile = cost < GAIN * min(one.cost(question) for one in others)
        return cost if worthwhile else np.inf

    def nearest(self, queries, question):
        case, k = self.account(question), question.reach
        n_asked = min(k, len(case.codes))
        asked = Question("nearest", n_asked, question.n_jobs)
        distances, codes = case.searcher.answer(queries, asked)
        counts, wanted = np.full(len(queries), n_asked), np.full(len(queries), k)
        distances, positions = case.codes.expand(
            distances.ravel(), codes.ravel(), counts, wanted, question.n_jobs
        )
        return distances.reshape(-1, k), positions.reshape(-1, k)

    def within(self, queries, question):
        case = self.account(question)
        asked = Question("within", question.reach, question.n_jobs)
        distances, codes, counts = case.searcher.answer(queries, asked)
        n_equal = case.codes.starts[codes + 1] - case.codes.starts[codes]
        stops = np.concatenate([[0], np.cumsum(n_equal)])[np.cumsum(counts)]
        wanted = np.diff(stops, prepend=0)
        found = case.codes.expand(distances, codes, counts, wanted, question.n_jobs)
        return *found, wanted


class _Case:
    """A set of live codes: what questions about them cost, and what is made for it."""

    def __init__(self, live):
        # Whoever asked may write to the mask later.
        self.live = None if live is None else live.copy()
        self.spent = self.saved = 0.0
        self.share = self.codes = self.searcher = None

    def is_of(self, live):
        """Return whether these are the live codes."""
        if live is None or self.live is None:
            return live is self.live
        return np.array_equal(live, self.live)


def share_different(words, live=None):
    """Estimate how many different codes count, as a share of all codes.

    All codes of some, chosen by a hash, are counted, so that codes of which there are
    many do not mislead.
    """
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1])
    factors = 2 * factors.astype(np.uint64) + np.uint64(1)
    n_chosen = 1 + len(words) // SAMPLE_ROWS
    most, hashes = np.uint64((2**64 - 1) // n_chosen), []
    for rows in row_chunks(len(words), 17):
        some = words[rows] @ factors
        chosen = some <= most
        hashes.append(some[chosen if live is None else chosen & live[rows]])
    different = np.unique(np.concatenate(hashes))
    return min(1.0, n_chosen * len(different) / len(words))
