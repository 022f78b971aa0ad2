"""What questions to the same codes showed, from which the cost of others follows."""

import numpy as np

# How many of the last queries tell how far away the neighbours are, and how many have
# to.
MEMORY, ENOUGH = 256, 16


class Memory:
    """How near the last neighbours were, and how many codes were within a radius."""

    def __init__(self):
        self._k, self._past = 0, None
        self._n_found = {}

    def past(self, k):
        """Return the last queries for `k` neighbours, and how far the k-th is of each.

        It is None where too few have asked.
        """
        last_k, past = self._k, self._past
        return past if k == last_k and len(past[0]) >= ENOUGH else None

    def n_found(self, question):
        """Return how many codes a query finds; infinity where nobody knows."""
        if question.what == "nearest":
            return question.reach
        return self._n_found.get(question.reach, np.inf)

    def note(self, question, queries, found):
        """Remember an answer."""
        if question.what == "within":
            self._n_found[question.reach] = len(found[0]) / len(queries)
            return
        past = queries[-MEMORY:], found[0][-MEMORY:, -1]
        if question.reach == self._k:
            past = map(np.concatenate, zip(past, self._past, strict=True))
        past = tuple(part[:MEMORY] for part in past)
        self._k, self._past = question.reach, past
