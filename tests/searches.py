"""The exact algorithms, asked one by one."""

from skhash.neighbors.search.algorithm import Question, as_lists
from skhash.neighbors.search.brute import Brute


def made(kind, words, n_planes):
    """Return an algorithm that is ready for questions about all codes."""
    algorithm = kind(words, n_planes)
    algorithm.make(Question("nearest", 1, n_jobs=1))
    return algorithm


def nearest(algorithm, queries, k, n_jobs=None, live=None):
    question = Question("nearest", k, n_jobs, live, n_queries=len(queries))
    return algorithm.nearest(queries, question)


def within(algorithm, queries, radius, n_jobs=None, live=None):
    question = Question("within", radius, n_jobs, live, n_queries=len(queries))
    return as_lists(algorithm.within(queries, question))


def brute_nearest(words, n_planes, *question):
    return nearest(Brute(words, n_planes), *question)


def brute_within(words, n_planes, *question):
    return within(Brute(words, n_planes), *question)
