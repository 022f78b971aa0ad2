"""Search requests, and the base of the algorithms that answer them."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Question(NamedTuple):
    """A search request: its kind, k or radius, and filters.

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
    left : float
        The share of the codes that clusters leave, where known.
    radii : sequence of int
        The radii within which tables look neighbours up, ascending.
    """

    what: str
    reach: int
    n_jobs: int | None = None
    live: np.ndarray | None = None
    left: float = 1.0
    radii: tuple = ()

    def ask(self, algorithm, queries):
        """Return the answer of an algorithm; see `Algorithm`."""
        search = algorithm.nearest if self.what == "nearest" else algorithm.within
        return search(queries, self)


class Algorithm:
    """An exact way to search codes. All have the same answers.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.
    n_planes : int
        Bits of a code, padding of its last byte included.

    Attributes
    ----------
    is_made : bool
        Whether its search structure is built.
    making : float
        The cost of building it, per word of the codes; see `choose`.
    nbytes : int
        The bytes of the structure, once it is built.
    """

    is_made, making, nbytes = True, 0.0, 0

    def __init__(self, words, n_planes):
        self.words, self.n_planes = words, n_planes

    def make(self, n_jobs=None):
        """Build the search structure."""

    def bytes_to_make(self):
        """Return roughly how many bytes building it needs."""
        return 0

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


def as_lists(answer, positions=None):
    """Split the results of a radius search into a list of arrays, one a query.

    positions : ndarray of int64, default=None
        The positions of the codes that were searched.
    """
    distances, indices, *counts = answer
    indices = indices if positions is None else positions[indices]
    if not counts:
        return distances, indices
    # np.split would be slower than many a search.
    queries = [slice(*ends) for ends in pairwise([0, *np.cumsum(counts[0]).tolist()])]
    return [distances[rows] for rows in queries], [indices[rows] for rows in queries]


def by_query(owners, positions, scores, n_queries):
    """Return scores and positions by query, score and position, and counts."""
    order = np.lexsort((positions, scores, owners))
    counts = np.bincount(owners, minlength=n_queries)
    return scores[order], positions[order], counts
