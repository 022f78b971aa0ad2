"""Answers of the recommended search to some of the queries, to be looked at."""

from dataclasses import dataclass

import numpy as np

from skhash.auditing.data import read_rows
from skhash.auditing.measure import decoder_index, hamming_index
from skhash.codes import unpack_bits
from skhash.metrics import true_neighbors
from skhash.utils.chunks import dense_rows

# Queries that distances are taken from, those of them that are shown, and how many
# neighbours of each.
MAX_QUERIES, N_EXAMPLES, MAX_HITS = 100, 6, 10
# Numbers of shown rows that a result keeps: 16 MiB as float32.
MAX_NUMBERS = 2**22


@dataclass(frozen=True)
class Hit:
    """A row of the database and how the search sees it from a query.

    ``score`` is a Hamming distance or what `AsymmetricNeighbors` ranks by, the smaller
    the nearer. ``rank`` counts from 1 among the candidates, and is None beyond them.
    ``is_true`` says whether it is one of the `k` true neighbours.
    """

    row: int
    score: float
    rank: int | None
    is_true: bool


@dataclass(frozen=True)
class Example:
    """A query, its true neighbours and its answers, the nearest first, by float.

    ``share`` is that of all its `k` true neighbours that are found.
    """

    row: int
    share: float
    neighbors: list[Hit]
    answers: list[Hit]


@dataclass(frozen=True)
class Evidence:
    """Scores of pairs by the recommended search, and examples.

    ``neighbor_scores`` are those of `n_queries` queries and their true neighbours,
    ``random_scores`` of the same queries and as many random rows. ``examples`` go from
    the query of which the most is found to that of the least. ``vectors`` are the rows
    that they name, as they were given, or None where that were too many numbers.
    """

    n_queries: int
    neighbor_scores: np.ndarray
    random_scores: np.ndarray
    examples: list[Example]
    vectors: dict | None

    @property
    def rows(self) -> list[int]:
        """The rows that the examples name, in the order of the vectors."""
        return _rows_of(self.examples)

    @property
    def separation(self) -> float:
        """The share of pairs in which a true neighbour is nearer than a random row.

        Equal scores count half: it is the area under the ROC curve.
        """
        drawn = np.sort(self.random_scores)
        nearer = len(drawn) - np.searchsorted(drawn, self.neighbor_scores, "right")
        not_farther = len(drawn) - np.searchsorted(drawn, self.neighbor_scores, "left")
        return float((nearer + not_farther).mean() / (2 * len(drawn)))


class CodeSearch:
    """The recommended search among the database of an audit, or some rows of it."""

    def __init__(self, choice, encoder, decoder, task):
        self._task, self._encoder, self._decoder = task, encoder, decoder
        self._by_hamming = choice.search == "hamming"
        self._codes = encoder.transform_packed(task.data.database)
        if not self._by_hamming:
            bits = unpack_bits(self._codes, encoder.n_bits)
            self._codes = decoder.refine(task.data.database, bits)

    def find(self, queries, n, rows=slice(None)):
        """Return scores and places in `rows` of the first `n`, the nearest first."""
        codes = self._codes[rows]
        if self._by_hamming:
            index = hamming_index(codes, n)
            return index.kneighbors(self._encoder.transform_packed(queries))
        vectors = self._task.data.database[rows]
        index = decoder_index(codes, vectors, self._decoder, self._task.metric, n)
        return index.kneighbors(queries)

    def scores(self, queries, *groups):
        """Return the scores of each query and its rows in each group."""
        rows = np.unique(np.concatenate([group.ravel() for group in groups]))
        found, places = self.find(queries, len(rows), rows)
        scores = np.empty(found.shape, dtype=np.float64)
        np.put_along_axis(scores, places, found, axis=1)
        places = (np.searchsorted(rows, group) for group in groups)
        return [np.take_along_axis(scores, place, axis=1) for place in places]


def gather_evidence(choice, fitted, task, X, random_state) -> Evidence:
    """Search again for some of the queries, by the recommended code.

    Parameters
    ----------
    choice : Choice
    fitted : tuple (encoder, decoder)
    task : Task
    X : {ndarray, CSR} of shape (n_rows, n_features)
        All rows, as they were given.
    random_state : RandomState instance
        Draws the random rows.
    """
    search = CodeSearch(choice, *fitted, task)
    chosen = _spread(task.truth.shape[0], MAX_QUERIES)
    queries, truth = task.data.queries[chosen], task.truth[chosen]
    drawn = random_state.randint(task.data.database.shape[0], size=truth.shape)
    neighbor_scores, random_scores = search.scores(queries, truth, drawn)
    scores, candidates = search.find(queries, task.rescore)
    found = [np.isin(*pair) for pair in zip(truth, candidates, strict=True)]
    shares = np.mean(found, axis=1)
    order = np.argsort(-shares, kind="stable")
    examples = [
        _example(
            int(task.data.query_rows[chosen[i]]),
            (truth[i], neighbor_scores[i]),
            (candidates[i], scores[i]),
            _answers(queries[[i]], candidates[i], task),
            task.data.database_rows,
        )
        for i in order[_spread(len(order), N_EXAMPLES)]
    ]
    return Evidence(
        n_queries=len(chosen),
        neighbor_scores=neighbor_scores.ravel(),
        random_scores=random_scores.ravel(),
        examples=examples,
        vectors=_vectors(X, examples),
    )


def _spread(n, n_most) -> np.ndarray:
    """Return at most so many of ``range(n)``, evenly spread, both ends included."""
    return np.unique(np.linspace(0, n - 1, min(n, n_most)).round().astype(int))


def _answers(query, candidates, task) -> np.ndarray:
    """Return what is answered: the first, or after re-scoring the nearest by float."""
    k = task.truth.shape[1]
    if task.rescore == k:
        return candidates
    near = task.data.database[candidates]
    return candidates[true_neighbors(query, near, k, metric=task.metric)[0]]


def _example(query_row, neighbors, candidates, answers, database_rows) -> Example:
    truth, true_scores = neighbors
    ranks = {place: rank for rank, place in enumerate(candidates[0], start=1)}
    scores = dict(zip(truth, true_scores, strict=True)) | dict(
        zip(*candidates, strict=True)
    )

    def hits(places):
        return [
            Hit(
                row=int(database_rows[place]),
                score=float(scores[place]),
                rank=ranks.get(place),
                is_true=bool(place in truth),
            )
            for place in places[:MAX_HITS]
        ]

    share = float(np.mean([place in ranks for place in truth]))
    return Example(query_row, share, hits(truth), hits(answers))


def _rows_of(examples) -> list[int]:
    hits = [hit for one in examples for hit in (*one.neighbors, *one.answers)]
    return sorted({one.row for one in (*examples, *hits)})


def _vectors(X, examples) -> dict | None:
    rows = _rows_of(examples)
    if len(rows) * X.shape[1] > MAX_NUMBERS:
        return None
    return dict(zip(rows, dense_rows(read_rows(X, rows)), strict=True))
