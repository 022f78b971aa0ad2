"""Normalized discounted cumulative gain of a Hamming ranking."""

import numpy as np

from skhash.metrics import _ranking
from skhash.metrics._inputs import (
    POSITIVE,
    check_cuts,
    checked,
    labelled_ranking,
    summarize,
)
from skhash.utils._sklearn import StrOptions


@checked(k=[POSITIVE, None], ties=[StrOptions({"expected", "index"})])
def ndcg_at_k_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    k: int | None = None,
    gain: str = "linear",
    ties: str = "expected",
    average: str | None = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    r"""Normalized discounted cumulative gain of the ranking by Hamming distance.

    With :math:`c_t` the number of labels that the query shares with rank t and the gain
    g(c) = c (linear) or 2^c - 1 (exponential),

    .. math:: DCG@k = \sum_{t=1}^{k} \frac{g(c_t)}{\log_2(1 + t)}

    divided by its value for the ideal order [1]_. Tied codes each have the mean gain of
    their block, which is the expectation over random orders [2]_ and the rule of
    ``sklearn.metrics.ndcg_score``. For classes, the gain is 1 for the same class.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        The codes to rank, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or an indicator matrix.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        The same for the database.
    k : int, default=None
        The number of ranks that count; all of them by default.
    gain : {"linear", "exponential"}, default="linear"
        The gain of shared labels.
    ties : {"expected", "index"}, default="expected"
        As in `mean_average_precision_score`.
    average : {"mean"} or None, default="mean"
        The mean over queries, or one value a query.
    exclude_self : bool, default=False
        Leave database code i out of the ranking of query i.
    packed : bool, default=False
        Codes are packed bytes.

    Returns
    -------
    score : float or ndarray of shape (n_queries,), float64

    Raises
    ------
    ValueError
        If codes or labels do not fit each other or `k` is more than the codes to rank.

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
    discount = _ranking.discounts(int(check_cuts("k", k, ranking.n_ranked)))
    gains = _gains(gain, ranking.levels)

    def score(rows):
        counts = ranking.counts(rows, ranking.levels)
        # The ideal order: blocks by falling gain.
        by_level = counts.sum(axis=1)[:, ::-1]
        ideal = _ranking.discounted_gain(by_level, by_level * gains[::-1], discount)
        if ties == "index":
            found = ranking.ordered_sums(rows, counts, gains, discount)[:, 2]
        else:
            n = counts.sum(axis=2)
            found = _ranking.discounted_gain(n, counts @ gains, discount)
        return _ranking.ratio(found, ideal, np.nan)

    return summarize(np.concatenate(ranking.map(score, ranking.levels)), average)


def _gains(gain: str, levels: int) -> np.ndarray:
    shared = np.arange(levels, dtype=np.float64)
    if gain == "linear":
        return shared
    if levels > 512:
        raise ValueError(
            f"{levels - 1} shared labels are too many for 2^c - 1; use gain='linear'."
        )
    return np.exp2(shared) - 1
