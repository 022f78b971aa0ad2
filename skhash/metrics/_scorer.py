"""Scorers: metrics as the ``scoring`` of GridSearchCV, cross_validate and the like.

A scorer imports no estimator: `_parts` finds encoder and index in the scored object.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from skhash.metrics._found import found_average_precision, found_recall
from skhash.metrics._hamming import mean_average_precision_score
from skhash.metrics._neighbors import neighbor_recall_score, true_neighbors
from skhash.metrics._parts import (
    are_same_rows,
    indexed,
    packed_codes,
    take_apart,
)
from skhash.metrics._radius import (
    hamming_distance_histogram,
    hamming_precision_recall_curve,
)
from skhash.metrics._separability import class_distances
from skhash.utils.arrays import is_numeric

_SET_BY_SCORER = {"average", "exclude_self", "packed", "return_coverage"}
_USE_INSTEAD = {
    neighbor_recall_score: "make_neighbor_recall_scorer",
    class_distances: "separability_score",
    hamming_distance_histogram: "separability_score",
    hamming_precision_recall_curve: "precision_within_radius_score with a radius",
}


def maker(make):
    """Decorate a function that makes a scorer, and may be passed in place of one.

    scikit-learn turns exceptions of a scorer into NaN, and raises one error for an
    answer that is no number, which it shows.
    """

    @wraps(make)
    def made(*args, **kwargs):
        if args and hasattr(args[0], "fit"):
            return _Uncalled(make.__name__)
        return make(*args, **kwargs)

    return made


@dataclass(frozen=True)
class _Uncalled:
    name: str

    def __repr__(self) -> str:
        return f"a scorer still to be made; pass scoring={self.name}(), with (),"


class _Scorer:
    """The interface of scikit-learn's scorers, beyond the call.

    Not an estimator, so that nothing lists it among them; without a state that `fit` or
    a call could change, so that a clone is the same object with the same parameters.
    """

    def __sklearn_clone__(self):
        return self

    def _accept_sample_weight(self) -> bool:
        # Asked by multi-metric scoring when `fit` is given sample_weight.
        return False


@dataclass(frozen=True, repr=False, eq=False)
class RetrievalScorer(_Scorer):
    """Scores codes against labels; made by `make_retrieval_scorer`."""

    _score_func: Callable
    _kwargs: dict

    def __call__(self, estimator, X, y=None) -> float:
        """Encode `X` and score the codes against labels `y`.

        Parameters
        ----------
        estimator : object
            A fitted encoder, index, `HashedNeighbors`, or Pipeline that ends in one.
        X : array-like, sparse matrix or list
            Input of the estimator.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.

        Returns
        -------
        score : float
        """
        if y is None:
            raise ValueError(
                f"{self!r} needs labels, but y is None. Without labels score against "
                "float neighbours: make_neighbor_recall_scorer()."
            )
        parts = take_apart(estimator)
        asked = self._score_func, self._kwargs
        if parts.search is not None and asked == (mean_average_precision_score, {}):
            return score_of_search(parts, X, y)
        codes = packed_codes(parts, X)
        if parts.index is None:
            database, labels, exclude_self = codes, y, True
        else:
            database, labels = indexed(parts.index)
            exclude_self = are_same_rows(codes, y, database, labels)
        options = {"packed": True, "exclude_self": exclude_self} | self._kwargs
        return float(self._score_func(codes, database, y, labels, **options))

    def __repr__(self) -> str:
        name = getattr(self._score_func, "__name__", repr(self._score_func))
        options = "".join(f", {key}={value!r}" for key, value in self._kwargs.items())
        return f"make_retrieval_scorer({name}{options})"


def score_of_search(parts, X, y) -> float:
    """Score what a search of vectors finds; rows that it holds leave themselves out."""
    rows, index = parts.searched(X), parts.index
    database, labels = indexed(index)
    if np.shape(rows)[0] == len(database):
        other = parts.search._over(rows)
        if are_same_rows(other.index_.packed_codes_, y, database, labels):
            n_found = min(len(database) - 1, parts.search.rerank or np.inf)
            options = {"exclude_self": True, "return_distance": False}
            positions = other.kneighbors(rows, n_found, **options)
            return found_average_precision(positions, y, y, exclude_self=True)
    return parts.search.score(rows, y)


@dataclass(frozen=True, repr=False, eq=False)
class NeighborRecallScorer(_Scorer):
    """Scores answers against float neighbours; see `make_neighbor_recall_scorer`."""

    _n_neighbors: int
    _n_retrieved: int
    _metric: str

    def __call__(self, estimator, X, y=None) -> float:
        """Search in `X` by its codes, and score that by the neighbours of its vectors.

        Parameters
        ----------
        estimator : object
            A fitted encoder, or a Pipeline or `HashedNeighbors` with one.
        X : array-like, sparse matrix or list
            Input of the estimator.
        y : Ignored
            Not used, present because scorers are called with it.

        Returns
        -------
        score : float
        """
        parts = take_apart(estimator)
        if parts.encoder is None:
            raise TypeError(
                f"{self!r} needs an encoder, but {type(estimator).__name__} has "
                "codes and no vectors. Score a Pipeline of an encoder and the "
                "index, or codes and labels with make_retrieval_scorer."
            )
        as_given = is_numeric(X) or parts.before is None
        vectors = X if as_given else parts.before.transform(X)
        truth = true_neighbors(vectors, None, self._n_neighbors, metric=self._metric)
        if parts.search is not None:
            rows = parts.searched(X)
            options = {"exclude_self": True, "return_distance": False}
            n_found = min(self._n_retrieved, parts.search.rerank or np.inf)
            positions = parts.search._over(rows).kneighbors(rows, n_found, **options)
            return found_recall(positions, truth)
        codes = packed_codes(parts, X)
        options = {"n_retrieved": self._n_retrieved, "packed": True}
        return neighbor_recall_score(codes, codes, truth, exclude_self=True, **options)

    def __repr__(self) -> str:
        options = [f"n_neighbors={self._n_neighbors}"]
        options += [f"n_retrieved={self._n_retrieved}", f"metric={self._metric!r}"]
        return f"make_neighbor_recall_scorer({', '.join(options)})"


@maker
def make_retrieval_scorer(score_func=mean_average_precision_score, **kwargs) -> Any:
    """Make a scorer of codes against labels from a retrieval metric.

    The database depends on the estimator:

    - an encoder, or a Pipeline that ends in one: the fold itself. Each row is a query
      against all others, itself left out (leave-one-out).
    - `HammingNeighbors`, `HashedNeighbors`, or a Pipeline that ends in one: the codes
      and labels that it was fitted with, the training fold in cross-validation. Where
      the scored rows are those of the index (``return_train_score=True``), each leaves
      itself out. Codes are ranked by Hamming distance.
    - `HashedNeighbors` with an `AsymmetricNeighbors`, or with `rerank`: by default it
      is scored by what it finds, as `HashedNeighbors.score` does, and here too rows of
      the index leave themselves out. Other metrics and options rank its codes by
      Hamming distance, which those of an `AdditiveQuantizer` do not have.

    Parameters
    ----------
    score_func : callable, default=mean_average_precision_score
        Called as ``score_func(query_codes, database_codes, query_labels,
        database_labels, *, packed=True, exclude_self=..., **kwargs)``; greater is
        better.
    **kwargs : dict
        Further options of `score_func`, such as ``k=100``.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y) -> float``. It can be pickled if `score_func` can.

    Raises
    ------
    TypeError
        If `score_func` is not callable, compares no labels, or returns no single score.
    ValueError
        If `kwargs` hold options that the scorer sets: ``average``, ``exclude_self``,
        ``packed``, ``return_coverage``; or several numbers `k`. The scorer raises it
        for codes that have no Hamming distances.

    See Also
    --------
    make_neighbor_recall_scorer : Without labels.

    Notes
    -----
    The scorer asks for no metadata. A search estimator in the place of the encoder
    (nested cross-validation) is scored by its ``best_estimator_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.preprocessing import Binarizer
    >>> from skhash.metrics import make_retrieval_scorer, precision_at_k_score
    >>> X, y = load_iris(return_X_y=True)
    >>> scorer = make_retrieval_scorer(precision_at_k_score, k=5)
    >>> scorer
    make_retrieval_scorer(precision_at_k_score, k=5)
    >>> cross_val_score(Binarizer(threshold=2), X, y, scoring=scorer).shape
    (5,)
    """
    if not callable(score_func):
        raise TypeError(f"score_func must be callable, got {score_func!r}.")
    if score_func in _USE_INSTEAD:
        raise TypeError(
            f"{score_func.__name__} does not make one number of codes and labels; use "
            f"{_USE_INSTEAD[score_func]}."
        )
    taken = sorted(_SET_BY_SCORER & kwargs.keys())
    if taken:
        raise ValueError(f"{taken} are set by the scorer; leave them out.")
    if np.ndim(kwargs.get("k")):
        raise ValueError(f"A score is one number, so k must be one, got {kwargs['k']}.")
    return RetrievalScorer(score_func, kwargs)


@maker
def make_neighbor_recall_scorer(
    n_neighbors: int = 10, n_retrieved: int = 100, metric: str = "euclidean"
):
    """Make a scorer of codes against float neighbours, which needs no labels.

    Within the fold, each row is a query against all others (leave-one-out): the share
    of its `n_neighbors` exact neighbours that are among its `n_retrieved` nearest
    codes, in expectation over ties. `HashedNeighbors` with an `AsymmetricNeighbors`, or
    with `rerank`, is scored by what it finds among them, with its fitted encoder and
    decoder.

    Parameters
    ----------
    n_neighbors : int, default=10
        K true neighbours.
    n_retrieved : int, default=100
        N codes; of a search with a smaller `rerank`, as many as that. The fold must
        have more rows.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        The metric of the true neighbours.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y=None) -> float``. It can be pickled.

    See Also
    --------
    make_retrieval_scorer : Against labels.

    Notes
    -----
    The vectors that have the true neighbours are the `X` that is scored, where it is a
    numeric matrix. So the truth is the same for all candidates of a grid search, and
    preprocessing is judged along with the encoder. Texts have no distances: for them it
    is what reaches the encoder after the steps of the Pipeline before it. Candidates
    that differ there are held against different truths, and reducing everything to one
    dimension makes a perfect score easy. Tune such steps by labels.

    A Pipeline that ends in `HammingNeighbors` is scored by its encoder, leave-one-out
    in the fold as well: the index keeps the codes of the training fold and not the
    vectors, among which the true neighbours would have to be found.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.preprocessing import Binarizer
    >>> from skhash.metrics import make_neighbor_recall_scorer
    >>> X, _ = load_iris(return_X_y=True)
    >>> scorer = make_neighbor_recall_scorer(n_neighbors=3, n_retrieved=10)
    >>> cross_val_score(Binarizer(threshold=2), X, scoring=scorer).shape
    (5,)
    """
    return NeighborRecallScorer(n_neighbors, n_retrieved, metric)


retrieval_scorer = make_retrieval_scorer()
