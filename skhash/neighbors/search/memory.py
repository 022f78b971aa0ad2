"""What questions to the same codes showed, from which the cost of others follows."""

import numpy as np

# How many of the last queries tell how far away the neighbours are, and how many have
# to.
MEMORY, ENOUGH = 256, 16


class Memory:
    """How near the last neighbours were, and how many codes were within a radius."""

    def __init__(self):
        # By what was asked: the last reach, queries, and how far they reached.
        self._past, self._n_found = {}, {}

    def past(self, what, reach):
        """Return the last queries that asked this, and how far each had to look.

        That is the distance of the last neighbour, or the radius. It is None where too
        few have asked.
        """
        last_reach, *past = self._past.get(what, (None, ()))
        return past if reach == last_reach and len(past[0]) >= ENOUGH else None

    def n_found(self, question):
        """Return how many codes a query finds; infinity where nobody knows."""
        if question.what == "nearest":
            return question.reach
        return self._n_found.get(question.reach, np.inf)

    def note(self, question, queries, found):
        """Remember an answer."""
        what, reach = question.what, question.reach
        if what == "within":
            self._n_found[reach] = len(found[0]) / len(queries)
            reached = np.full(len(queries), reach, dtype=np.int32)
        else:
            reached = found[0][:, -1]
        past = queries[-MEMORY:], reached[-MEMORY:]
        last_reach, *before = self._past.get(what, (None,))
        if reach == last_reach:
            past = map(np.concatenate, zip(past, before, strict=True))
        self._past[what] = reach, *(part[:MEMORY] for part in past)
