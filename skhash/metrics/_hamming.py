"""Scores of a Hamming ranking against labels, over its best `k` codes.

Each public function defines one score from counts of hits; `_score_hits` counts, and
averages over queries last. Scores of Hamming balls are in `_radius`.
"""

from typing import Literal

import numpy as np

from skhash.metrics import _ranking
from skhash.metrics._inputs import (
    Average,
    Cuts,
    Ties,
    check_cuts,
    labelled_ranking,
    summarize,
)
from skhash.utils.parameters import Count, checked


@checked
def mean_average_precision_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    k: Cuts | None = None,
    normalize: Literal["min", "relevant", "retrieved"] = "min",
    ties: Ties = "expected",
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    r"""Mean average precision (mAP) of rankings by Hamming distance.

    A database code is relevant to a query if they share a label. With `rel(t)` the
    relevance at rank t, and `P(t)` the share of relevant codes among the first t,

    .. math:: AP@k = \frac{1}{Z} \sum_{t=1}^{k} P(t) \, rel(t)

    Hamming rankings are mostly ties, whose order changes this score a lot. The default
    is therefore the expectation over random orders of ties [1]_ [2]_, in closed form.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to rank, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes of any type, or a 0/1 indicator matrix of several labels, dense or
        sparse.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    k : int or array-like of int, default=None
        Number of ranks to score; by default all of them. Several numbers give a curve,
        and cost little more than one, except with ``ties="index"``.
    normalize : {"min", "relevant", "retrieved"}, default="min"
        The denominator Z. Without `k`, the three are the same.

        - "min": ``min(R, k)``, the number of relevant codes that k ranks can hold.
        - "relevant": R, the number of all relevant codes.
        - "retrieved": the number of relevant codes among the first k, as in most
          published hashing code. It does not penalize misses: the list [1, 0, 0] scores
          1, and the better list [1, 0, 1] scores 0.83.
    ties : {"expected", "index", "best", "worst"}, default="expected"
        How codes at the same distance are ordered.

        - "expected": at random, scored in expectation.
        - "index": by their positions in the database, as `HammingNeighbors` does, and a
          stable sort.
        - "best": relevant codes first.
        - "worst": relevant codes last.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one value per query, which is NaN if
        nothing is relevant to the query; the mean leaves these queries out.
    exclude_self : bool, default=False
        Whether to leave database code i out of the ranking of query i, for queries that
        are the database itself.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    score : float, or ndarray, float64
        A float for a single `k`, and of shape (n_k,) for several. With
        ``average=None``, of shape (n_queries,) or (n_queries, n_k). NaN, with a
        warning, if there is nothing to average.

    Raises
    ------
    ValueError
        If codes or labels do not match, if `k` is more than the number of codes to
        rank, or if `k` is given with ``normalize="retrieved"`` and ``ties="expected"``,
        where the denominator would be random.

    See Also
    --------
    precision_at_k_score : Precision of the k nearest codes.
    ndcg_at_k_score : Gain with graded relevance.
    make_retrieval_scorer : Makes a scorer, for example for GridSearchCV.

    Notes
    -----
    ``sklearn.metrics.average_precision_score`` treats tied items as one threshold,
    which gives another number: for ten tied items of which three are relevant, 0.3
    instead of 0.45.

    With ``normalize="retrieved"``, "best" and "worst" still order ties, but do not
    bound the score, because misses are not penalized.

    References
    ----------
    .. [1] F. McSherry and M. Najork, "Computing information retrieval performance
       measures efficiently in the presence of tied scores", ECIR 2008.
    .. [2] K. He, F. Cakir, S. A. Bargal and S. Sclaroff, "Hashing as tie-aware learning
       to rank", CVPR 2018.

    Examples
    --------
    >>> from skhash.metrics import mean_average_precision_score
    >>> codes = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]
    >>> for ties in ["worst", "expected", "best"]:
    ...     score = mean_average_precision_score(
    ...         [[0, 0, 0]], codes, [1], [1, 0, 1, 1], ties=ties
    ...     )
    ...     print(f"{ties}: {score:.4f}")
    worst: 0.8056
    expected: 0.8611
    best: 0.9167
    """
    if normalize == "retrieved" and ties == "expected" and k is not None:
        raise ValueError(
            'normalize="retrieved" divides by the hits among the best k, whose number '
            'is random with ties="expected"; use ties="index", as published code does, '
            'or normalize="min".'
        )

    def average_precision(relevant, hits, precisions, cuts):
        z = {"min": np.minimum(relevant, cuts), "relevant": relevant, "retrieved": hits}
        return _ranking.ratio(precisions, z["relevant" if k is None else normalize], 0)

    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)
    return _score_hits(average_precision, ranking, k, ties, average)


@checked
def precision_at_k_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    k: Cuts = 10,
    ties: Ties = "expected",
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    """Share of relevant codes among the `k` nearest by Hamming distance.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to rank, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or a 0/1 indicator matrix of several labels. Codes that share a label
        are relevant.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    k : int or array-like of int, default=10
        Number of ranks, which is also the denominator. Several numbers give a curve,
        and cost little more than one, except with ``ties="index"``.
    ties : {"expected", "index", "best", "worst"}, default="expected"
        As in `mean_average_precision_score`. For "expected", s places for a block of n
        tied codes, of which r are relevant, count as s r / n hits.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one value per query, which is NaN if
        nothing is relevant to the query; the mean leaves these queries out.
    exclude_self : bool, default=False
        Whether to leave database code i out of the ranking of query i.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    score : float, or ndarray, float64
        A float for a single `k`, and of shape (n_k,) for several. With
        ``average=None``, of shape (n_queries,) or (n_queries, n_k).

    Raises
    ------
    ValueError
        If codes or labels do not match, or if `k` is more than the number of codes to
        rank.

    See Also
    --------
    recall_at_k_score : The same hits as a share of all relevant codes.

    Examples
    --------
    >>> from skhash.metrics import precision_at_k_score
    >>> codes = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]
    >>> precision_at_k_score([[0, 0, 0]], codes, [1], [1, 0, 1, 1], k=2)
    0.75
    >>> precision_at_k_score([[0, 0, 0]], codes, [1], [1, 0, 1, 1], k=[1, 2, 4])
    array([1.  , 0.75, 0.75])
    """

    def precision(relevant, hits, precisions, cuts):
        return hits / cuts

    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)
    return _score_hits(precision, ranking, k, ties, average)


@checked
def recall_at_k_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    k: Cuts = 10,
    ties: Ties = "expected",
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    """Share of all relevant codes that are among the `k` nearest by Hamming distance.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to rank, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or a 0/1 indicator matrix of several labels. Codes that share a label
        are relevant.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    k : int or array-like of int, default=10
        Number of ranks. Several numbers give a curve, as in `precision_at_k_score`.
    ties : {"expected", "index", "best", "worst"}, default="expected"
        As in `mean_average_precision_score`.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one value per query, which is NaN if
        nothing is relevant to the query; the mean leaves these queries out.
    exclude_self : bool, default=False
        Whether to leave database code i out of the ranking of query i.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    score : float, or ndarray, float64
        A float for a single `k`, and of shape (n_k,) for several. With
        ``average=None``, of shape (n_queries,) or (n_queries, n_k).

    Raises
    ------
    ValueError
        If codes or labels do not match, or if `k` is more than the number of codes to
        rank.

    See Also
    --------
    neighbor_recall_score : Recall of the true neighbours, without labels.

    Examples
    --------
    >>> from skhash.metrics import recall_at_k_score
    >>> codes = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]
    >>> recall_at_k_score([[0, 0, 0]], codes, [1], [1, 0, 1, 1], k=2)
    0.5
    """

    def recall(relevant, hits, precisions, cuts):
        return _ranking.ratio(hits, relevant, 0)

    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)
    return _score_hits(recall, ranking, k, ties, average)


def _score_hits(value, ranking, k, ties, average):
    """Count hits, and return the score that `value` computes from them.

    `value` gets the number of codes relevant to each query, shape (n_queries, 1), the
    hits within each cut and the sums of the precisions at them, (n_queries, n_cuts),
    and the cuts. Scores are NaN where nothing is relevant.
    """
    cuts = check_cuts("k", k, ranking.n_ranked)

    def score(rows):
        counts = ranking.counts(rows, 2)
        sums = [_sums(ranking, rows, counts, cut, ties) for cut in np.atleast_1d(cuts)]
        relevant = counts[:, :, 1].sum(axis=1, keepdims=True)
        values = value(relevant, *np.stack(sums, axis=-1), cuts)
        return np.where(relevant > 0, values, np.nan)

    values = np.concatenate(ranking.map(score, 2))
    return summarize(values.reshape(-1, *cuts.shape), average, depth=5)


def _sums(ranking, rows, counts, k, ties):
    """Return the hits in k ranks and the sum of their precisions."""
    if ties == "index":
        unit, flat = np.array([0.0, 1.0]), np.ones(k)
        return ranking.ordered_sums(rows, counts, unit, flat)[:, :2].T
    return _ranking.sums_within(counts.sum(axis=2), counts[:, :, 1], k, ties)


@checked
def ndcg_at_k_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    k: Count | None = None,
    gain: Literal["linear", "exponential"] = "linear",
    ties: Literal["expected", "index"] = "expected",
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    r"""Normalized discounted cumulative gain (NDCG) of rankings by Hamming distance.

    With :math:`c_t` the number of labels that the query shares with the code at rank t,
    and the gain g(c) = c (linear) or 2^c - 1 (exponential), it is

    .. math:: DCG@k = \sum_{t=1}^{k} \frac{g(c_t)}{\log_2(1 + t)}

    divided by its value for the ideal order [1]_. Tied codes all get the mean gain of
    their block, which is the expectation over random orders [2]_, as in
    ``sklearn.metrics.ndcg_score``. For classes, the gain is 1 if the class is the same.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to rank, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or a 0/1 indicator matrix of several labels.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    k : int, default=None
        Number of ranks to score; by default all of them.
    gain : {"linear", "exponential"}, default="linear"
        Gain of shared labels.
    ties : {"expected", "index"}, default="expected"
        As in `mean_average_precision_score`.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one value per query.
    exclude_self : bool, default=False
        Whether to leave database code i out of the ranking of query i.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    score : float or ndarray of shape (n_queries,), float64
        The score, or one per query with ``average=None``.

    Raises
    ------
    ValueError
        If codes or labels do not match, or if `k` is more than the number of codes to
        rank.

    References
    ----------
    .. [1] K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR
       techniques", ACM Transactions on Information Systems 20(4), 2002.
    .. [2] F. McSherry and M. Najork, "Computing information retrieval performance
       measures efficiently in the presence of tied scores", ECIR 2008.

    Examples
    --------
    >>> from skhash.metrics import ndcg_at_k_score
    >>> codes = [[0, 0], [0, 1], [1, 1]]
    >>> labels = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    >>> round(ndcg_at_k_score([[0, 0]], codes, [[1, 1, 0]], labels), 4)
    0.8597
    """
    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)
    n_ranks = int(check_cuts("k", k, ranking.n_ranked))
    discount = 1.0 / np.log2(np.arange(2, n_ranks + 2))
    gains = _gains(gain, ranking.levels)

    def score(rows):
        counts = ranking.counts(rows, ranking.levels)
        # The ideal order: blocks by falling gain.
        by_level = counts.sum(axis=1)[:, ::-1]
        ideal = _ranking.discounted_gain(by_level, by_level * gains[::-1], discount)
        if ties == "index":
            reached = ranking.ordered_sums(rows, counts, gains, discount)[:, 2]
        else:
            n = counts.sum(axis=2)
            reached = _ranking.discounted_gain(n, counts @ gains, discount)
        return _ranking.ratio(reached, ideal, np.nan)

    return summarize(np.concatenate(ranking.map(score, ranking.levels)), average)


def _gains(gain: str, levels: int) -> np.ndarray:
    shared = np.arange(levels, dtype=np.float64)
    if gain == "linear":
        return shared
    if levels > 512:
        raise ValueError(
            f"Rows share {levels - 1} labels, too many for 2^c - 1; use gain='linear'."
        )
    return np.exp2(shared) - 1
