"""Answers questions by the algorithm that is expected to be the fastest."""

from dataclasses import replace
from threading import Lock

from skhash.neighbors.search.memory import MEMORY, Memory
from skhash.neighbors.search.plan import plan
from skhash.utils.memory import free_memory

# Among fewer codes, to think of anything but comparing takes longer than that.
MIN_CODES = 2**15
# Costs are weighed again when so much has been spent since, or for other questions; as
# many queries as this are alike.
WEIGHED_COST, MANY = 2.0**22, 16
# What is made may take so much of the memory that is free.
FREE_SHARE = 0.5


class Searcher:
    """Searches codes by some algorithms.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
    n_planes : int
    kinds : dict of type
        Algorithms by name. Nothing has to be made for the first.
    """

    def __init__(self, words, n_planes, kinds):
        self.words, self.algorithms, self.memory = words, {}, Memory()
        for name, kind in kinds.items():
            self.algorithms[name] = kind(words, n_planes, dict(self.algorithms))
        self._first = next(iter(kinds))
        self._making, self._fitting = Lock(), set()
        # The last question that was weighed, what answers it, and how many asked since.
        self._last = None, None, {}, 0.0, 0

    def answer(self, queries, question):
        """Answer a question; see `Algorithm.nearest` and `Algorithm.within`."""
        if question.algorithm == "auto" and len(self.words) < MIN_CODES:
            question.algorithm = self._first
        if question.algorithm == self._first:
            return getattr(self.algorithms[self._first], question.what)(
                queries, question
            )
        question.memory, question.n_queries = self.memory, len(queries)
        if question.algorithm == "auto":
            names = [*self.algorithms]
            name = self._last_or_best(question, names)
        else:
            names = [self._first, question.algorithm]
            name, _ = self._best(question, names)
        found = self._ask(name, queries, question, names)
        self.memory.note(question, queries, found)
        return found

    def prepare(self, question, n_queries):
        """Make at once what so many queries would repay.

        They are taken to be like the codes: some of those ask, each without itself.
        """
        if question.algorithm == "auto" and len(self.words) < MIN_CODES:
            return
        question.memory, names = self.memory, [*self.algorithms]
        if question.algorithm == "auto":
            some = self.words[:: -(-len(self.words) // MEMORY)]
            asked, live = question, question.live
            if question.what == "nearest":
                n_live = len(self.words) if live is None else int(live.sum())
                asked = replace(question, reach=min(question.reach + 1, n_live))
            first = self.algorithms[self._first]
            self.memory.note(question, some, getattr(first, question.what)(some, asked))
        else:
            names = [
                name for name in names if name in (self._first, question.algorithm)
            ]
        question.n_queries = min(n_queries, MANY)
        self._best(question, names, n_queries)

    def clusters(self):
        """Return the clusters that were made, as arrays, or None."""
        return self.algorithms["pruned"].arrays

    def best(self, question):
        """Return the algorithm that answers at the least cost; make it if it is due."""
        return self.algorithms[self._best(question, [*self.algorithms])[0]]

    def _ask(self, name, queries, question, names):
        """Return the answer of one algorithm; those named before it may help."""
        before = names[: names.index(name)]

        def rest(left):
            some = replace(question, n_queries=len(left))
            return self._ask(self._best(some, before)[0], left, some, before)

        question.rest = rest
        return getattr(self.algorithms[name], question.what)(queries, question)

    def _last_or_best(self, question, names):
        """Return what answered the same question a moment ago, or the best algorithm.

        To weigh the costs takes as long as a small search.
        """
        n_queries = question.n_queries
        kind = question.what, question.reach, min(n_queries, MANY)
        last_kind, name, notes, cost, waiting = self._last
        waiting += n_queries
        if question.live is None and last_kind == kind:
            if waiting * cost < WEIGHED_COST:
                question.notes = notes
                self._last = kind, name, notes, cost, waiting
                return name
            n_queries = waiting
        name, cost = self._best(question, names, n_queries)
        if question.live is None:
            self._last = kind, name, question.notes, cost, 0
        return name

    def _best(self, question, names, n_queries=None):
        """Return which of some algorithms answers at the least cost, and that.

        n_queries : those that count, by default those of the question
        """
        n_queries = n_queries or question.n_queries
        if len(names) == 1:
            return names[0], 0.0
        some = {name: self.algorithms[name] for name in names}
        made = [name for name in names if some[name].is_made(question)]
        costs = {name: one.cost(question) for name, one in some.items()}
        if question.algorithm == "auto":
            now = n_queries * min([costs[name] for name in made])
            if any([one.expect(question, now) for one in some.values()]):
                costs = {name: one.cost(question) for name, one in some.items()}
        if min(costs, key=costs.get) not in made:
            due = self._due(question, some, made, n_queries, costs)
            if due is not None and self._make(some[due], question):
                made.append(due)
                costs[due] = some[due].cost(question)  # no longer what it hopes for
        best = min(made, key=costs.get)
        return best, costs[best]

    def _due(self, question, some, made, n_queries, costs):
        """Return what to make, or None; see `plan`."""
        others = {name: some[name] for name in some if name not in made}
        n_words = self.words.size
        if question.algorithm == "auto":
            others = {name: one for name, one in others.items() if self._fits(name)}
        else:
            n_words = 0  # What the user named need not be repaid.
        due, saved = plan(
            {name: n_queries * costs[name] for name in (*made, *others)},
            made,
            {name: n_words * one.making for name, one in others.items()},
            {name: one.account(question).saved for name, one in others.items()},
        )
        for name, one in others.items():
            one.account(question).saved = saved[name]
        return due

    def _fits(self, name):
        """Return whether there is memory for what an algorithm makes, or was before."""
        if name not in self._fitting:
            needed = self.algorithms[name].bytes_to_make()
            if needed > FREE_SHARE * free_memory():
                return False
            self._fitting.add(name)
        return True

    def _make(self, algorithm, question):
        """Make what is due; return False if another thread is about that."""
        if not self._making.acquire(blocking=False):
            return False
        try:
            if not algorithm.is_made(question):
                algorithm.make(question)
            return True
        finally:
            self._making.release()
