"""Recall to expect among more vectors than there are to measure."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from skhash.auditing.measure import code_search
from skhash.auditing.rows import MAX_TRAIN_ROWS
from skhash.metrics import true_neighbors

# The share of the database that is not fitted, at least, and the shares of it that are
# searched one after the other.
HELD_OUT, SHARES = 0.2, (0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Growth:
    """Recall among growing numbers of vectors, and the recall to expect among more.

    The recommended method was fitted to four fifths of the database, at most 100,000
    vectors. ``recalls`` are those of its search among ``sizes`` of the other vectors.
    """

    sizes: list[int]
    recalls: list[float]
    n_vectors: int

    @property
    def expected(self) -> float:
        """Recall to expect among `n_vectors`.

        The arc cosine of the square root of recall is extrapolated linearly in the
        logarithm of the number of vectors; its standard error is the same for all
        recalls.
        """
        slope, start = np.polyfit(np.log(self.sizes), _angle(self.recalls), 1)
        return _recall(start + slope * np.log(self.n_vectors))

    def needed(self, measured, target) -> float:
        """Return the recall to measure for `target` to be expected of another method.

        measured : that of this method in the audit

        All angles are taken to grow as much from the audit to `n_vectors`.
        """
        return _recall(_angle(target) - _angle(self.expected) + _angle(measured))


def _angle(recall):
    return np.arccos(np.sqrt(recall))


def _recall(angle) -> float:
    return float(np.cos(np.clip(angle, 0, np.pi / 2)) ** 2)


def check_growth(n_vectors, n_database, n_found) -> None:
    """Check that the parts that are searched have neighbours to find."""
    least = round(n_found / (HELD_OUT * min(SHARES)))
    if n_vectors is not None and n_database < least:
        raise ValueError(
            f"{n_vectors=} needs at least {least:,} vectors besides the queries, so "
            f"that {n_found} can be found among parts of a fifth of them; there are "
            f"only {n_database:,}. Lower rerank, or audit more vectors."
        )


def measure_growth(encoder, task, n_vectors, generator) -> Growth:
    """Return the recalls of a search by the codes of an encoder that is fitted again.

    encoder : of the recommended row
    """
    data, k = task.data, task.truth.shape[1]
    n = data.database.shape[0]
    n_fitted = min(round(n * (1 - HELD_OUT)), MAX_TRAIN_ROWS)
    fitted, others = np.split(generator.permutation(n), [n_fitted])
    encoder = clone(encoder).fit(data.database[fitted])
    sizes, recalls = [round(share * len(others)) for share in SHARES], []
    for size in sizes:
        rows = data.database[others[:size]]
        search = code_search(encoder, task.metric, task.n_candidates).fit(rows)
        candidates = search.kneighbors(data.queries, return_distance=False)
        truth = true_neighbors(data.queries, rows, k, metric=task.metric)
        shares = [np.isin(*pair).mean() for pair in zip(truth, candidates, strict=True)]
        recalls.append(float(np.mean(shares)))
    return Growth(sizes, recalls, n_vectors)
