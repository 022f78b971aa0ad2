"""Searches that compare the vectors themselves, whatever numbers these are."""

import warnings

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator

import skhash
from skhash.codes import hamming_distances, pack_bits
from skhash.linear import PCAHash
from skhash.metrics import true_neighbors
from skhash.neighbors import HashedNeighbors, _hashed
from skhash.neighbors.search import vectors as vector_search

N, N_BITS, N_FEATURES = 300, 21, 6
METRICS = "euclidean", "inner_product", "cosine"
RNG = np.random.default_rng(0)
DIRECTIONS = RNG.normal(size=(N_FEATURES, N_BITS))
VECTORS = RNG.integers(-4, 5, (N, N_FEATURES)).astype(float)
QUERIES = RNG.integers(-4, 5, (17, N_FEATURES)).astype(float)


class Signs(TransformerMixin, BaseEstimator):
    """Signs of some products, which look at nothing."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        X = np.nan_to_num(np.asarray(X, dtype=float), posinf=0)
        return (X[:, :N_FEATURES] @ DIRECTIONS > 0).astype(np.uint8)


def search_of(rerank=N, **params):
    return HashedNeighbors(Signs(), rerank=rerank, vectors=True, **params)


def distances_of(queries, vectors, metric="euclidean"):
    """Return those of all pairs in float64; of cosines, halves of squared ones."""
    queries, vectors = (np.asarray(part, dtype=float) for part in (queries, vectors))
    if metric == "inner_product":
        return -queries @ vectors.T
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    squares = np.square(queries[:, None] - vectors).sum(axis=2)
    return squares / 2 if metric == "cosine" else np.sqrt(squares)


def test_equal_distances_stand_by_position():
    """In float64 two squares have the same root, and the larger one comes first."""
    search = search_of().fit(np.pad([[1, 2**-26], [1, 0]], [(0, 0), (0, 4)]))
    found = search.kneighbors(np.zeros((1, N_FEATURES)), 2)
    assert_array_equal(found, [[[1, 1]], [[0, 1]]])


@each("rerank", [5, 40, N, N + 9])
@each("share", [0.02, 0.5, 1])
@each("own", [False, True])
def test_two_sorts(rerank, share, own):
    """The nearest codes, behind a mask, and the nearest vectors of these."""
    mask = np.random.default_rng(1).random(N) < share
    search = search_of(rerank).fit(VECTORS)
    queries = VECTORS if own else QUERIES
    codes = map(pack_bits, map(Signs().transform, (queries, VECTORS)))
    first = np.where(mask, hamming_distances(*codes).astype(float), np.inf)
    if own:
        np.fill_diagonal(first, np.inf)
    k = min(5, mask.sum() - own)
    asked = {"exclude_self": own, "mask": mask}
    distances, positions = search.kneighbors(queries, k, **asked)
    balls = search.radius_neighbors(queries, 9.0, **asked)
    for q, scores in enumerate(distances_of(queries, VECTORS)):
        candidates = np.argsort(first[q], kind="stable")[:rerank]
        candidates = np.sort(candidates[first[q, candidates] < np.inf])
        order = candidates[np.argsort(scores[candidates], kind="stable")]
        assert_array_equal(positions[q], order[:k])
        assert_array_equal(distances[q], scores[order[:k]])
        assert_array_equal(balls[1][q], order[scores[order] <= 9])
        assert_array_equal(balls[0][q], scores[balls[1][q]])
    if own:
        assert_array_equal(search.kneighbors(None, k, mask=mask)[1], positions)
        with pytest.raises(ValueError, match="holds the .* fitted rows, in order; got"):
            search.kneighbors(queries[1:], k, **asked)
        with pytest.raises(ValueError, match="1 codes were removed"):
            search.remove([3]).kneighbors(queries, k, **asked)


def test_a_radius_that_holds_all_candidates_is_told():
    search = search_of(40).fit(VECTORS)
    nearest = np.argsort(
        hamming_distances(*map(pack_bits, map(Signs().transform, (QUERIES, VECTORS)))),
        axis=1,
        kind="stable",
    )[:, :40]
    farthest = np.take_along_axis(distances_of(QUERIES, VECTORS), nearest, 1).max(1)
    radius = float(np.sort(farthest)[6]) + 1e-9  # of seven queries
    with pytest.warns(UserWarning, match="rerank=40 candidates of 7 queries"):
        search.radius_neighbors(QUERIES, radius)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.radius_neighbors(QUERIES, farthest.min() - 1e-9)
        search.kneighbors(QUERIES, 3, radius=radius)
        search.radius_neighbors(QUERIES, radius, mask=np.arange(N) < 40)
        search.set_params(rerank=N).radius_neighbors(QUERIES, radius)


@each("metric", METRICS)
@each("noise", [1e-3, 1e-5])
def test_near_copies_are_told_apart(noise, metric):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=N_FEATURES) + noise * rng.normal(size=(N, N_FEATURES))
    vectors = vectors.astype(np.float32)
    search = search_of(metric=metric).fit(vectors)
    distances, positions = search.kneighbors(vectors[:20], N)
    expected = distances_of(vectors[:20], vectors, metric)
    assert_array_equal(positions, np.argsort(expected, 1, kind="stable"))
    expected = np.sort(expected, axis=1)
    np.testing.assert_allclose(distances, expected, rtol=1e-6, atol=1e-14)


@each("metric", METRICS)
def test_the_unit_of_vectors_does_not_matter_or_is_refused(metric):
    search = search_of(metric=metric)
    expected = search.fit(VECTORS).kneighbors(QUERIES)[1]
    for power in (-140, -80, 64, 120):  # whose squares float32 does not hold
        unit = np.float32(2.0**power)
        vectors = unit * VECTORS.astype(np.float32)
        found = search.fit(vectors).kneighbors(unit * QUERIES)[1]
        assert_array_equal(found, expected)
    for unit in (1e-200, 1e160):
        search.fit(unit * VECTORS)
        with pytest.raises(ValueError, match="overflow or vanish in float64"):
            search.kneighbors(unit * QUERIES)


def test_a_zero_vector_has_cosine_zero_with_every_query():
    vectors = np.zeros((2, N_FEATURES))
    vectors[1, 0] = 2
    search = search_of(metric="cosine", n_neighbors=2).fit(vectors)
    found = search.kneighbors(1.5 * vectors[::-1])
    assert_array_equal(found, [[[0, 1], [1, 1]], [[1, 0], [0, 1]]])


@each("dtype", ["float16", "g", "uint8", "int64", ">f4"])
def test_a_memory_map_is_read_and_never_written(dtype, tmp_path):
    vectors = (VECTORS + 4).astype(dtype)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    search = search_of().fit(mapped)
    assert np.shares_memory(search.index_._store["vectors"], mapped)
    distances, positions = search.kneighbors(QUERIES)
    expected = distances_of(QUERIES, VECTORS + 4)
    order = np.argsort(expected, axis=1, kind="stable")[:, :5]
    assert_array_equal(positions, order)
    assert_array_equal(distances, np.take_along_axis(expected, order, 1))
    search.partial_fit(mapped[:3])
    assert_array_equal(mapped, vectors)
    found = search.kneighbors(QUERIES, 3, mask=np.arange(N + 3) >= N)
    assert_array_equal(found[0], np.sort(expected[:, :3], axis=1))


@each("value", [np.nan, np.inf])
@each("metric", METRICS)
def test_mapped_vectors_are_looked_at_where_they_are_read(tmp_path, metric, value):
    np.save(tmp_path / "vectors.npy", VECTORS)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r+")
    search = search_of(metric=metric).fit(mapped)
    mapped[-1] = value
    with pytest.raises(ValueError, match=f"at position {N - 1} has no score: it hold"):
        search.kneighbors(QUERIES)
    found = search.remove([N - 1]).kneighbors(QUERIES)
    whole = search_of(metric=metric).fit(VECTORS).remove([N - 1])
    assert_array_equal(found, whole.kneighbors(QUERIES))


def test_neither_threads_nor_chunks_change_the_answer(monkeypatch):
    search = search_of(100, n_jobs=1).fit(VECTORS)
    expected = [search.kneighbors(QUERIES), search.kneighbors()]
    balls = search.radius_neighbors(None, 7.0)[1]
    by_chunks = vector_search.row_chunks
    monkeypatch.setattr(vector_search, "BLOCK_BYTES", 500)

    def small_chunks(n, size, budget=9999):
        return by_chunks(n, size, budget)

    for module in (vector_search, _hashed):
        monkeypatch.setattr(module, "row_chunks", small_chunks)
    search.set_params(n_jobs=3)
    assert_array_equal(search.kneighbors(QUERIES), expected[0])
    assert_array_equal(search.kneighbors(), expected[1])
    for one, other in zip(search.radius_neighbors(None, 7.0)[1], balls, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("make", [list, np.asfortranarray, lambda X: X.astype(object)])
def test_booleans_are_kept_as_numbers(make, tmp_path):
    search = HashedNeighbors(PCAHash(3), rerank=N, vectors=True)
    expected = clone(search).fit(1.0 * (VECTORS > 0)).kneighbors(QUERIES)
    search.fit(make(VECTORS > 0)).save(tmp_path / "search")
    file, half = tmp_path / "vectors.npy", N // 2
    np.save(file, VECTORS[:half] > 0)
    in_file = clone(search).set_params(vectors=file)
    in_file.fit(np.load(file, mmap_mode="r")).partial_fit(make(VECTORS[half:] > 0))
    for one in (search, skhash.load(tmp_path / "search"), in_file):
        assert_array_equal(one.kneighbors(QUERIES), expected)


@each("value", [np.nan, np.inf])
def test_an_addition_that_is_refused_changes_nothing(value):
    search = search_of().fit(VECTORS)
    expected = search.kneighbors(QUERIES)
    wrong = VECTORS.copy()
    wrong[3, 1] = value
    for rows in (wrong, VECTORS[:, 1:], VECTORS.astype(str) + "x"):
        with pytest.raises(ValueError):
            search.partial_fit(rows)
    assert_array_equal(search.kneighbors(QUERIES), expected)
    with pytest.raises(ValueError, match="7 features"):
        search.kneighbors(np.ones((2, 7)))


@each("metric", METRICS)
def test_the_metric_can_be_changed_where_codes_stay(metric):
    """Hamming distances find the candidates of each."""
    search = search_of().fit(VECTORS)
    same = metric if metric != "cosine" else "inner_product"
    found = search.set_params(metric=same).kneighbors(QUERIES)[1]
    expected = true_neighbors(QUERIES, VECTORS, 5, metric=same)
    assert_array_equal(found, expected)
    for changed in search, HashedNeighbors(1).fit(VECTORS):
        changed.set_params(metric="cosine")
        for ask in changed.kneighbors, changed.partial_fit:
            with pytest.raises(ValueError, match="='euclidean'; set it back"):
                ask(QUERIES)
    search.set_params(metric=same)
    with pytest.raises(ValueError, match="holds the .* fitted rows, in order; got"):
        search.set_params(rerank=None).kneighbors(QUERIES, exclude_self=True)


class Intruding(Signs):
    """Calls a function before it encodes: another thread that changes the search."""

    def transform(self, X):
        if getattr(self, "intrude", None):
            intrude, self.intrude = self.intrude, None
            intrude()
        return super().transform(X)


def test_a_search_that_is_changed_meanwhile_answers_as_before():
    search = HashedNeighbors(Intruding(), rerank=N, vectors=True)
    names = np.arange(N) + 7
    search.fit(VECTORS, ids=names)
    expected = search.kneighbors(QUERIES, 40, return_ids=True)
    for change in (
        lambda: search.replace(VECTORS[::-1], ids=names),
        lambda: search.partial_fit(QUERIES, ids=np.arange(len(QUERIES)) - 99),
        lambda: search.remove(names[: N // 2]).compact(),
    ):
        search.fit(VECTORS, ids=names)
        search.encoder_.intrude = change
        found = search.kneighbors(QUERIES, 40, return_ids=True)
        assert search.encoder_.intrude is None
        assert_array_equal(found, expected)


def test_a_search_that_is_fitted_meanwhile_answers_as_before():
    search, seen = HashedNeighbors(Intruding()).fit(VECTORS), []
    expected, old = search.kneighbors(QUERIES), search.encoder_
    new = FrozenEstimator(Intruding().fit(VECTORS))
    new.estimator.intrude = lambda: seen.append(search.encoder_)
    old.intrude = lambda: search.set_params(encoder=new).fit(VECTORS[::-1])
    assert_array_equal(search.kneighbors(QUERIES), expected)
    assert seen == [old]


def test_own_vectors_are_read_by_chunks(tmp_path, monkeypatch):
    """Of a file too; never are many of them in memory."""
    np.save(tmp_path / "vectors.npy", VECTORS)
    search = HashedNeighbors(Signs(), rerank=60, vectors=tmp_path / "vectors.npy")
    expected = search.fit(VECTORS).kneighbors(VECTORS, 9, exclude_self=True)
    read = []

    def chunks(n, n_bytes):
        return [slice(i, min(i + 50, n)) for i in range(0, n, 50)]

    def as_few_rows(X, rows, as_rows=_hashed.as_rows):
        read.append(rows.stop - rows.start)
        return as_rows(X, rows)

    monkeypatch.setattr(_hashed, "row_chunks", chunks)
    monkeypatch.setattr(_hashed, "as_rows", as_few_rows)
    monkeypatch.setattr(_hashed.KeptFile, "__array__", _small_array)
    assert_array_equal(search.kneighbors(n_neighbors=9), expected)
    assert read == 6 * [50]


def _small_array(self, dtype=None, copy=None):
    assert len(self) <= 50
    return np.array(self.array[self.places], dtype=dtype, copy=copy)
