"""Search on the CPU, and the rule by which ``algorithm="auto"`` chooses.

Costs are those of a query on one core, in pairs of words that brute force compares in
the same time: 1.3e-10 seconds where they were measured (x86_64, AVX2), and a third of
that with AVX-512. Most others wait for memory, and a wait lasts about 100 pairs on any
machine that has vectors of 16 to 32 bytes. Where two algorithms cost about as much,
a wrong choice costs little. With n words of codes in all:

- Brute force costs n. Fewer than 2^15 codes are always searched so.
- Tables cost 40,000, and for each look-up 400, and 250 for each code found there; see
  `MultiIndex.look_up_cost`. A radius tells how many they are. For neighbours, the last
  queries tell: those whose neighbours are too far away are compared.
- Clusters cost 20,000 and a few times the share of n that they leave, from half a
  million codes on, for radii and for up to 100 neighbours. The last queries and a
  sample of the codes tell that share, whenever two billion pairs have been compared.

Tables or clusters are made when the questions so far would have repaid it, had they
been there from the beginning, where they need at most half of the free memory.
"""

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.kernels.nibbles import MOST
from skhash.neighbors.search.base import Question, as_lists
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import FEW_QUERIES, Clusters, share_left
from skhash.utils.llvm import has_features
from skhash.utils.memory import free_memory
from skhash.utils.threads import ProcessLock

ALGORITHMS = {"brute": Brute, "pruned": Clusters, "multi_index": MultiIndex}
# Fewer codes are searched by brute force, and fewer without clusters. For more
# neighbours, clusters would be too slow to keep them in order.
MIN_CODES, MIN_CLUSTERED = 2**15, 2**19
MAX_REACH = {"nearest": 100, "within": MOST - 1}
# The fixed cost of clusters, and how much more comparing what they leave costs,
# for many queries and for few: measured on 64-bit codes of word vectors, 1 and 10
# million, for 1 to 100 neighbours. AVX-512 gains brute force more.
START_COST, FEW_START_COST = 20_000.0, 400_000.0
LEFT_COST, FEW_LEFT_COST = (4.0, 6.0) if has_features("avx512f") else (2.2, 3.4)
# How many of the last queries are kept to tell distances of neighbours, how many are
# needed, and how many tell which share clusters leave, whenever so much has been spent.
MEMORY, ENOUGH, JUDGES, JUDGED_COST = 256, 16, 32, 2.0**31
# Costs are compared again when so much has been spent: that is as slow as a small
# search. At most `MAX_KINDS` of questions are remembered.
WEIGHED_COST, MAX_KINDS = 2.0**22, 64
# Tables and clusters may use this share of the free memory.
FREE_SHARE = 0.5


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
        Arrays of shape (n_queries, reach) of the nearest, or lists of arrays of all
        within the radius, ordered by (distance, position).
    """
    queries, n_planes = packed_to_words(queries), 8 * store.n_bytes
    if what == "within":
        reach = min(reach, n_planes)
    question = Question(what, reach, n_jobs, selected.live)
    if selected.positions is not None:
        part = Brute(store["words"][selected.positions], n_planes)
        return as_lists(question.ask(part, queries), selected.positions)
    return as_lists(searcher_of(store).answer(queries, question, algorithm))


def searcher_of(store):
    """Return the searcher of a store, shared by all stores of the same codes."""
    return store.codes_key.once(
        "searcher",
        # The words are checked if they were read from a file, and so the clusters.
        lambda: Searcher(store["words"], 8 * store.n_bytes, store.codes_key.clusters),
    )


class History:
    """Statistics of past questions of one kind, such as those for 10 neighbours.

    Attributes
    ----------
    past : tuple (queries, reached)
        The last queries, and the distance that each reached: that of the last
        neighbour, or the radius.
    left : float
        The share of the codes that clusters leave; infinity if unknown.
    spent : float
        The cost since that was estimated.
    radii : list of int
        The radii within which tables look neighbours up.
    choices : dict of tuple (name, cost, n_queries)
        By the algorithm asked for, and whether queries are few: the algorithm chosen,
        its cost, and how many queries came since that choice.
    """

    def __init__(self, n_words):
        self.past = np.empty((0, n_words), np.uint64), np.empty(0, np.int32)
        self.left, self.spent, self.radii, self.choices = np.inf, 0.0, [], {}

    def note(self, queries, question, answer):
        """Remember an answer."""
        if question.what == "nearest":
            reached = answer[0][-MEMORY:, -1]
        else:
            reached = np.full(min(len(queries), MEMORY), question.reach, dtype=np.int32)
        new = zip((queries[-MEMORY:], reached), self.past, strict=True)
        self.past = tuple(np.concatenate(parts)[:MEMORY] for parts in new)


class Searcher:
    """Searches codes by brute force, clusters or tables.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
    n_planes : int
    clusters : ClusterArrays, default=None
        The clusters, if they were made before.
    """

    def __init__(self, words, n_planes, clusters=None):
        self.words, self.algorithms = words, {}
        for name, kind in ALGORITHMS.items():
            self.algorithms[name] = kind(words, n_planes)
        if clusters is not None:
            self.algorithms["pruned"].take(clusters)
        # The cost each could have saved so far, had it been made from the beginning.
        self._saved = dict.fromkeys(ALGORITHMS, 0.0)
        self._histories, self.making = {}, ProcessLock()

    @property
    def clusters(self):
        """The clusters that were made, as arrays, or None."""
        return self.algorithms["pruned"].arrays

    @property
    def nbytes(self):
        """The bytes of the tables and clusters that were made."""
        return sum(algorithm.nbytes for algorithm in self.algorithms.values())

    def answer(self, queries, question, algorithm="auto"):
        """Answer a question; see `Algorithm.nearest` and `Algorithm.within`."""
        if self._only_compares(algorithm):
            return question.ask(self.algorithms["brute"], queries)
        history = self._history(question)
        name = self._choose(question, history, len(queries), algorithm)
        if name != "brute":
            known = {"left": min(1.0, history.left), "radii": history.radii}
            question = question._replace(**known)
        answer = question.ask(self.algorithms[name], queries)
        if name == "multi_index" and question.what == "nearest":
            *answer, rest = answer
            if len(rest):
                costs = self._compare_costs(history, len(rest) < FEW_QUERIES)
                name = min(self._made(costs), key=costs.get)
                others = question.ask(self.algorithms[name], queries[rest])
                for part, other in zip(answer, others, strict=True):
                    part[rest] = other
        history.note(queries, question, answer)
        return tuple(answer)

    def prepare(self, question, n_queries, algorithm="auto"):
        """Build now the structures that `n_queries` would repay.

        They are assumed to be like the codes: a sample of these ask, each without
        itself.
        """
        if self._only_compares(algorithm):
            return
        history = self._history(question)
        if algorithm != "pruned":
            asked, live = question, question.live
            sample = self.words[:: -(-len(self.words) // MEMORY)]
            if question.what == "nearest":
                n_live = len(self.words) if live is None else int(live.sum())
                asked = question._replace(reach=min(question.reach + 1, n_live))
            history.note(sample, asked, asked.ask(self.algorithms["brute"], sample))
        self._choose(question, history, n_queries, algorithm)

    def best(self, question, n_queries, names):
        """Return the best of these algorithms; make it if `n_queries` repay it."""
        history = self._history(question)
        name, _ = self._weigh(question, history, n_queries, names, few=False)
        return self.algorithms[name]

    def _only_compares(self, algorithm):
        least = MIN_CODES if algorithm == "auto" else 1
        return algorithm == "brute" or len(self.words) < least

    def _history(self, question):
        kind = question.what, question.reach
        history = self._histories.get(kind)
        if history is None:
            if len(self._histories) >= MAX_KINDS:
                self._histories.clear()
            history = self._histories[kind] = History(self.words.shape[1])
        return history

    def _choose(self, question, history, n_queries, algorithm):
        """Return the algorithm to answer with; one that is due is made first."""
        if algorithm == "pruned":
            is_able = question.what == "nearest" or question.reach < MOST
            return "pruned" if is_able and self._make("pruned", question) else "brute"
        few = n_queries < FEW_QUERIES
        name, cost, waiting = history.choices.get((algorithm, few), ("", np.inf, 0))
        waiting += n_queries
        if waiting * cost >= WEIGHED_COST:
            names = [*ALGORITHMS] if algorithm == "auto" else ["brute", algorithm]
            name, cost = self._weigh(question, history, waiting, names, few, algorithm)
            waiting = 0
        history.choices[algorithm, few] = name, cost, waiting
        return name

    def _weigh(self, question, history, n_queries, names, few, algorithm="auto"):
        """Return the cheapest of these algorithms for a query, and its cost.

        A cheaper one that is due is made first; one that the user named always is.
        """
        costs = self._costs(question, history, few)
        now = min(costs[name] for name in self._made(names))
        if algorithm == "auto" and self._judge(question, history, n_queries * now):
            costs = self._costs(question, history, few)
        for name in names:
            self._saved[name] += n_queries * max(0.0, now - costs[name])
        cheaper = [name for name in names if costs[name] < now]
        due = [name for name in cheaper if name == algorithm or self._is_due(name)]
        if due and self._make(min(due, key=costs.get), question):
            costs = self._costs(question, history, few)  # as known, no longer hoped for
        best = min(self._made(names), key=costs.get)
        return best, costs[best]

    def _costs(self, question, history, few):
        """Return the cost of a query by algorithm, made or not."""
        tables = self.algorithms["multi_index"]
        costs = self._compare_costs(history, few)
        if question.what == "within":
            cost = tables.look_up_cost(question.reach)
        elif len(history.past[1]) < ENOUGH:
            cost, history.radii = np.inf, []
        else:
            compare = min(costs[name] for name in self._made(costs))
            cost, history.radii = tables.plan(history.past[1], compare)
        return {**costs, "multi_index": cost}

    def _compare_costs(self, history, few):
        n_words = float(self.words.size)
        start, each = START_COST, LEFT_COST
        if few:
            start, each = FEW_START_COST, FEW_LEFT_COST
        return {"brute": n_words, "pruned": start + each * history.left * n_words}

    def _made(self, names):
        return [name for name in names if self.algorithms[name].is_made]

    def _judge(self, question, history, cost):
        """Estimate now and then which share clusters leave; return whether it did."""
        if len(self.words) < MIN_CLUSTERED or question.reach > MAX_REACH[question.what]:
            return False
        queries, reached = history.past
        history.spent += cost
        if history.spent < JUDGED_COST or len(reached) < ENOUGH:
            return False
        step = -(-len(reached) // JUDGES)
        history.left = share_left(self.words, queries[::step], reached[::step])
        history.spent = 0.0
        return True

    def _is_due(self, name):
        """Return whether an algorithm would have repaid its making, and fits."""
        algorithm = self.algorithms[name]
        return (
            self._saved[name] > algorithm.making * self.words.size
            and algorithm.bytes_to_make() <= FREE_SHARE * free_memory()
        )

    def _make(self, name, question):
        """Make an algorithm ready; return False if another thread is doing it."""
        algorithm = self.algorithms[name]
        if not algorithm.is_made:
            lock = self.making.lock
            if not lock.acquire(blocking=False):
                return False
            try:
                if not algorithm.is_made:
                    algorithm.make(question.n_jobs)
            finally:
                lock.release()
        return True
