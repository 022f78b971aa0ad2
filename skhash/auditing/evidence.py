"""Answers of the recommended search to a sample of queries, for inspection."""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from skhash.auditing.measure import code_search
from skhash.auditing.rows import read_rows
from skhash.utils.chunks import dense_rows

# Queries for the histograms of distances, those of them that are shown, and how many
# neighbours of each.
MAX_QUERIES, N_EXAMPLES, MAX_HITS = 100, 6, 10
# Numbers of shown rows that a result keeps: 16 MiB as float32.
MAX_NUMBERS = 2**22


@dataclass(frozen=True)
class Hit:
    """A true neighbour of a query and how the search sees it.

    ``score`` is a distance of `HashedNeighbors`, from codes. ``rank`` counts from 1
    among the candidates, and is None beyond them.
    """

    row: int
    score: float
    rank: int | None


@dataclass(frozen=True)
class Example:
    """A query and its first true neighbours, the nearest first, by float.

    ``share`` is the share of its true neighbours that are found.
    """

    row: int
    share: float
    neighbors: list[Hit]


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
        scores = np.concatenate([self.neighbor_scores, self.random_scores])
        is_random = np.arange(len(scores)) >= len(self.neighbor_scores)
        return float(roc_auc_score(is_random, scores))


def gather_evidence(encoder, task, X, random_state) -> Evidence:
    """Search for a sample of the queries again, by the recommended code.

    Parameters
    ----------
    encoder : fitted encoder or quantizer
    task : Task
    X : {ndarray, CSR} of shape (n_rows, n_features)
        All rows, as they were given.
    random_state : RandomState instance
        Draws the random rows.
    """
    data, database = task.data, task.data.database
    chosen = spread(task.truth.shape[0], MAX_QUERIES)
    queries, truth = data.queries[chosen], task.truth[chosen]
    drawn = random_state.randint(database.shape[0], size=truth.shape)

    def find(rows, n):
        search = code_search(encoder, task.metric, n).fit(database[rows])
        return search.kneighbors(queries)

    rows = np.unique([truth, drawn])
    ranked, places = find(rows, len(rows))
    scores = np.take_along_axis(ranked, places.argsort(axis=1), axis=1)
    neighbor_scores, random_scores = (
        np.take_along_axis(scores, np.searchsorted(rows, group), axis=1)
        for group in (truth, drawn)
    )
    _, candidates = find(slice(None), task.n_candidates)
    shares = [np.isin(*pair).mean() for pair in zip(truth, candidates, strict=True)]
    order = np.argsort(-np.array(shares), kind="stable")
    examples = []
    for i in order[spread(len(order), N_EXAMPLES)]:
        ranks = {place: rank for rank, place in enumerate(candidates[i], start=1)}
        hits = [
            Hit(int(data.database_rows[place]), float(score), ranks.get(place))
            for place, score in zip(truth[i], neighbor_scores[i], strict=True)
        ]
        row = int(data.query_rows[chosen[i]])
        examples.append(Example(row, float(shares[i]), hits[:MAX_HITS]))
    rows, vectors = _rows_of(examples), None
    if len(rows) * X.shape[1] <= MAX_NUMBERS:
        vectors = dict(zip(rows, dense_rows(read_rows(X, rows)), strict=True))
    scores = neighbor_scores.ravel(), random_scores.ravel()
    return Evidence(len(chosen), *scores, examples, vectors)


def spread(n, n_most) -> np.ndarray:
    """Return `n_most` numbers of ``range(n)``, evenly spread, both ends included."""
    return np.unique(np.linspace(0, n - 1, min(n, n_most)).round().astype(int))


def _rows_of(examples) -> list[int]:
    hits = [hit for example in examples for hit in example.neighbors]
    return sorted({shown.row for shown in (*examples, *hits)})
