"""Which of the exact algorithms answers a question on the CPU.

All give the same answers, so that only time depends on the choice. It is made by rough
costs: those of comparing all codes are known, those of looking codes up by parts follow
from the tables and, for nearest neighbours, from how near the last ones were found,
which also tells, by a sample of the codes, how many of them clusters would leave out.
"""

from collections import defaultdict
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.search import brute
from skhash.neighbors.search.equal_codes import DistinctChoice
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import FEW_QUERIES, Clusters, share_left

# Seconds on one core: comparing two words, and one code in making tables.
PAIR_SECONDS, BUILD_SECONDS = 1.3e-10, 1e-6
# The same of a query among the different codes, and of a neighbour found there.
DISTINCT_SECONDS, EXPAND_SECONDS = 5e-6, 8e-8
# The same of a code in making clusters; comparing what they leave takes the time of
# comparing all, times the share that is left, times this (for many queries, for few).
# Measured on 64-bit codes of word vectors, 1 and 10 million, for 1 to 100 neighbours:
# the time of `Clusters.nearest` by that of `brute.nearest` and by `share_left`.
CLUSTER_SECONDS, LEFT_COST, FEW_LEFT_COST = 1.5e-6, 2.2, 3.4
# Fewer codes are compared sooner than looked up, or than clusters tell them apart; for
# more neighbours, keeping them in order would take too long.
MIN_CODES, MIN_CLUSTERED, MAX_PRUNED = 2**15, 2**19, 100
# How many of the last queries tell how far away the neighbours are.
MEMORY = 256
# How many queries tell which share of the codes clusters leave, and after how many
# seconds of comparing they are asked, of which that takes a small part.
MIN_JUDGES, MAX_JUDGES, JUDGED_SECONDS = 16, 32, 0.3


def find(what, store, selected, queries, reach, n_jobs, algorithm):
    """Search a store for packed queries by the algorithm named, or the best one.

    Parameters
    ----------
    what : {"nearest", "within"}
    store : Store
    selected : Selection
    queries : ndarray of shape (n_queries, n_bytes), uint8
    reach : int
        The number of neighbours, or the radius.
    n_jobs : int or None
    algorithm : {"auto", "brute", "multi_index", "pruned"}

    Returns
    -------
    distances, positions
        As of `search.brute`.
    """
    queries, n_planes = packed_to_words(queries), 8 * store.n_bytes
    if selected.positions is not None:
        some = store["words"][selected.positions]
        search = getattr(brute, what)
        distances, found = search(some, n_planes, queries, reach, n_jobs)
        if what == "nearest":
            return distances, selected.positions[found]
        return distances, [selected.positions[one] for one in found]
    searcher = _SEARCHERS.get(store.codes_key)
    if searcher is None:
        searcher = Searcher(store["words"], n_planes)
        searcher = _SEARCHERS.setdefault(store.codes_key, searcher)
    return getattr(searcher, what)(queries, reach, n_jobs, selected.live, algorithm)


class Searcher:
    """Searches the codes of one store, and remembers what that took."""

    def __init__(self, words, n_planes):
        self.words, self.n_planes = words, n_planes
        self.tables = self.clusters = None
        self._making = Lock()
        self._could_save = self._could_prune = 0.0
        self._left, self._unjudged = {}, defaultdict(float)
        self._past = 0, words[:0], np.empty(0, dtype=np.int32)
        self._look_ups, self._found = {}, {}
        self._distinct = DistinctChoice(words, lambda some: Searcher(some, n_planes))

    def nearest(self, queries, k, n_jobs, live, algorithm):
        """Find the `k` nearest codes; see `brute.nearest`."""
        last_k, _, reached = self._past
        reached = reached if last_k == k else reached[:0]

        def seconds(share):
            # Clusters that are not there yet would be made before long.
            compare = self._compare(k, share, hoped=True)
            return _expand(share, k) + min(compare, self._plan(reached, k, share)[0])

        distinct = self._different(len(queries), live, seconds, algorithm)
        if distinct is None:
            return self._nearest(queries, k, n_jobs, live, algorithm)
        found = distinct.nearest(queries, k, n_jobs)
        self._remember(k, queries[-MEMORY:], found[0][-MEMORY:, -1])
        self._judge(k, len(queries))
        return found

    def _nearest(self, queries, k, n_jobs, live, algorithm):
        """Find the nearest among all codes."""
        radii, n_compared = self._radii(k, len(queries), algorithm), len(queries)
        if radii:
            found, n_compared = self._nearest_by_tables(
                queries, k, radii, n_jobs, live, algorithm
            )
        else:
            found = self._compare_nearest(queries, k, n_jobs, live, algorithm)
        self._remember(k, queries[-MEMORY:], found[0][-MEMORY:, -1])
        if algorithm == "auto":
            self._judge(k, n_compared)
        return found

    def _nearest_by_tables(self, queries, k, radii, n_jobs, live, algorithm):
        """Look the nearest up; return them, and how many queries had to be compared."""
        distances = np.empty((len(queries), k), dtype=np.int32)
        positions = np.empty((len(queries), k), dtype=np.int64)
        rest = np.arange(len(queries))
        for radius in radii:
            if not len(rest):
                break
            near, found, counts = self.tables.find(
                self.words, queries[rest], radius, k, n_jobs, live
            )
            # As many as that within the radius, so none beyond it is nearer.
            proven = counts == k
            starts = (np.cumsum(counts) - counts)[proven]
            slots = starts[:, None] + np.arange(k)
            distances[rest[proven]] = near[slots]
            positions[rest[proven]] = found[slots]
            rest = rest[~proven]
        if len(rest):
            distances[rest], positions[rest] = self._compare_nearest(
                queries[rest], k, n_jobs, live, algorithm
            )
        return (distances, positions), len(rest)

    def within(self, queries, radius, n_jobs, live, algorithm):
        """Find all codes within `radius`; see `brute.within`."""
        radius = min(radius, self.n_planes)

        def seconds(share):
            search = min(self._compare(share=share), self._look_up(radius, share))
            return search + _expand(share, self._found.get(radius, np.inf))

        distinct = self._different(len(queries), live, seconds, algorithm)
        if distinct is None:
            found = self._within(queries, radius, n_jobs, live, algorithm)
        else:
            found = distinct.within(queries, radius, n_jobs)
        self._found[radius] = sum(map(len, found[0])) / len(queries)
        return found

    def _within(self, queries, radius, n_jobs, live, algorithm):
        """Find all within `radius` among all codes."""
        if self._pays(len(queries), lambda: self._look_up(radius), algorithm):
            return self.tables.within(self.words, queries, radius, n_jobs, live)
        return brute.within(self.words, self.n_planes, queries, radius, n_jobs, live)

    def _different(self, n_queries, live, seconds, algorithm):
        """Return what searches the different codes, where that pays; else None."""
        if algorithm != "auto" or len(self.words) < MIN_CODES:
            return None
        return self._distinct(n_queries, live, seconds)

    def _compare_nearest(self, queries, k, n_jobs, live, algorithm):
        """Find the nearest by comparing all codes, or those that clusters leave."""
        if self._prunes(len(queries), k, n_jobs, algorithm):
            return self.clusters.nearest(queries, k, n_jobs, live)
        return brute.nearest(self.words, self.n_planes, queries, k, n_jobs, live)

    def _remember(self, k, queries, reached):
        """Note how far away the last neighbours of the last queries are."""
        last_k, *past = self._past
        kept = MEMORY if last_k == k else 0
        queries, reached = (
            np.concatenate([new, old[:kept]])[:MEMORY]
            for new, old in zip((queries, reached), past, strict=True)
        )
        self._past = k, queries, reached

    def _judge(self, k, n_compared):
        """Estimate the share of codes that clusters leave, after some comparing."""
        self._unjudged[k] += n_compared * self._compare(k)
        _, queries, reached = self._past
        waited = self._unjudged[k] >= JUDGED_SECONDS and len(queries) >= MIN_JUDGES
        if waited and k <= MAX_PRUNED and len(self.words) >= MIN_CLUSTERED:
            self._unjudged[k] = 0.0
            some = slice(None, None, -(-len(queries) // MAX_JUDGES))
            queries, reached = queries[some], reached[some]
            self._left[k] = share_left(self.words, self.n_planes, queries, reached)

    def _prunes(self, n_queries, k, n_jobs, algorithm):
        """Return whether to leave codes out; make the clusters when that is due.

        By itself, "auto" does so where the neighbours of some queries were near enough,
        and as soon as it would have saved what making the clusters costs.
        """
        if algorithm == "auto":
            cost = FEW_LEFT_COST if n_queries < FEW_QUERIES else LEFT_COST
            saved = (1 - cost * self._left.get(k, 1)) * self._compare()
            if saved <= 0:
                return False
            self._could_prune += n_queries * saved
            due = self._could_prune > CLUSTER_SECONDS * self.words.size
            if self.clusters is None and not due:
                return False
        elif algorithm != "pruned":
            return False
        if self.clusters is None:
            return self._make("clusters", Clusters, n_jobs)
        return True

    def _radii(self, k, n_queries, algorithm):
        """Return within which radii to look neighbours up before comparing all codes.

        They are the largest for which the bits in each part differ by as few.
        """
        last_k, _, reached = self._past
        if last_k != k:
            return []
        if not self._pays(n_queries, lambda: self._plan(reached, k)[0], algorithm, k):
            return []
        return self._plan(reached, k)[1]

    def _plan(self, reached, k, share=1.0):
        """Return the seconds a query, and the radii, of the best plan.

        share : the share of the codes that are searched
        """
        compare, spent, rest = self._compare(k, share), 0.0, 1.0
        best = compare, []
        if len(reached) < MIN_JUDGES:
            return best
        n_parts = MultiIndex.n_parts(int(share * len(self.words)), self.n_planes)
        radii = []
        for radius in range(n_parts - 1, self.n_planes, n_parts):
            spent += rest * self._look_up(radius, share)
            if spent >= best[0]:
                break
            radii.append(radius)
            rest = np.count_nonzero(reached > radius) / len(reached)
            best = min(best, (spent + rest * compare, list(radii)))
        return best

    def _pays(self, n_queries, seconds, algorithm, k=None):
        """Return whether to look codes up; make the tables when that is due.

        By itself, "auto" makes them as soon as they would have saved their cost.
        """
        if algorithm in ("brute", "pruned") or len(self.words) < MIN_CODES:
            return False
        saved = self._compare(k) - seconds()
        if saved <= 0:
            return False
        if self.tables is None:
            self._could_save += n_queries * saved
            due = self._could_save > BUILD_SECONDS * self.words.size
            if algorithm == "auto" and not due:
                return False
            if not self._make("tables", MultiIndex):
                return False
            saved = self._compare(k) - seconds()
        return saved > 0

    def _make(self, name, kind, *options):
        """Make what is missing; return False if another thread is about that."""
        if not self._making.acquire(blocking=False):
            return False
        try:
            if getattr(self, name) is None:
                setattr(self, name, kind(self.words, self.n_planes, *options))
        finally:
            self._making.release()
        return True

    def _compare(self, k=None, share=1.0, hoped=False):
        """Return the seconds that comparing a query with a share of the codes takes.

        For `k` neighbours, it is with those that clusters leave, if there are clusters
        or if they are hoped for.
        """
        left, hoped = 1.0, hoped or self.clusters is not None
        if hoped and share * len(self.words) >= MIN_CLUSTERED:
            left = min(1.0, LEFT_COST * self._left.get(k, 1.0))
        return left * share * PAIR_SECONDS * self.words.size

    def _look_up(self, radius, share=1.0):
        """Return the seconds that looking up a query takes: known, or hoped for."""
        if share < 1:
            n = int(share * len(self.words))
            return MultiIndex.hoped_seconds(n, self.n_planes, radius)
        known = self.tables is not None, radius
        if known not in self._look_ups:
            hoped = len(self.words), self.n_planes, radius
            self._look_ups[known] = (
                self.tables.seconds(radius)
                if self.tables is not None
                else MultiIndex.hoped_seconds(*hoped)
            )
        return self._look_ups[known]


def _expand(share, n_found):
    """Return the seconds to tell positions of different codes, if it is only these."""
    return DISTINCT_SECONDS + n_found * EXPAND_SECONDS if share < 1 else 0.0


# What is made for codes goes with them, and outlives the removal of some.
_SEARCHERS: WeakKeyDictionary = WeakKeyDictionary()
