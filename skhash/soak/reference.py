"""What an index holds and answers, as plainly as NumPy says it."""

import numpy as np
from numpy.testing import assert_array_equal


def hamming_distances(queries, bits):
    """Return all distances, by a product of floats: bits are never packed."""
    q, b = queries.astype(np.float32), bits.astype(np.float32)
    return (q.sum(axis=1)[:, None] + b.sum(axis=1) - 2 * q @ b.T).astype(np.int32)


def scores_of(queries, vectors, metric):
    """Return the scores of all pairs, in float64."""
    products = queries @ vectors.T
    if metric == "inner_product":
        return -products
    if metric == "euclidean":
        squares = np.square(queries).sum(axis=1)[:, None]
        return squares + np.square(vectors).sum(axis=1) - 2 * products
    norms = np.outer(*(np.linalg.norm(one, axis=1) for one in (queries, vectors)))
    return 1 - products / np.where(norms > 0, norms, np.inf)


def ranked(scores, may_find, own=False):
    """Return, a query, the scores and positions of what it may find, the best first.

    own : whether query i is the code at position i, which it does not find
    """
    positions, answers = np.flatnonzero(may_find), []
    for query, row in enumerate(scores):
        some = positions[positions != query] if own else positions
        order = np.argsort(row[some], kind="stable")
        answers.append((row[some][order], some[order]))
    return answers


def ranked_candidates(first_scores, scores, may_find, n_candidates, own=False):
    """As `ranked`, of the `n_candidates` that are first by other scores."""
    answers = []
    for row, (_, first) in zip(
        scores, ranked(first_scores, may_find, own), strict=True
    ):
        some = np.sort(first[:n_candidates])
        order = np.argsort(row[some], kind="stable")
        answers.append((row[some][order], some[order]))
    return answers


def assert_nearest(found, expected, k, names=None):
    """Compare an answer of `kneighbors` with what `ranked` returned.

    names : ndarray, default=None
        The ids by position, where they were asked for.
    """
    distances = np.stack([scores[:k] for scores, _ in expected])
    positions = np.stack([positions[:k] for _, positions in expected])
    positions = positions if names is None else names[positions]
    assert_array_equal(found[0], distances, err_msg=f"distances, k={k}")
    assert_array_equal(found[1], positions, err_msg=f"positions, k={k}")
    assert found[1].dtype == positions.dtype


def assert_within(found, expected, radius, names=None):
    """Compare an answer of `radius_neighbors` with what `ranked` returned."""
    assert len(found[0]) == len(found[1]) == len(expected)
    for query, (distances, positions) in enumerate(expected):
        near = distances <= radius
        positions = positions[near] if names is None else names[positions[near]]
        where = f"of query {query}, radius={radius}"
        assert_array_equal(found[0][query], distances[near], f"distances {where}")
        assert_array_equal(found[1][query], positions, f"positions {where}")


def assert_graph(graph, distances, positions, mode):
    """Compare a sparse graph with lists of neighbours."""
    weights = np.concatenate(distances).astype(np.float64)
    if mode == "connectivity":
        weights[:] = 1
    assert_array_equal(np.diff(graph.indptr), [len(row) for row in positions])
    assert_array_equal(graph.indices, np.concatenate(positions))
    assert_array_equal(graph.data, weights)


def groups_of(near):
    """Return the groups that a symmetric matrix of near pairs connects."""
    groups = np.arange(len(near))
    while True:
        lowest = np.where(near, groups, len(near)).min(axis=1)
        if (lowest == groups).all():
            return np.unique(groups, return_inverse=True)[1]
        groups = lowest
