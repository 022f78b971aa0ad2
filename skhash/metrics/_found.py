"""Scores of positions that a search found, whatever it compared."""

import numpy as np
from sklearn.utils import check_consistent_length

from skhash.metrics import _ranking
from skhash.metrics._inputs import encode_labels, summarize
from skhash.utils.arrays import as_array
from skhash.utils.chunks import row_chunks


def found_average_precision(
    find, n_found, query_labels, database_labels, live=None, *, exclude_self=False
) -> float:
    """Return the mean average precision of positions in the order of a search.

    Parameters
    ----------
    find : callable
        Returns the positions in the database, (n_rows, n_found), of a slice of queries.
    n_found : int
    query_labels, database_labels : array-like
        As of `mean_average_precision_score`.
    live : ndarray of shape (n_database,), bool, default=None
        What can be found; None is everything.
    exclude_self : bool, default=False
        Whether query i is row i of the database, and was not to be found.
    """
    n_queries, n_database = (np.shape(y)[0] for y in (query_labels, database_labels))
    wanted, classes, masks, _ = encode_labels(
        query_labels, database_labels, n_queries, n_database
    )
    live = slice(None) if live is None else live
    ranks, values = np.arange(1, n_found + 1), []

    def is_relevant(rows, positions):
        if len(masks):
            shared = masks[:, positions] & wanted[rows].T[:, :, None]
            return shared.any(axis=0)
        return classes[positions] == wanted[rows]

    # Bytes of a search, and of the words of labels.
    for rows in row_chunks(n_queries, (48 + 16 * len(masks)) * (n_database + n_found)):
        n_relevant = is_relevant(rows, np.arange(n_database)[None, live]).sum(axis=1)
        if exclude_self:
            itself = np.arange(rows.start, rows.stop)[:, None]
            n_relevant -= is_relevant(rows, itself)[:, 0]
        hits = is_relevant(rows, find(rows))
        precisions = (np.cumsum(hits, axis=1) / ranks * hits).sum(axis=1)
        most = np.minimum(n_relevant, n_found)
        values.append(_ranking.ratio(precisions, most, np.nan))
    return summarize(np.concatenate(values), "mean")


def search_recall_score(indices, true_neighbors_indices) -> float:
    """Recall K@N of a search: the share of the true neighbours that it found.

    Parameters
    ----------
    indices : array-like of shape (n_queries, N), int
        Positions that any search found, as from ``kneighbors``; -1 where it found
        nothing.
    true_neighbors_indices : array-like of shape (n_queries, K), int
        Positions of the true neighbours, as from `true_neighbors`.

    Returns
    -------
    recall : float
        The mean over queries.

    Raises
    ------
    ValueError
        If these are not integers of two dimensions with as many rows, or a true
        neighbour is negative.

    See Also
    --------
    neighbor_recall_score : Of codes, in expectation over the order of ties.

    Examples
    --------
    >>> from skhash.metrics import search_recall_score
    >>> search_recall_score([[4, 2, 7], [0, 1, 5]], [[7, 3], [1, 0]])
    0.75
    """
    found, truth = as_array(indices), as_array(true_neighbors_indices)
    for name, places in (("indices", found), ("true_neighbors_indices", truth)):
        if places.dtype.kind not in "iu" or places.ndim != 2 or 0 in places.shape:
            raise ValueError(
                f"{name} must be integers of shape (n_queries, n_neighbors), got dtype "
                f"{places.dtype} and shape {places.shape}."
            )
    check_consistent_length(found, truth)
    if truth.min() < 0:
        raise ValueError(
            f"true_neighbors_indices hold {truth.min()}, which is no position."
        )
    # Positions of different queries become different numbers, and so does -1.
    found = np.maximum(found.astype(np.int64), -1)
    width = 2 + int(max(found.max(), truth.max()))
    first = width * np.arange(len(found))[:, None]
    return float(np.isin(first + truth, first + found).mean())
