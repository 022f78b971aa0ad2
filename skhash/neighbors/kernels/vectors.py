"""The kernel that compares queries with vectors in place."""

from functools import partial

import numpy as np

from skhash.utils.kernels import inner_kernel, kernel

# Sums of squares below this have lost digits, or vanished.
LEAST_SQUARE = np.finfo(np.float64).tiny / np.finfo(np.float64).eps


@inner_kernel
def _is_lost(vector, square):
    """Return whether the sum of squares of a vector is wrong, or says that it is 0."""
    return not LEAST_SQUARE <= square < np.inf and vector.any()


# Sums may be reordered, so that several terms are added at a time.
@partial(kernel, fastmath={"reassoc"})
def score_vectors(vectors, positions, queries, euclidean, cosine, scores):
    """Write scores (n_queries, m) of the rows at each query's own positions.

    vectors (n, n_features) : of any type; positions (n_queries, m) : int64; queries
    (n_queries, n_features) and scores : float64; euclidean and cosine : bool, both
    False for inner products.

    Scores are NaN or infinite where squares vanish or overflow.
    """
    for q in range(len(queries)):
        query = queries[q]
        square_of_query = (query * query).sum()
        query_is_lost = _is_lost(query, square_of_query)
        for i in range(positions.shape[1]):
            row = vectors[positions[q, i]]
            total, square, is_lost = 0.0, 0.0, query_is_lost
            if euclidean:
                for j in range(len(row)):
                    difference = np.float64(row[j]) - query[j]
                    total += difference * difference
                if total >= LEAST_SQUARE:
                    is_lost = False
                elif square_of_query == 0:
                    is_lost = _is_lost(row, total)
            else:
                for j in range(len(row)):
                    value = np.float64(row[j])
                    total -= value * query[j]
                    square += value * value
                is_lost = is_lost or _is_lost(row, square)
            if cosine:
                total = _half_square(row, query, square, square_of_query)
            scores[q, i] = np.nan if is_lost else total


@partial(inner_kernel, fastmath={"reassoc"})
def _half_square(row, query, square_of_row, square_of_query):
    """Return 1 less the cosine, which it would round to 0 for near copies.

    That is half the squared distance of the vectors in unit length; 1 for a zero
    vector. The squares are those of the lengths.
    """
    if square_of_row == 0 or square_of_query == 0:
        return 1.0
    of_row, of_query = 1 / np.sqrt(square_of_row), 1 / np.sqrt(square_of_query)
    total = 0.0
    for j in range(len(row)):
        difference = of_row * np.float64(row[j]) - of_query * query[j]
        total += difference * difference
    return total / 2
