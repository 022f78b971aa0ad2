"""Plain NumPy models of an index and its answers."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal


def hamming_distances(queries, bits):
    """Return all distances, by a product of floats: bits are never packed."""
    q, b = queries.astype(np.float32), bits.astype(np.float32)
    return (q.sum(axis=1)[:, None] + b.sum(axis=1) - 2 * q @ b.T).astype(np.int32)


def jaccard_distances(queries, bits):
    """Return all distances; of two codes without ones, 0."""
    q, b = queries.astype(np.float32), bits.astype(np.float32)
    union = q.sum(axis=1)[:, None] + b.sum(axis=1) - q @ b.T
    return (union - q @ b.T).astype(float) / np.maximum(union, 1)


def scores_of(queries, vectors, metric):
    """Return the distances of all pairs, in float64."""
    products = queries @ vectors.T
    if metric == "inner_product":
        return -products
    if metric == "euclidean":
        squares = np.square(queries).sum(axis=1)[:, None]
        squares = squares + np.square(vectors).sum(axis=1) - 2 * products
        return np.sqrt(np.maximum(squares, 0))
    norms = np.outer(*(np.linalg.norm(one, axis=1) for one in (queries, vectors)))
    return 1 - products / np.where(norms > 0, norms, np.inf)


def decoded(bits, codebook, offset):
    """Return what bits decode to, by the values of blocks of 1, 4 or 8."""
    if codebook.ndim == 2:
        return bits @ codebook + offset
    size = codebook.shape[1].bit_length() - 1
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % size)))
    blocks = padded.reshape(len(bits), len(codebook), size)
    values = blocks @ (1 << np.arange(size)[::-1])
    return offset + sum(own[values[:, block]] for block, own in enumerate(codebook))


def first_of(scores, allowed, n):
    """Return which pairs are the first `n` of a query by (score, position)."""
    order = np.argsort(np.where(allowed, scores, np.inf), axis=1, kind="stable")
    first = np.zeros_like(allowed)
    np.put_along_axis(first, order[:, :n], True, axis=1)
    return first & allowed


def assert_answers(found, scores, allowed, k=None, radius=np.inf, tolerance=0):
    """Compare what was found with the best of all pairs that are allowed.

    Scores may differ by the tolerance, and those that differ by less may change places.
    """
    assert len(found[0]) == len(found[1]) == len(scores)
    for query, (distances, positions) in enumerate(zip(*found, strict=True)):
        own, some = scores[query], np.flatnonzero(allowed[query])
        some = some[np.argsort(own[some], kind="stable")]
        if not tolerance:
            expected = some[own[some] <= radius][:k]
            assert_array_equal(positions, expected, f"positions of query {query}")
            assert_array_equal(distances, own[expected], f"scores of query {query}")
            continue
        assert_array_equal(
            np.lexsort((positions, distances)), np.arange(len(positions))
        )
        assert len(np.unique(positions)) == len(positions)
        assert np.isin(positions, some).all()
        assert_allclose(distances, own[positions], rtol=0, atol=tolerance)
        sure = own[some][:k]
        sure = sure[sure <= radius - tolerance]
        assert len(positions) >= len(sure)
        assert_allclose(distances[: len(sure)], sure, rtol=0, atol=tolerance)
        assert k is None or len(positions) <= k
        assert k is None or radius < np.inf or len(positions) == k
        assert not len(positions) or distances[-1] <= radius


def groups_of(near):
    """Return the groups that a symmetric matrix of near pairs connects."""
    groups = np.arange(len(near))
    while True:
        lowest = np.where(near, groups, len(near)).min(axis=1)
        if (lowest == groups).all():
            return np.unique(groups, return_inverse=True)[1]
        groups = lowest
