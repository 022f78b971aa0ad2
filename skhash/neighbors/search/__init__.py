"""Search among codes and among what they decode to."""

from skhash.neighbors.search.algorithm import Algorithm, Question
from skhash.utils.threads import late_import

__all__ = ["ALGORITHMS", "Algorithm", "Question", "Searcher"]


def __getattr__(name):
    """Import the kernels when they are asked for: importing skhash stays quick."""
    if name not in ("ALGORITHMS", "Searcher"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with late_import:
        from skhash.neighbors.search.dispatch import ALGORITHMS
        from skhash.neighbors.search.searcher import Searcher

    return {"ALGORITHMS": ALGORITHMS, "Searcher": Searcher}[name]
