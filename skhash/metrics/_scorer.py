"""Scorers: metrics as the ``scoring`` of GridSearchCV, cross_validate and the like.

A scorer imports no estimator: `_parts` finds encoder and index in the scored object.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

import numpy as np
from scipy import sparse
from sklearn.base import clone

from skhash.metrics._found import found_average_precision, search_recall_score
from skhash.metrics._hamming import mean_average_precision_score
from skhash.metrics._neighbors import neighbor_recall_score, true_neighbors
from skhash.metrics._parts import (
    are_same_rows,
    codes_of,
    has_hamming_distances,
    indexed,
    pack,
    packed_codes,
    take_apart,
)
from skhash.metrics._radius import (
    hamming_distance_histogram,
    hamming_precision_recall_curve,
)
from skhash.metrics._separability import class_distances
from skhash.utils.arrays import is_numeric
from skhash.utils.parameters import Metric

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
    """Scorer of codes against labels; see `make_retrieval_scorer`."""

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

        Raises
        ------
        ValueError
            If there are no labels, or codes are not compared by Hamming distance, as
            the metric and its options need them to be.
        """
        if y is None:
            raise ValueError(
                f"{self!r} needs labels, but y is None. To score without labels, "
                "against true neighbours, use make_neighbor_recall_scorer()."
            )
        parts = take_apart(estimator)
        asked = self._score_func, self._kwargs
        if asked == (mean_average_precision_score, {}):
            if parts.search is not None:
                return score_of_search(parts, X, y)
            if not has_hamming_distances(parts.index):
                return score_of_index(parts, X, y)
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
            if parts.search.rerank is None:
                return _score_without_self(other, rows, y)
            n_found = min(len(database) - 1, int(parts.search.rerank))
            options = {"exclude_self": True, "return_distance": False}
            find = other.kneighbors(rows, n_found, **options).__getitem__
            return found_average_precision(find, n_found, y, y, exclude_self=True)
    return parts.search.score(rows, y)


def score_of_index(parts, X, y) -> float:
    """Score an index whose distance is not the Hamming distance."""
    codes = codes_of(parts, X)
    if not are_same_rows(pack(parts, codes), y, *indexed(parts.index)):
        return parts.index.score(codes, y)
    return _score_without_self(clone(parts.index).fit(codes), codes, y)


def _score_without_self(search, X, y) -> float:
    """Score a search by its own rows, each left out of the answer to itself."""
    n = np.shape(X)[0]
    X = X.tocsr() if sparse.issparse(X) else X  # other formats have no slices

    def find(rows):
        found = search.kneighbors(X[rows], n, return_distance=False)
        others = found != np.arange(rows.start, rows.stop)[:, None]
        return found[others].reshape(len(found), n - 1)

    return found_average_precision(find, n - 1, y, y, exclude_self=True)


@dataclass(frozen=True, repr=False, eq=False)
class NeighborRecallScorer(_Scorer):
    """Scorer of codes against true neighbours; see `make_neighbor_recall_scorer`."""

    _n_neighbors: int
    _n_retrieved: int
    _metric: str | None

    def __call__(self, estimator, X, y=None) -> float:
        """Search `X` by its codes, and score the answers against true neighbours.

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
                f"{self!r} needs an encoder, but {type(estimator).__name__} has only "
                "codes. Score a Pipeline of an encoder and the index, or score codes "
                "against labels with make_retrieval_scorer."
            )
        as_given = is_numeric(X) or parts.before is None
        vectors = X if as_given else parts.before.transform(X)
        metric = self._metric or parts.metric
        truth = true_neighbors(vectors, None, self._n_neighbors, metric=metric)
        if parts.search is not None:
            rows = parts.searched(X)
            options = {"exclude_self": True, "return_distance": False}
            n_found, rerank = self._n_retrieved, parts.search.rerank or np.inf
            if n_found > rerank:  # recalls of other lengths would not compare
                raise ValueError(
                    f"n_retrieved={n_found} is more than a search of {rerank=} finds; "
                    f"to score its first answers, pass n_retrieved={self._n_neighbors}."
                )
            found = parts.search._over(rows).kneighbors(rows, n_found, **options)
            return search_recall_score(found, truth)
        codes = packed_codes(parts, X)
        options = {"n_retrieved": self._n_retrieved, "packed": True}
        return neighbor_recall_score(codes, codes, truth, exclude_self=True, **options)

    def __repr__(self) -> str:
        options = [f"n_neighbors={self._n_neighbors}"]
        options += [f"n_retrieved={self._n_retrieved}", f"metric={self._metric!r}"]
        return f"make_neighbor_recall_scorer({', '.join(options)})"


@maker
def make_retrieval_scorer(score_func=mean_average_precision_score, **kwargs) -> Any:
    """Make a scorer from a retrieval metric, which compares codes against labels.

    The database depends on the estimator:

    - For an encoder, or a Pipeline that ends in one, it is the scored fold itself. Each
      row is a query against all others (leave-one-out).
    - For `HammingNeighbors`, `HashedNeighbors`, or a Pipeline that ends in one, it is
      the codes and labels that were fitted: in cross-validation, the training fold. If
      the scored rows are those of the index (``return_train_score=True``), each row is
      left out of the ranking for itself. Codes are ranked by Hamming distance.
    - `HashedNeighbors` with an `AsymmetricNeighbors`, or with `rerank`, is by default
      scored by its own answers, as in `HashedNeighbors.score`, and `JaccardNeighbors`
      by its distances; again, rows of the index are left out of their own answers.
      Other metrics and options rank codes by Hamming distance, which is not possible
      for an `AdditiveQuantizer` or `JaccardNeighbors`.

    Parameters
    ----------
    score_func : callable, default=mean_average_precision_score
        Metric, called as ``score_func(query_codes, database_codes, query_labels,
        database_labels, *, packed=True, exclude_self=..., **kwargs)``. Greater must be
        better.
    **kwargs : dict
        Options of `score_func`, such as ``k=100``.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y) -> float``. It can be pickled if `score_func` can.

    Raises
    ------
    TypeError
        If `score_func` is not callable, takes no labels, or does not return a single
        score.
    ValueError
        If `kwargs` holds several numbers `k`, or options that the scorer sets:
        ``average``, ``exclude_self``, ``packed`` and ``return_coverage``. The scorer
        raises it for codes that cannot be compared by Hamming distance.

    See Also
    --------
    make_neighbor_recall_scorer : Makes a scorer that needs no labels.

    Notes
    -----
    The scorer requests no metadata. A search estimator in place of the encoder (nested
    cross-validation) is scored by its ``best_estimator_``.

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
            f"{score_func.__name__} does not return one number for codes and labels; "
            f"use {_USE_INSTEAD[score_func]}."
        )
    taken = sorted(_SET_BY_SCORER & kwargs.keys())
    if taken:
        raise ValueError(f"The scorer itself sets {taken}; leave them out.")
    if np.ndim(kwargs.get("k")):
        raise ValueError(f"A scorer needs a single number k, got k={kwargs['k']}.")
    return RetrievalScorer(score_func, kwargs)


@maker
def make_neighbor_recall_scorer(
    *, n_neighbors: int = 10, n_retrieved: int = 100, metric: str | None = None
):
    """Make a scorer for the recall of the true neighbours, which needs no labels.

    It compares the nearest codes with the true neighbours of the original vectors. Each
    row of the fold is a query against all others (leave-one-out). The score is the
    share of its `n_neighbors` exact neighbours that are among its `n_retrieved` nearest
    codes, in expectation over ties. `HashedNeighbors` with an `AsymmetricNeighbors` or
    `JaccardNeighbors`, or with `rerank`, is scored by its own answers in the fold, with
    its fitted encoder and decoder.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number K of true neighbours.
    n_retrieved : int, default=100
        Number N of codes, at most the `rerank` of a search. The fold must have more
        rows.
    metric : {"euclidean", "cosine", "inner_product"}, default=None
        Metric of the true neighbours. None is that of what is scored, if it has a
        `metric`, and otherwise "euclidean". Name one if a grid search varies it.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y=None) -> float``. It can be pickled.

    Raises
    ------
    ValueError
        If `metric` is none of these.

    See Also
    --------
    make_retrieval_scorer : Makes a scorer against labels.

    Notes
    -----
    True neighbours are found in the `X` that is scored, if it is a numeric matrix. They
    are then the same for all candidates of a grid search, and preprocessing is scored
    along with the encoder. Texts have no distances, so for them true neighbours are
    found in the input of the encoder, after the earlier steps of the Pipeline.
    Candidates with different steps are then compared with different neighbours, and
    reducing everything to one dimension makes a perfect score easy. Tune such steps
    with labels.

    A Pipeline that ends in `HammingNeighbors` is scored by its encoder, leave-one-out
    in the fold as well, because the index keeps only the codes of the training fold,
    not the vectors in which to find true neighbours.

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
    if metric not in (None, *get_args(Metric)):
        raise ValueError(
            f"metric={metric!r} is not one of {', '.join(get_args(Metric))}, or None."
        )
    return NeighborRecallScorer(n_neighbors, n_retrieved, metric)


retrieval_scorer = make_retrieval_scorer()
