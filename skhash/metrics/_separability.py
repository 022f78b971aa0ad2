"""Mean distances within and between classes, computed from counts of bits.

Rows with the same labels form a group. With m rows and o ones at a bit in one group,
and M and P in another, ``o (M - P) + (m - o) P`` of the pairs differ in that bit.
Summed over the groups that share a label, this is the distance over relevant pairs.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning

from skhash.metrics._counts import Ranking
from skhash.metrics._inputs import labelled_ranking
from skhash.utils.chunks import row_chunks
from skhash.utils.parameters import checked


@checked
def class_distances(
    codes, labels, *, database_codes=None, database_labels=None, packed: bool = False
) -> tuple[float, float]:
    """Mean Hamming distance of pairs that share a label, and of pairs that do not.

    For retrieval by label, the first should be small and the second large. For random
    codes, both are half the number of bits.

    Parameters
    ----------
    codes : array-like of shape (n, n_bits) or (n, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    labels : array-like of shape (n,) or (n, n_labels)
        Classes of any type, or a 0/1 indicator matrix of several labels, dense or
        sparse.
    database_codes : array-like of shape (n_database, n_bits) or \
            (n_database, n_bytes), default=None
        Second codes of the pairs. By default, pairs are the unordered pairs of
        different rows of `codes`.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels), \
            default=None
        Labels of `database_codes`.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    intra : float
        Mean distance of the pairs that share a label.
    inter : float
        Mean distance of the other pairs. Either number is NaN, with a warning, if there
        are no such pairs.

    Raises
    ------
    ValueError
        If codes or labels do not match, or if only one of `database_codes` and
        `database_labels` is given.

    See Also
    --------
    separability_score : The difference of the two means.
    hamming_distance_histogram : The distributions of the distances.

    Notes
    -----
    Both means are exact. If a bit is 1 for a share p of the n rows of a class, the
    class contributes ``2 p (1 - p) n / (n - 1)`` to its mean, summed over bits. For
    classes the cost grows with the number of rows, for indicators also with the square
    of the number of different label sets.

    Examples
    --------
    >>> from skhash.metrics import class_distances
    >>> codes = [[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]]
    >>> class_distances(codes, ["cat", "cat", "dog"])
    (1.0, 3.5)
    """
    if (database_codes is None) != (database_labels is None):
        missing = "codes" if database_codes is None else "labels"
        raise ValueError(
            f"database_{missing} are missing; give both database_codes and "
            "database_labels, or neither."
        )
    alone = database_codes is None
    if alone:
        database_codes, database_labels = codes, labels
    data = codes, database_codes, labels, database_labels
    return _mean_distances(labelled_ranking(data, packed, exclude_self=alone))


@checked
def separability_score(
    query_codes,
    database_codes,
    query_labels,
    database_labels,
    *,
    exclude_self: bool = False,
    packed: bool = False,
) -> float:
    """Mean distance of pairs that share no label, minus that of pairs that share one.

    Random codes score 0. Balanced codes can score up to `n_bits` for two classes, and
    up to about half of that for many classes.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    database_codes : array-like of shape (n_database, n_bits) or (n_database, n_bytes)
        Second codes of the pairs, in the same format.
    query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
        Classes of any type, or a 0/1 indicator matrix of several labels.
    database_labels : array-like of shape (n_database,) or (n_database, n_labels)
        Labels of the database, in the same format.
    exclude_self : bool, default=False
        Whether to leave out the pairs of query i and database code i.
    packed : bool, default=False
        Whether codes are packed bytes.

    Returns
    -------
    score : float
        Difference in bits. NaN, with a warning, if there are no pairs for one of the
        means.

    Raises
    ------
    ValueError
        If codes or labels do not match.

    See Also
    --------
    class_distances : The two means.

    Examples
    --------
    >>> from skhash.metrics import separability_score
    >>> separability_score([[0, 0]], [[0, 0], [0, 1], [1, 1]], [1], [1, 1, 2])
    1.5
    """
    data = query_codes, database_codes, query_labels, database_labels
    intra, inter = _mean_distances(labelled_ranking(data, packed, exclude_self))
    return inter - intra


def _mean_distances(ranking: Ranking) -> tuple[float, float]:
    is_class = len(ranking.masks) == 0
    wanted = ranking.wanted
    having = ranking.classes[:, None] if is_class else ranking.masks.T
    both = np.concatenate([wanted, having])
    labels, groups = np.unique(both, axis=0, return_inverse=True)
    # NumPy 2.0.0 gives the groups two dimensions.
    query_groups, database_groups = np.split(groups.reshape(-1), [len(wanted)])
    queries = _bit_counts(ranking.queries, query_groups, len(labels))
    database = _bit_counts(ranking.database.T, database_groups, len(labels))
    # A class has one partner, itself.
    partners = database if is_class else _sums_of_partners(labels, database)
    every = _distances(queries.sum(axis=0), database.sum(axis=0))
    intra = _distances(queries, partners)
    if ranking.exclude_self:
        differ = np.bitwise_count(ranking.queries ^ ranking.database.T).sum(axis=1)
        same = (wanted == having if is_class else wanted & having).any(axis=1)
        every -= [differ.sum(), len(differ)]
        intra -= [differ[same].sum(), same.sum()]
    return _mean(intra, "share a label"), _mean(every - intra, "share no label")


def _sums_of_partners(labels, counts):
    """Return the sums of the counts of all groups that share a label with a group.

    labels : bit masks of shape (n_groups, n_words)
    """
    sums = np.empty_like(counts)
    for rows in row_chunks(len(labels), 16 * len(labels)):
        share = np.zeros((rows.stop - rows.start, len(labels)), dtype=bool)
        for mask, other in zip(labels[rows].T, labels.T, strict=True):
            share |= (mask[:, None] & other) != 0
        sums[rows] = share.astype(np.float64) @ counts
    return sums


def _bit_counts(words, groups, n_groups: int) -> np.ndarray:
    """Count the ones of each bit in each group; the last column counts the rows.

    Returns
    -------
    counts : ndarray of shape (n_groups, 64 * n_words + 1), float64
    """
    counts = np.zeros((n_groups, 64 * words.shape[1] + 1))
    for rows in row_chunks(len(words), 16 * counts.shape[1]):
        packed = np.ascontiguousarray(words[rows]).view(np.uint8)
        bits = np.unpackbits(packed, axis=1)
        members = sparse.csr_array(
            (np.ones(len(bits)), (groups[rows], np.arange(len(bits)))),
            shape=(n_groups, len(bits)),
        )
        counts[:, :-1] += members @ bits
    counts[:, -1] = np.bincount(groups, minlength=n_groups)
    return counts


def _distances(counts, others) -> np.ndarray:
    """Sum distances, and count pairs, of each group with all its partners."""
    ones, n = counts[..., :-1], counts[..., -1:]
    other_ones, m = others[..., :-1], others[..., -1:]
    differ = ones * (m - other_ones) + (n - ones) * other_ones
    return np.array([differ.sum(), (n * m).sum()])


def _mean(sums, which: str) -> float:
    distance, n_pairs = sums
    if n_pairs == 0:
        warnings.warn(
            f"No two codes {which}, so their mean distance is NaN.",
            UndefinedMetricWarning,
            stacklevel=5,
        )
        return float("nan")
    return float(distance / n_pairs)
