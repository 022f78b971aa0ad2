"""Scores of Hamming balls and counts by distance, which ties do not affect."""

import numpy as np

from skhash.metrics import _ranking
from skhash.metrics._inputs import (
    EMPTY,
    Average,
    EmptyBall,
    labelled_ranking,
    summarize,
)
from skhash.utils.parameters import CountFrom0, checked


@checked
def precision_within_radius_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    radius: CountFrom0 = 2,
    empty_ball: EmptyBall = "zero",
    return_coverage: bool = False,
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    """Share of relevant codes within a Hamming radius: the precision of table look-up.

    The share of all codes that lie within radius 2 falls from 2e-3 at 16 bits to 1e-16
    at 64 bits, so the balls of long codes are often empty. The coverage is the share of
    queries with an answer.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to look up, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or a 0/1 indicator matrix of several labels. Codes that share a label
        are relevant.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    radius : int, default=2
        Largest distance that counts, inclusive.
    empty_ball : {"zero", "skip"}, default="zero"
        Whether queries with nothing within the radius score 0, as in most papers, or
        NaN and are left out of the mean.
    return_coverage : bool, default=False
        Whether to return the coverage too.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one value per query.
    exclude_self : bool, default=False
        Whether to leave database code i out of the ball of query i.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    score : float or ndarray of shape (n_queries,), float64
        The precision, or one per query with ``average=None``.
    coverage : float or ndarray of shape (n_queries,), bool
        Share of queries whose ball is not empty, including queries without a relevant
        code; with ``average=None``, whether each ball is not empty. Only with
        ``return_coverage=True``.

    Raises
    ------
    ValueError
        If codes or labels do not match.

    Examples
    --------
    >>> from skhash.metrics import precision_within_radius_score
    >>> precision_within_radius_score(
    ...     [[0, 0, 0], [1, 1, 1]],
    ...     [[0, 0, 0], [0, 0, 1]],
    ...     ["cat", "dog"],
    ...     ["cat", "dog"],
    ...     radius=1,
    ...     return_coverage=True,
    ... )
    (0.25, 0.5)
    """
    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)

    def score(rows):
        counts = ranking.counts(rows, 2)
        inside = counts[:, : radius + 1].sum(axis=1)
        size = inside.sum(axis=1)
        values = _ranking.ratio(inside[:, 1], size, EMPTY[empty_ball])
        relevant = counts[:, :, 1].any(axis=1)
        return np.where(relevant, values, np.nan), size > 0

    values, covered = map(np.concatenate, zip(*ranking.map(score, 2), strict=True))
    result = summarize(values, average)
    if not return_coverage:
        return result
    return result, (covered if average is None else float(covered.mean()))


@checked
def hamming_precision_recall_curve(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    empty_ball: EmptyBall = "zero",
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    """Precision and recall of Hamming balls, for each radius.

    Precision and recall of each query are computed within every radius from 0 to
    `n_bits`, then averaged over queries (macro average). The ``n_bits + 1`` points do
    not depend on the order of ties.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to look up, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or a 0/1 indicator matrix of several labels. Codes that share a label
        are relevant.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    empty_ball : {"zero", "skip"}, default="zero"
        Whether the precision of a query with nothing within the radius is 0, or NaN and
        left out of the mean at that radius.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one curve per query.
    exclude_self : bool, default=False
        Whether to leave database code i out of the balls of query i.
    packed : bool, default=False
        Whether codes are packed bytes. Radii then go up to ``8 * n_bytes``, padding
        included.

    Returns
    -------
    precision : ndarray of shape (n_bits + 1,) or (n_queries, n_bits + 1), float64
        Precision at each radius.
    recall : ndarray of shape (n_bits + 1,) or (n_queries, n_bits + 1), float64
        Recall at each radius.
    radii : ndarray of shape (n_bits + 1,), int64
        The radii, from 0 to `n_bits`.

    Raises
    ------
    ValueError
        If codes or labels do not match.

    See Also
    --------
    precision_within_radius_score : Precision at one radius, with the coverage.

    Notes
    -----
    The area under these points, computed by trapezoids, is not the average precision.
    Use `mean_average_precision_score` for that.

    Examples
    --------
    >>> from skhash.metrics import hamming_precision_recall_curve
    >>> codes, labels = [[0, 0], [0, 1], [1, 1]], [1, 0, 1]
    >>> precision, recall, radii = hamming_precision_recall_curve(
    ...     [[0, 0]], codes, [1], labels
    ... )
    >>> precision
    array([1.        , 0.5       , 0.66666667])
    >>> recall
    array([0.5, 0.5, 1. ])
    >>> radii
    array([0, 1, 2])
    """
    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)

    def curves(rows):
        inside = ranking.counts(rows, 2).cumsum(axis=1)
        hits = inside[:, :, 1]
        relevant = hits[:, -1:]
        precision = _ranking.ratio(hits, inside.sum(axis=2), EMPTY[empty_ball])
        precision = np.where(relevant > 0, precision, np.nan)
        shape = np.broadcast_to(relevant, hits.shape)
        return precision, _ranking.ratio(hits, shape, np.nan)

    parts = zip(*ranking.map(curves, 2), strict=True)
    precision, recall = map(np.concatenate, parts)
    radii = np.arange(ranking.n_bits + 1)
    return summarize(precision, average), summarize(recall, average), radii


@checked
def hamming_distance_histogram(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    exclude_self: bool = False,
    packed: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Histograms of Hamming distances: of pairs that share a label, and of the others.

    The less the two histograms overlap, the better a radius separates relevant codes
    from the others.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Second codes of the pairs, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes, or a 0/1 indicator matrix of several labels. Codes that share a label
        are relevant.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    exclude_self : bool, default=False
        Whether to leave out the pairs of query i and database code i. If queries and
        database are the same codes, every other pair is then counted twice.
    packed : bool, default=False
        Whether codes are packed bytes. Distances then go up to ``8 * n_bytes``.

    Returns
    -------
    relevant : ndarray of shape (n_bits + 1,), int64
        Number of pairs that share a label, at each distance from 0 to `n_bits`.
    irrelevant : ndarray of shape (n_bits + 1,), int64
        Number of other pairs, at each distance.

    Raises
    ------
    ValueError
        If codes or labels do not match.

    See Also
    --------
    class_distances : The mean distances, computed without enumerating pairs.
    DistanceHistogramDisplay : Plots the histograms.

    Examples
    --------
    >>> from skhash.metrics import hamming_distance_histogram
    >>> codes, labels = [[0, 0], [0, 1], [1, 1]], [1, 0, 1]
    >>> relevant, irrelevant = hamming_distance_histogram([[0, 0]], codes, [1], labels)
    >>> relevant, irrelevant
    (array([1, 0, 1]), array([0, 1, 0]))
    """
    data = query_codes, database_codes, query_labels, database_labels
    ranking = labelled_ranking(data, packed, exclude_self)
    chunks = ranking.map(lambda rows: ranking.counts(rows, 2).sum(axis=0), 2)
    irrelevant, relevant = sum(chunks).T
    return relevant, irrelevant
