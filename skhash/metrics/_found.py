"""Scores of positions that a search found, whatever it compared."""

import numpy as np

from skhash.metrics import _ranking
from skhash.metrics._inputs import encode_labels, summarize
from skhash.utils.chunks import row_chunks


def found_average_precision(
    positions, query_labels, database_labels, live=None, *, exclude_self=False
) -> float:
    """Return the mean average precision of positions in the order of a search.

    Parameters
    ----------
    positions : ndarray of shape (n_queries, n_found), int
        In the database.
    query_labels, database_labels : array-like
        As of `mean_average_precision_score`.
    live : ndarray of shape (n_database,), bool, default=None
        What can be found; None is everything.
    exclude_self : bool, default=False
        Whether query i is row i of the database, and was not to be found.
    """
    n_database, n_found = len(database_labels), positions.shape[1]
    wanted, classes, masks, _ = encode_labels(
        query_labels, database_labels, len(positions), n_database
    )
    live = slice(None) if live is None else live
    ranks, values = np.arange(1, n_found + 1), []

    def is_relevant(rows, positions):
        if len(masks):
            shared = masks[:, positions] & wanted[rows].T[:, :, None]
            return shared.any(axis=0)
        return classes[positions] == wanted[rows]

    for rows in row_chunks(len(positions), 16 * (n_database + n_found)):
        n_relevant = is_relevant(rows, np.arange(n_database)[None, live]).sum(axis=1)
        if exclude_self:
            itself = np.arange(rows.start, rows.stop)[:, None]
            n_relevant -= is_relevant(rows, itself)[:, 0]
        hits = is_relevant(rows, positions[rows])
        precisions = (np.cumsum(hits, axis=1) / ranks * hits).sum(axis=1)
        most = np.minimum(n_relevant, n_found)
        values.append(_ranking.ratio(precisions, most, np.nan))
    return summarize(np.concatenate(values), "mean")


def found_recall(positions, truth) -> float:
    """Return the share of the true neighbours, a row a query, that were found."""
    first = np.arange(len(positions))[:, None] * (1 + max(positions.max(), truth.max()))
    return float(np.isin(truth + first, positions + first).mean())
