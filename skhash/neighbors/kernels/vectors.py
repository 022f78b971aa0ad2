"""The kernel that compares queries with vectors in place."""

from functools import partial

import numpy as np

from skhash.utils.kernels import kernel


# Sums may be reordered, so that several terms are added at a time.
@partial(kernel, fastmath={"reassoc"})
def score_vectors(vectors, positions, queries, euclidean, cosine, scores):
    """Write scores (n_queries, m) of the rows at each query's own positions.

    vectors (n, n_features) : of any type; positions (n_queries, m) : int64; queries
    (n_queries, n_features) and scores : of one float type; euclidean and cosine : bool,
    both False for inner products.
    """
    number = queries.dtype.type
    for q in range(len(queries)):
        query = queries[q]
        length = np.sqrt((query * query).sum())
        for i in range(positions.shape[1]):
            row = vectors[positions[q, i]]
            total, square = number(0), number(0)
            if euclidean:
                for j in range(len(row)):
                    difference = number(row[j]) - query[j]
                    total += difference * difference
            else:
                for j in range(len(row)):
                    value = number(row[j])
                    total -= value * query[j]
                    square += value * value
            if cosine:
                scale = np.sqrt(square) * length
                total = max(1 + total / scale, number(0)) if scale > 0 else number(1)
            scores[q, i] = total
