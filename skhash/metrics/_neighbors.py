"""True neighbours of vectors, and the share of them that a Hamming ranking finds."""

import numpy as np
from scipy import sparse

from skhash.metrics import _ranking
from skhash.metrics._inputs import (
    Average,
    Cuts,
    Ties,
    check_cuts,
    summarize,
    unlabelled_ranking,
)
from skhash.numerics._nearest import exact_neighbors
from skhash.utils.arrays import as_array, check_array
from skhash.utils.parameters import Count, Metric, checked


@checked
def true_neighbors(
    X_query,
    X_database=None,
    n_neighbors: Count = 10,
    *,
    metric: Metric = "euclidean",
    device: str = "cpu",
    exclude_self: bool = False,
) -> np.ndarray:
    """Find the exact nearest neighbours of float vectors.

    Parameters
    ----------
    X_query : {array-like, sparse matrix} of shape (n_queries, n_features)
        Query vectors.
    X_database : {array-like, sparse matrix} of shape (n_database, n_features), \
            default=None
        Vectors to search. By default the queries; each is then left out of the answer
        to itself.
    n_neighbors : int, default=10
        Number of neighbours per query.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        Order of the neighbours: by increasing distance, or by decreasing cosine or
        inner product. The cosine with a zero vector is 0, as in scikit-learn.
    device : str, default="cpu"
        Where to compute: "auto", "cpu", "cuda", "cuda:1" or "mps".
    exclude_self : bool, default=False
        Whether to leave row i of `X_database` out of the answer to query i, if both
        hold the same rows.

    Returns
    -------
    indices : ndarray of shape (n_queries, n_neighbors), int64
        Positions in the database, ordered by (distance, position). Distances are those
        of float64, and equal rows tie exactly.

    Raises
    ------
    ValueError
        If there are fewer than `n_neighbors` rows, if the numbers of columns differ, or
        if a value is NaN or infinite.

    See Also
    --------
    neighbor_recall_score : Share of these neighbours that codes find.

    Notes
    -----
    Products in float32 give a lower bound of each distance, which accounts for
    rounding. The rows with the smallest bounds are compared again in float64, until no
    remaining bound is below the k-th distance. The result is that of a float64 search
    over all rows, on any device. Sparse rows are not made dense.

    Examples
    --------
    >>> from skhash.metrics import true_neighbors
    >>> true_neighbors([[0.0], [5.0]], [[1.0], [4.0], [-1.0]], n_neighbors=2)
    array([[0, 2],
           [1, 0]])
    """
    queries = _check_vectors(X_query)
    database = queries if X_database is None else _check_vectors(X_database)
    exclude_self = exclude_self or X_database is None
    if queries.shape[1] != database.shape[1]:
        raise ValueError(
            f"X_query has {queries.shape[1]} features, but X_database has "
            f"{database.shape[1]}; both must have the same columns."
        )
    if exclude_self and queries.shape[0] != database.shape[0]:
        raise ValueError(
            "exclude_self=True leaves row i out for query i, so X_query and X_database "
            f"must be the same rows; got {queries.shape[0]} and {database.shape[0]}."
        )
    check_cuts("n_neighbors", n_neighbors, database.shape[0] - exclude_self)
    if sparse.issparse(queries) or sparse.issparse(database):
        queries, database = sparse.csr_array(queries), sparse.csr_array(database)
    options = metric, device, exclude_self
    return exact_neighbors(queries, database, int(n_neighbors), *options)


@checked
def neighbor_recall_score(
    query_codes,
    database_codes,
    true_neighbors_indices,
    *,
    n_retrieved: Cuts = 100,
    ties: Ties = "expected",
    average: Average = "mean",
    exclude_self: bool = False,
    packed: bool = False,
):
    r"""Recall K@N: the share of the K true neighbours found among the N nearest codes.

    If the list of N ends within a block of b tied codes, of which s fit and m are true
    neighbours, and c true neighbours are strictly nearer, the expectation over random
    orders of ties is

    .. math:: \text{recall} = (c + m s / b) / K

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Codes to rank, in the same format.
    true_neighbors_indices : array-like of shape (n_queries, K), int
        Positions of the true neighbours in the database, in any order, as returned by
        `true_neighbors` or read from a ground-truth file. For K neighbours, pass the
        first K columns.
    n_retrieved : int or array-like of int, default=100
        The number N. Several numbers cost no more than one.
    ties : {"expected", "index", "best", "worst"}, default="expected"
        How codes at the same distance are ordered: at random, scored in expectation; by
        position, as `HammingNeighbors` does; or with true neighbours first or last.
    average : {"mean"} or None, default="mean"
        "mean" averages over queries. None returns one value per query.
    exclude_self : bool, default=False
        Whether to leave database code i out of the ranking of query i.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    recall : float, or ndarray, float64
        A float for a single N, and of shape (n_N,) for several. With ``average=None``,
        of shape (n_queries,) or (n_queries, n_N).

    Raises
    ------
    ValueError
        If an index is outside the database, occurs twice in a row, or is the query
        itself with ``exclude_self=True``; or if N is more than the number of codes to
        rank.

    See Also
    --------
    true_neighbors : Finds the true neighbours.

    Examples
    --------
    >>> from skhash.metrics import neighbor_recall_score
    >>> codes = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]
    >>> neighbor_recall_score([[0, 0, 0]], codes, [[0, 2]], n_retrieved=[1, 2, 3])
    array([0.5 , 0.75, 1.  ])
    """
    ranking = unlabelled_ranking((query_codes, database_codes), packed, exclude_self)
    truth = _check_truth(true_neighbors_indices, ranking)
    cuts = check_cuts("n_retrieved", n_retrieved, ranking.n_ranked)

    def score(rows):
        hits = _hits(ranking, rows, truth[rows], np.atleast_1d(cuts), ties)
        return hits / truth.shape[1]

    values = np.concatenate(ranking.map(score, 1))
    return summarize(values.reshape(-1, *cuts.shape), average)


def _hits(ranking, rows, truth, cuts, ties) -> np.ndarray:
    """Return the true neighbours within each cut, of shape (n_rows, n_cuts)."""
    counts = ranking.counts(rows, 1)
    if ties == "index":
        ranks = ranking.ranks_of(rows, counts, truth)
        return np.stack([(ranks <= cut).sum(axis=1) for cut in cuts], axis=1)
    n = counts[:, :, 0]
    r = np.zeros_like(n)
    in_row = np.arange(len(truth))[:, None]
    np.add.at(r, (in_row, ranking.distances_to(rows, truth)), 1)
    hits = [_ranking.sums_within(n, r, cut, ties)[0] for cut in cuts]
    return np.stack(hits, axis=1)


def _check_vectors(X):
    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
    )


def _check_truth(truth, ranking) -> np.ndarray:
    """Return the indices in ascending order, as kernels require."""
    truth = as_array(truth)
    if truth.dtype.kind not in "iu" or truth.ndim != 2 or truth.shape[1] == 0:
        raise ValueError(
            "true_neighbors_indices must be integers of shape (n_queries, n_neighbors),"
            f" got dtype {truth.dtype} and shape {truth.shape}."
        )
    if len(truth) != ranking.n_queries:
        raise ValueError(
            f"true_neighbors_indices have {len(truth)} rows for {ranking.n_queries} "
            "query_codes; give one row per query."
        )
    n_database = ranking.database.shape[1]
    wrong = (truth < 0) | (truth >= n_database)
    if wrong.any():
        raise ValueError(
            f"true_neighbors_indices hold {truth[wrong][0]}, which is not a position "
            f"in a database of {n_database} codes. Was it made for another database?"
        )
    truth = np.sort(truth.astype(np.int64), axis=1)
    twice = (truth[:, 1:] == truth[:, :-1]).any(axis=1)
    if twice.any():
        raise ValueError(
            f"Row {np.flatnonzero(twice)[0]} of true_neighbors_indices holds an index "
            "twice; the indices in a row must differ."
        )
    is_self = truth == np.arange(len(truth))[:, None]
    if ranking.exclude_self and is_self.any():
        raise ValueError(
            f"Row {np.flatnonzero(is_self.any(axis=1))[0]} of true_neighbors_indices "
            "holds the query itself, which exclude_self=True leaves out; "
            "true_neighbors(X) with one argument leaves it out too."
        )
    return truth
