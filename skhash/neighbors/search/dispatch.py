"""The exact algorithms for the CPU, and the search of a store by them."""

from threading import Lock

from skhash.codes import packed_to_words
from skhash.neighbors.search.algorithm import Question, as_lists
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.equal_codes import Distinct
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import Clusters
from skhash.neighbors.search.searcher import Searcher

# Each may leave queries to those before it. Nothing has to be made for the first.
ALGORITHMS = {
    "brute": Brute,
    "pruned": Clusters,
    "multi_index": MultiIndex,
    "distinct": Distinct,
}


def find(what, store, selected, queries, reach, n_jobs, algorithm):
    """Search a store for packed queries by the algorithm named, or the best one.

    Parameters
    ----------
    what : {"nearest", "within"}
    store : Store
    selected : Selection
    queries : ndarray of shape (n_queries, n_bytes), uint8
    reach : int
        The number of neighbours, or the radius.
    n_jobs : int or None
    algorithm : {"auto", "brute", "multi_index", "pruned"}

    Returns
    -------
    distances, positions
        Arrays of shape (n_queries, reach) of the nearest, or lists of arrays of all
        within the radius, ordered by (distance, position).
    """
    queries, n_planes = packed_to_words(queries), 8 * store.n_bytes
    if what == "within":
        reach = min(reach, n_planes)
    if selected.positions is None:
        searcher = _searcher(store)
        question = Question(what, reach, n_jobs, selected.live, algorithm=algorithm)
        return as_lists(searcher.answer(queries, question))
    some = Brute(store["words"][selected.positions], n_planes)
    found = getattr(some, what)(queries, Question(what, reach, n_jobs))
    return as_lists(found, selected.positions)


def prepare(what, store, reach, n_queries, n_jobs, algorithm):
    """Make at once what so many queries would repay; see `find`."""
    if what == "within":
        reach = min(reach, 8 * store.n_bytes)
    question = Question(what, reach, n_jobs, store["live"], algorithm=algorithm)
    _searcher(store).prepare(question, n_queries)


def _searcher(store):
    """Return the searcher of the codes in a store, which those with the same share."""
    key = store.codes_key
    if key.searcher is None:
        words = store["words"]  # checks what was read from a file
        with _making:
            if key.searcher is None:
                searcher = Searcher(words, 8 * store.n_bytes, ALGORITHMS)
                if key.clusters is not None:
                    searcher.algorithms["pruned"].take(key.clusters)
                key.searcher = searcher
    return key.searcher


_making = Lock()
