"""Answers questions by the algorithm that is expected to be the fastest."""

from dataclasses import replace
from threading import Lock

from skhash.neighbors.search.memory import Memory
from skhash.neighbors.search.plan import plan

# Among fewer codes, to think of anything but comparing takes longer than that.
MIN_CODES = 2**15


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
        self._making = Lock()

    def answer(self, queries, question):
        """Answer a question; see `Algorithm.nearest` and `Algorithm.within`."""
        question.memory, question.n_queries = self.memory, len(queries)
        names = [*self.algorithms]
        if question.algorithm != "auto" or len(self.words) < MIN_CODES:
            names = [name for name in names if name in (names[0], question.algorithm)]
        found = self._answer(queries, question, names)
        self.memory.note(question, queries, found)
        return found

    def _answer(self, queries, question, names):
        """Return the answer of the best of some algorithms."""
        name = self._best(question, names)
        before = names[: names.index(name)]

        def rest(left):
            some = replace(question, n_queries=len(left))
            return self._answer(left, some, before)

        question.rest = rest
        return getattr(self.algorithms[name], question.what)(queries, question)

    def best(self, question):
        """Return the algorithm that answers at the least cost; make it if it is due."""
        return self.algorithms[self._best(question, [*self.algorithms])]

    def _best(self, question, names):
        if len(names) == 1:
            return names[0]
        some = {name: self.algorithms[name] for name in names}
        made = [name for name, one in some.items() if one.is_made(question)]
        costs = self._costs(some, made, question)
        # What the user named need not be repaid.
        n_words = self.words.size if question.algorithm == "auto" else 0
        due, saved = plan(
            {name: question.n_queries * cost for name, cost in costs.items()},
            made,
            {name: n_words * one.making for name, one in some.items()},
            {name: one.account(question).saved for name, one in some.items()},
        )
        for name, value in saved.items():
            some[name].account(question).saved = value
        if due is not None and self._make(some[due], question):
            made.append(due)
            costs[due] = some[due].cost(question)  # no longer what it hopes for
        return min(made, key=costs.get)

    def _costs(self, some, made, question):
        """Return what a query costs, by each of some algorithms."""
        costs = {name: one.cost(question) for name, one in some.items()}
        if question.algorithm == "auto":
            now = question.n_queries * min(costs[name] for name in made)
            told = [one.expect(question, now) for one in some.values()]
            if any(told):
                costs = {name: one.cost(question) for name, one in some.items()}
        return costs

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
