"""Exact neighbours against float64 brute force, and recall against loops."""

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits

from skhash.metrics import (
    _counts,
    neighbor_recall_score,
    search_recall_score,
    true_neighbors,
)
from skhash.numerics import _nearest

METRICS = ["euclidean", "cosine", "inner_product"]


def brute_force(queries, database, k, metric, exclude_self=False):
    """Float64 differences or products, row by row, and a stable sort."""
    queries, database = (np.asarray(X, dtype=np.float64) for X in (queries, database))
    if metric == "cosine":
        queries, database = (_unit(X) for X in (queries, database))
    found = []
    for i, x in enumerate(queries):
        if metric == "euclidean":
            keys = np.square(x - database).sum(axis=1)
        else:
            keys = -(x * database).sum(axis=1)
        if exclude_self:
            keys[i] = np.inf
        found.append(np.argsort(keys, kind="stable")[:k])
    return np.array(found)


def _unit(X):
    norms = np.sqrt(np.square(X).sum(axis=1, keepdims=True))
    return X / np.where(norms > 0, norms, 1)


@pytest.fixture(params=["plain", "far from the origin", "outliers", "duplicates"])
def vectors(request):
    """Queries and a database on which float32 products alone would go wrong."""
    rng = np.random.default_rng(0)
    queries, database = rng.normal(size=(40, 24)), rng.normal(size=(900, 24))
    if request.param == "far from the origin":
        queries, database = queries + 1e6, database + 1e6
    elif request.param == "outliers":
        database[::50] *= 1e9
        queries[0] *= 1e12
    elif request.param == "duplicates":
        database = database[rng.integers(0, 12, 900)]
        database[rng.random(900) < 0.3] = 0
        queries[:5] = database[:5]
    return queries, database


@each("metric", METRICS)
@each("k, dtype", [(1, float), (10, np.float32), (899, float), (900, float)])
def test_order_is_that_of_float64(vectors, metric, k, dtype):
    vectors = [X.astype(dtype) for X in vectors]
    found = true_neighbors(*vectors, k, metric=metric)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, brute_force(*vectors, k, metric))


@pytest.mark.filterwarnings("error")
@each("metric", METRICS)
def test_products_that_float32_does_not_hold(metric):
    queries, database = np.random.default_rng(0).normal(size=(2, 200, 4))
    queries[::2] *= 1e60
    found = true_neighbors(queries, database, 10, metric=metric)
    np.testing.assert_array_equal(found, brute_force(queries, database, 10, metric))


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(METRICS), st.integers(1, 60), st.data()
)
def test_small_integers_tie_everywhere(seed, metric, n, data):
    rng = np.random.default_rng(seed)
    database = rng.integers(-1, 2, size=(n, 3)).astype(float)
    queries = rng.integers(-1, 2, size=(5, 3)).astype(float)
    k = data.draw(st.integers(1, n))
    np.testing.assert_array_equal(
        true_neighbors(queries, database, k, metric=metric),
        brute_force(queries, database, k, metric),
    )


@pytest.mark.parametrize("metric", METRICS)
def test_one_argument_leaves_each_row_out(metric, monkeypatch):
    monkeypatch.setattr(_nearest, "CHUNK_ROWS", 90)
    X, _ = load_digits(return_X_y=True)
    X = np.concatenate([X[:300], X[:20]])
    found = true_neighbors(X, n_neighbors=5, metric=metric)
    np.testing.assert_array_equal(found, brute_force(X, X, 5, metric, True))
    again = true_neighbors(X, X.copy(), 5, metric=metric, exclude_self=True)
    np.testing.assert_array_equal(found, again)
    assert (found != np.arange(len(X))[:, None]).all()
    everything = true_neighbors(X[:120], n_neighbors=np.int8(119), metric=metric)
    np.testing.assert_array_equal(
        np.sort(everything, axis=1),
        [[j for j in range(120) if j != i] for i in range(120)],
    )


@each("metric", METRICS)
def test_sparse_input_is_the_same(metric):
    rng = np.random.default_rng(0)
    # Of rows with one entry, cosines are equal but for rounding.
    X = sparse.random(120, 40, density=0.3, random_state=0, format="csr")
    Y = sparse.random(300, 40, density=0.3, random_state=1, format="csc")
    Y = sparse.vstack([Y, X[rng.integers(0, 120, 50)]])
    dense = brute_force(X.toarray(), Y.toarray(), 8, metric)
    for queries, database in [(X, Y), (X.toarray(), Y), (X, Y.toarray())]:
        found = true_neighbors(queries, database, 8, metric=metric)
        np.testing.assert_array_equal(found, dense)
    own = true_neighbors(X, n_neighbors=8, metric=metric)
    np.testing.assert_array_equal(
        own, brute_force(X.toarray(), X.toarray(), 8, metric, True)
    )


@pytest.mark.parametrize("metric", METRICS)
def test_chunks_and_precision_do_not_change_the_answer(vectors, metric, monkeypatch):
    import torch

    reference = true_neighbors(*vectors, 10, metric=metric)
    for name, value in {
        "CHUNK_ROWS": 200,
        "TABLE_BYTES": 4 * 200 * 7,
        "CANDIDATE_BYTES": 24 * 900 * 7,
        "MARGIN": 0,
        "LONGEST_LIST": 9,
    }.items():
        monkeypatch.setattr(_nearest, name, value)
        found = true_neighbors(*vectors, 10, metric=metric)
        np.testing.assert_array_equal(found, reference)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        lowered = true_neighbors(*vectors, 10, metric=metric)
        assert _nearest._unit_roundoff() == _nearest.REDUCED
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_array_equal(lowered, reference)


@each("make", [np.asarray, sparse.csr_array])
@each("metric", METRICS)
def test_scaling_does_not_change_the_answer(metric, make):
    rng = np.random.default_rng(0)
    queries, database = rng.normal(size=(20, 8)), rng.normal(size=(400, 8))
    reference = true_neighbors(queries, database, metric=metric)
    for power in (-1000, -120, 120, 1000):  # beyond float32 or float64 once squared
        scaled = [make(np.ldexp(X, power)) for X in (queries, database)]
        found = true_neighbors(*scaled, metric=metric)
        np.testing.assert_array_equal(found, reference)
    if metric != "euclidean":  # which the units of the two do not matter to
        scaled = make(np.ldexp(queries, -1000)), make(np.ldexp(database, 1000))
        found = true_neighbors(*scaled, metric=metric)
        np.testing.assert_array_equal(found, reference)


@each(
    "arguments, options, message",
    [
        ((np.eye(3), np.eye(3), 4), {}, "n_neighbors=4 is more than the 3"),
        ((np.eye(3), None, 3), {}, "n_neighbors=3 is more than the 2"),
        ((np.eye(3), np.eye(4), 1), {}, "3 features, but X_database has 4"),
        ((np.eye(3), np.eye(3)[:2], 1), {"exclude_self": True}, "got 3 and 2"),
        (([[np.nan]], [[1.0]], 1), {}, "NaN"),
        ((np.eye(3), np.eye(3), 0), {}, "n_neighbors"),
        ((np.eye(3), np.eye(3), 1), {"metric": "manhattan"}, "metric"),
        ((np.eye(3), np.eye(3), 1), {"device": "abacus"}, "abacus"),
    ],
)
def test_bad_vectors_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        true_neighbors(*arguments, **options)


@pytest.fixture
def coded():
    """Codes of 9 bits for 400 vectors, and the true neighbours of 25 queries."""
    rng = np.random.default_rng(0)
    X, planes = rng.normal(size=(425, 12)), rng.normal(size=(12, 9))
    bits = (X @ planes > 0).astype(np.uint8)
    return bits[:25], bits[25:], true_neighbors(X[:25], X[25:], 10)


@each("ties", ["expected", "index", "best", "worst"])
def test_several_cuts_are_those_one_by_one(coded, ties):
    cuts = [50, 1, 400, 7]
    together = neighbor_recall_score(*coded, n_retrieved=cuts, ties=ties)
    assert together.shape == (4,) and together[2] == 1
    for cut, value in zip(cuts, together, strict=True):
        alone = neighbor_recall_score(*coded, n_retrieved=cut, ties=ties)
        assert value == pytest.approx(alone, rel=1e-14)
    each = neighbor_recall_score(*coded, n_retrieved=cuts, ties=ties, average=None)
    assert each.shape == (25, 4)
    np.testing.assert_allclose(each.mean(axis=0), together, rtol=1e-14)


@each("ties", ["expected", "index"])
def test_recall_leaves_each_row_out(coded, ties, monkeypatch):
    monkeypatch.setattr(_counts, "QUERY_CHUNK_BYTES", 1)
    _, codes, _ = coded
    codes = codes[:60]
    rng = np.random.default_rng(0)
    truth = true_neighbors(rng.normal(size=(60, 4)), n_neighbors=5)
    recall = neighbor_recall_score(
        codes, codes, truth, n_retrieved=20, exclude_self=True, ties=ties, average=None
    )
    for i in range(60):
        rest = np.flatnonzero(np.arange(60) != i)
        positions = np.searchsorted(rest, truth[[i]])
        alone = neighbor_recall_score(
            codes[[i]], codes[rest], positions, n_retrieved=20, ties=ties
        )
        assert recall[i] == pytest.approx(alone)


CODES = [[0, 1], [1, 1], [0, 0]]


@each(
    "truth, options, message",
    [
        ([[0], [1], [3]], {}, "hold 3, which is not a position"),
        ([[0], [1], [-1]], {}, "hold -1"),
        ([[0, 0], [1, 2], [0, 1]], {}, "Row 0 .* twice"),
        ([[1], [1], [0]], {"exclude_self": True}, "Row 1 .* query itself"),
        ([[0.5], [1], [2]], {}, "must be integers"),
        ([0, 1, 2], {}, r"shape \(3,\)"),
        ([[0], [1]], {}, "2 rows for 3 query_codes"),
        ([[0], [1], [2]], {"n_retrieved": 4}, "n_retrieved=4 is more than the 3"),
        ([[0], [1], [2]], {"n_retrieved": [1, 0]}, r"got \[1, 0\]"),
        ([[0], [1], [2]], {"n_retrieved": 0}, "n_retrieved"),
        ([[0], [1], [2]], {"n_retrieved": [0.5]}, r"got \[0.5\]"),
    ],
)
def test_bad_truth_is_named(truth, options, message):
    options = {"n_retrieved": 1, **options}
    with pytest.raises(ValueError, match=message):
        neighbor_recall_score(CODES, CODES, truth, **options)


@each("dtype", [np.int64, np.int32, np.uint32, np.uint64])
def test_recall_of_a_search_counts_common_positions(dtype):
    rng = np.random.default_rng(0)
    for n_found in (1, 5, 40):
        found = np.stack([rng.permutation(40)[:n_found] for _ in range(300)])
        truth = np.stack([rng.permutation(40)[:7] for _ in range(300)])
        common = [len({*a} & {*b}) for a, b in zip(found, truth, strict=True)]
        recall = search_recall_score(found.astype(dtype), truth)
        assert recall == pytest.approx(np.sum(common) / truth.size, rel=1e-14)
    # -1 is found nowhere, also after the largest position of the query before.
    assert search_recall_score([[0], [-1]], [[39], [39]]) == 0
    assert search_recall_score([[-1, 3], [-1, -1]], [[3], [3]]) == 0.5
    assert search_recall_score([[0, 0], [-2, -9]], [[39], [39]]) == 0
    none = np.array([[39], [2**64 - 1]], dtype=np.uint64)  # of usearch
    assert search_recall_score(none, np.array([[39], [39]], dtype=np.uint64)) == 0.5


@each(
    "found, truth, message",
    [
        ([[0.5]], [[1]], "indices must be integers .* float64"),
        ([["a"]], [[1]], "indices must be integers"),
        ([1], [[1]], r"indices must be .* shape \(1,\)"),
        ([[1]], [[]], "true_neighbors_indices must be"),
        ([[1]], [[1], [2]], "inconsistent numbers of samples"),
        ([[1]], [[-1]], "hold -1, which is no position"),
    ],
)
def test_bad_positions_are_named(found, truth, message):
    with pytest.raises(ValueError, match=message):
        search_recall_score(found, truth)
