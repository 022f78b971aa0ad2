"""Near rows to train on: none of those that are held out."""

import numpy as np
from scipy import sparse

from skhash.numerics._graph import neighbor_table
from skhash.utils.chunks import RowView


def near_rows(X, anchors, n_neighbors, trains, search) -> np.ndarray:
    """Return the nearest other rows of some rows, the nearest first.

    Parameters
    ----------
    X : {ndarray, CSR array, RowView} of shape (n_samples, n_features)
    anchors : ndarray of shape (n_anchors,), int64
        The rows whose neighbours are wanted.
    n_neighbors : int
    trains : ndarray of shape (n_samples,), bool
        Which rows are trained on. Their neighbours are among themselves; those of the
        others are among all rows.
    search : tuple
        What `neighbor_table` is given besides.

    Returns
    -------
    table : ndarray of shape (n_anchors, n_near), int64
        As many as are wanted, or all other rows that are trained on.
    """
    if trains.all():
        return neighbor_table(X, anchors, n_neighbors, *search)
    known = np.flatnonzero(trains)
    inside = trains[anchors]
    rows = X[known] if sparse.issparse(X) else RowView(X, known)
    places = np.searchsorted(known, anchors[inside])
    near = known[neighbor_table(rows, places, n_neighbors, *search)]
    table = np.empty((len(anchors), near.shape[1]), dtype=np.int64)
    table[inside] = near
    table[~inside] = neighbor_table(X, anchors[~inside], near.shape[1], *search)
    return table
