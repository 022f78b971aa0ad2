"""What all exact algorithms have in common, and what they are asked.

A new algorithm is one file, and one line of the table in `dispatch`.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from skhash.neighbors.search.memory import Memory


@dataclass(slots=True)
class Question:
    """What is asked of the codes, besides the queries.

    Attributes
    ----------
    what : {"nearest", "within"}
        The method that answers it.
    reach : int
        The number of neighbours, at most that of the codes that may be found, or the
        radius.
    n_jobs : int or None
    live : ndarray of shape (n,), bool, or None
        Which codes may be found. None is all.
    n_queries : int
    algorithm : str
        The one named by the user, or "auto".
    memory : Memory
        What questions before this one showed.
    share : float
        The share of the codes that is searched. Below 1, nothing is made for them yet.
    rest : callable or None
        Answers queries that an algorithm leaves to those before it in the table.
    notes : dict
        By algorithm, what it found out about this question.
    """

    what: str
    reach: int
    n_jobs: int | None = None
    live: np.ndarray | None = None
    n_queries: int = 1
    algorithm: str = "auto"
    memory: Memory = field(default_factory=Memory)
    share: float = 1.0
    rest: Any = None
    notes: dict = field(default_factory=dict)


class Algorithm:
    """An exact way to search codes. All have the same answers.

    Costs are those of one core, in pairs of words that `Brute` compares in the same
    time, 1.3e-10 seconds where the others were measured (x86_64, AVX2), and a third of
    that with AVX-512, where they hold too as far as they were measured. Most of these
    wait for memory, and a wait takes some hundred pairs on any machine that has vectors
    of 16 to 32 bytes. Where two algorithms cost about as much, a wrong choice costs
    little.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.
    n_planes : int
        Bits of a code, padding of its last byte included.

    Attributes
    ----------
    before : dict of Algorithm
        Those before it in the table, by name.
    saved : float
        What it could have saved so far, had it been made from the beginning.
    making : float
        What making it costs, a word.
    """

    making = 0.0

    def __init__(self, words, n_planes, before=None):
        self.words, self.n_planes, self.before = words, n_planes, before or {}
        self.saved = 0.0

    def is_made(self, question):
        """Return whether what answers this question is there."""
        return True

    def account(self, question):
        """Return what has the attribute `saved` for questions like this one."""
        return self

    def make(self, question):
        """Make what answers questions like this one."""

    def bytes_to_make(self):
        """Return how much memory that takes, roughly, while it is made."""
        return 0

    def expect(self, question, cost):
        """Take note of a question that costs so much; return whether that told a cost.

        It is called before the question is answered.
        """
        return False

    def cost(self, question):
        """Return what a query costs, roughly: infinity where it has no answer."""
        raise NotImplementedError

    def nearest(self, queries, question):
        """Find the nearest codes, ordered by (distance, position).

        Parameters
        ----------
        queries : ndarray of shape (n_queries, n_words), uint64
        question : Question

        Returns
        -------
        distances : ndarray of shape (n_queries, reach), int32
        positions : ndarray of shape (n_queries, reach), int64
        """
        raise NotImplementedError

    def within(self, queries, question):
        """Find all codes within the radius, inclusive.

        Parameters
        ----------
        queries, question
            As for `nearest`.

        Returns
        -------
        distances : ndarray of shape (n_found,), int32
        positions : ndarray of shape (n_found,), int64
            Ordered by query, distance and position.
        counts : ndarray of shape (n_queries,), int64
            How many are those of each query.
        """
        raise NotImplementedError


def as_lists(found, positions=None):
    """Return what was found within a radius as a list of arrays, one a query.

    positions : ndarray of int64, default=None
        Where the codes stand that were searched.
    """
    distances, found, *counts = found
    found = found if positions is None else positions[found]
    if not counts:
        return distances, found
    # np.split would take longer than many a search.
    queries = [slice(*ends) for ends in pairwise([0, *np.cumsum(counts[0]).tolist()])]
    return [distances[rows] for rows in queries], [found[rows] for rows in queries]
