"""Search among codes and among what they decode to."""

from skhash.neighbors.search.algorithm import Algorithm, Question
from skhash.neighbors.search.dispatch import ALGORITHMS
from skhash.neighbors.search.searcher import Searcher

__all__ = ["ALGORITHMS", "Algorithm", "Question", "Searcher"]
