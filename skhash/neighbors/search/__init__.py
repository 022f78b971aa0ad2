"""Search among codes and among what they decode to."""

from skhash.neighbors.search.algorithm import Algorithm, Question
from skhash.neighbors.search.searcher import Searcher
from skhash.utils.late import LateModule

_dispatch = LateModule("skhash.neighbors.search.dispatch")

__all__ = ["ALGORITHMS", "Algorithm", "Question", "Searcher"]


def __getattr__(name):
    """Import the kernels when they are asked for: importing skhash stays quick."""
    if name != "ALGORITHMS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _dispatch.ALGORITHMS
