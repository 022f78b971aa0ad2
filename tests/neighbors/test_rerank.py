"""`HammingNeighbors` with `rerank`, against two plain sorts a query in float64.

Vectors and codebooks hold small whole numbers, so that squared distances and products
are exact in float32, and ties are many.
"""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from skhash.codes import pack_bits
from skhash.metrics import true_neighbors
from skhash.neighbors import HammingNeighbors, _rerank
from skhash.neighbors.search.asymmetric import METRICS, asymmetric_scores

N, N_BITS, N_FEATURES = 300, 21, 6


class Data:
    """Codes that keep something of their vectors, and a codebook for them."""

    def __init__(self):
        rng = np.random.default_rng(0)
        directions = rng.normal(size=(N_FEATURES, N_BITS))
        self.vectors = rng.integers(-4, 5, (N, N_FEATURES)).astype(float)
        self.queries = rng.integers(-4, 5, (17, N_FEATURES)).astype(float)
        self.bits = (self.vectors @ directions > 0).astype(np.uint8)
        self.codes = (self.queries @ directions > 0).astype(np.uint8)
        self.codebook = rng.integers(-2, 3, (N_BITS, N_FEATURES)).astype(float)
        self.offset = rng.integers(-2, 3, N_FEATURES).astype(float)
        self.decoder = self.codebook, self.offset

    def index(self, rerank="vectors", **params):
        index = HammingNeighbors(rerank=rerank, **params)
        return index.fit(self.bits, vectors=self.vectors, decoder=self.decoder)

    def stands_for(self, rerank):
        """Return what each code is compared by."""
        return self.vectors if rerank == "vectors" else self.decoded()

    def decoded(self):
        return self.offset + self.bits @ self.codebook

    def expected(self, rerank, metric, k, n_candidates, kept=None):
        """Return scores and positions among the `kept` codes, by two stable sorts."""
        kept = np.arange(N) if kept is None else kept
        vectors = self.stands_for(rerank)
        all_scores, all_positions = [], []
        for code, query in zip(self.codes, self.queries, strict=True):
            distances = (self.bits[kept] != code).sum(axis=1)
            order = np.argsort(distances, kind="stable")[:n_candidates]
            candidates = np.sort(kept[order])
            scores = score(query, vectors[candidates], metric)
            best = np.argsort(scores, kind="stable")[:k]
            all_scores.append(scores[best])
            all_positions.append(candidates[best])
        return np.array(all_scores), np.array(all_positions)


def score(query, vectors, metric):
    """Score in float64; cosines are rounded, so that those that tie do so exactly."""
    if metric == "euclidean":
        return np.square(vectors - query).sum(axis=1)
    if metric == "inner_product":
        return -(vectors @ query)
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.round(1 - vectors @ query / np.where(norms > 0, norms, np.inf), 12)


@pytest.fixture(scope="module")
def data():
    return Data()


RERANKS = pytest.mark.parametrize("rerank", ["asymmetric", "vectors"])


@RERANKS
@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
@pytest.mark.parametrize("n_candidates", [5, 40, N, N + 9, None])
def test_candidates_by_distance_in_the_order_of_scores(
    data, rerank, metric, n_candidates
):
    index = data.index(rerank, metric=metric, n_candidates=n_candidates)
    found = index.kneighbors(data.codes, vectors=data.queries)
    scores, positions = data.expected(rerank, metric, 5, n_candidates)
    np.testing.assert_array_equal(found[1], positions)
    np.testing.assert_allclose(found[0], scores, rtol=1e-6)
    only = index.kneighbors(data.codes, return_distance=False, vectors=data.queries)
    np.testing.assert_array_equal(only, positions)


@RERANKS
@pytest.mark.parametrize("n_candidates", [40, None])
def test_cosine(data, rerank, n_candidates):
    """Ties of cosines are broken by rounding: scores are compared, then positions."""
    index = data.index(rerank, metric="cosine", n_candidates=n_candidates)
    scores, positions = index.kneighbors(data.codes, 9, vectors=data.queries)
    expected, _ = data.expected(rerank, "cosine", 9, n_candidates)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    vectors = data.stands_for(rerank)
    for query, found, own in zip(data.queries, positions, scores, strict=True):
        np.testing.assert_allclose(
            score(query, vectors[found], "cosine"), own, atol=1e-6
        )
        assert len(set(found)) == 9


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_candidates", [N, None])
def test_with_all_as_candidates_it_is_exact_float_search(data, metric, n_candidates):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(N, N_FEATURES))
    queries = rng.normal(size=(17, N_FEATURES))
    index = HammingNeighbors(
        7, rerank="vectors", metric=metric, n_candidates=n_candidates
    ).fit(data.bits, vectors=vectors)
    scores, positions = index.kneighbors(data.codes, vectors=queries)
    expected = true_neighbors(queries, vectors, 7, metric=metric)
    np.testing.assert_array_equal(positions, expected)
    if metric != "inner_product":
        search = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute")
        distances, _ = search.fit(vectors).kneighbors(queries)
        distances = distances**2 if metric == "euclidean" else distances
        np.testing.assert_allclose(scores, distances, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_full_asymmetric_search_is_a_sort_of_asymmetric_scores(data, metric):
    index = data.index("asymmetric", metric=metric, n_candidates=None)
    scores, positions = index.kneighbors(data.codes, 8, vectors=data.queries)
    all_scores = asymmetric_scores(data.queries, data.bits, data.decoder, metric=metric)
    order = np.argsort(all_scores, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(scores, np.take_along_axis(all_scores, order, axis=1))


@RERANKS
@pytest.mark.parametrize("n_candidates", [30, None])
def test_neighbors_of_the_fitted_codes_leave_themselves_out(data, rerank, n_candidates):
    index = data.index(rerank, n_candidates=n_candidates)
    scores, positions = index.kneighbors()
    for own in range(N):
        distances = (data.bits != data.bits[own]).sum(axis=1)
        order = np.argsort(distances, kind="stable")
        candidates = np.sort(order[order != own][:n_candidates])
        vectors = data.stands_for(rerank)[candidates]
        expected = score(data.vectors[own], vectors, "euclidean")
        best = np.argsort(expected, kind="stable")[:5]
        np.testing.assert_array_equal(positions[own], candidates[best])
        np.testing.assert_allclose(scores[own], expected[best], rtol=1e-6)


def test_a_zero_vector_has_cosine_zero_with_every_query():
    index = HammingNeighbors(2, rerank="vectors", metric="cosine")
    index.fit([[0], [1]], vectors=[[0.0, 0.0], [2.0, 0.0]])
    question = {"X": [[0], [1]], "vectors": [[3.0, 0.0], [0.0, 0.0]]}
    scores, positions = index.kneighbors(**question)
    np.testing.assert_array_equal(scores, [[0, 1], [1, 1]])
    np.testing.assert_array_equal(positions, [[1, 0], [0, 1]])


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_vectors_in_memory_does_not_matter(data, order):
    vectors = np.asarray(data.vectors, order=order)
    index = HammingNeighbors(rerank="vectors").fit(data.bits, vectors=vectors)
    queries = np.asarray(data.queries, order=order)
    found = index.kneighbors(data.codes, vectors=queries)
    expected = data.expected("vectors", "euclidean", 5, 100)
    np.testing.assert_array_equal(found, expected)


def test_neighbors_of_the_fitted_codes_need_their_vectors(data):
    index = HammingNeighbors(rerank="asymmetric").fit(data.bits, decoder=data.decoder)
    with pytest.raises(ValueError, match="real vectors of the queries"):
        index.kneighbors()
    expected = data.index("asymmetric").kneighbors()
    found = index.kneighbors(vectors=data.vectors)
    np.testing.assert_array_equal(found, expected)


@RERANKS
@pytest.mark.parametrize("n_candidates", [40, None])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_filters_and_removal(data, rerank, n_candidates, share):
    kept = np.random.default_rng(2).random(N) < share
    expected = data.expected(
        rerank, "euclidean", 5, n_candidates, kept=np.flatnonzero(kept)
    )
    question = {"X": data.codes, "vectors": data.queries}
    index = data.index(rerank, n_candidates=n_candidates)
    masked = index.kneighbors(**question, mask=kept)
    np.testing.assert_allclose(masked, expected, rtol=1e-6)
    removed = index.remove(np.flatnonzero(~kept))
    np.testing.assert_array_equal(removed.kneighbors(**question), masked)
    scores, positions = removed.compact().kneighbors(**question)
    np.testing.assert_array_equal(scores, masked[0])
    np.testing.assert_array_equal(np.flatnonzero(kept)[positions], masked[1])


@RERANKS
@pytest.mark.parametrize("n_candidates", [40, None])
def test_codes_in_parts(data, rerank, n_candidates):
    expected = data.index(rerank, n_candidates=n_candidates)
    index = HammingNeighbors(rerank=rerank, n_candidates=n_candidates, packed=True)
    decoder = data.decoder
    for rows in (slice(0, 100), slice(100, 101), slice(101, None)):
        codes = pack_bits(data.bits[rows])
        index.partial_fit(codes, vectors=data.vectors[rows], decoder=decoder)
        decoder = None
    np.testing.assert_array_equal(
        index.kneighbors(pack_bits(data.codes), vectors=data.queries),
        expected.kneighbors(data.codes, vectors=data.queries),
    )


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "g", "uint8", "int64", ">f4"]
)
def test_a_memory_map_is_read_and_never_written(data, dtype, tmp_path):
    vectors = (data.vectors + 4).astype(dtype)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = HammingNeighbors(rerank="vectors").fit(data.bits, vectors=mapped)
    assert np.shares_memory(index._store["vectors"], mapped)
    data_of = Data()
    data_of.vectors, data_of.queries = data.vectors + 4, data.queries + 4
    found = index.kneighbors(data.codes, vectors=data_of.queries)
    expected = data_of.expected("vectors", "euclidean", 5, 100)
    np.testing.assert_array_equal(found, expected)
    wide = dtype in ("float64", "g", "int64")
    assert found[0].dtype == ("float64" if wide else "float32")
    index.partial_fit(data.bits[:3], vectors=mapped[:3])
    np.testing.assert_array_equal(mapped, vectors)
    found = index.kneighbors(
        data.bits[:1], mask=np.arange(N + 3) >= N, n_neighbors=3, vectors=vectors[:1]
    )
    expected = np.square(vectors[:3] - data_of.vectors[0]).sum(axis=1)
    np.testing.assert_array_equal(found[0][0], np.sort(expected))


@RERANKS
def test_neither_threads_nor_chunks_change_the_answer(data, rerank, monkeypatch):
    index = data.index(rerank, n_jobs=1)
    expected = index.kneighbors(data.codes, vectors=data.queries)
    by_chunks = _rerank.row_chunks
    monkeypatch.setattr(_rerank, "BLOCK_BYTES", 500)
    monkeypatch.setattr(
        _rerank, "row_chunks", lambda n, size, budget=9999: by_chunks(n, size, budget)
    )
    index.set_params(n_jobs=3)
    found = index.kneighbors(data.codes, vectors=data.queries)
    np.testing.assert_array_equal(found, expected)
    own = index.kneighbors(n_neighbors=3)
    monkeypatch.undo()
    np.testing.assert_array_equal(own, index.kneighbors(n_neighbors=3))


@RERANKS
def test_pickled_it_answers_the_same(data, rerank, tmp_path):
    np.save(tmp_path / "vectors.npy", data.vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = HammingNeighbors(rerank=rerank)
    index.fit(data.bits, vectors=mapped, decoder=data.decoder)
    expected = index.kneighbors(data.codes, vectors=data.queries)
    pickled = pickle.dumps(index)
    del index, mapped
    (tmp_path / "vectors.npy").unlink()
    found = pickle.loads(pickled).kneighbors(data.codes, vectors=data.queries)
    np.testing.assert_array_equal(found, expected)


def test_rerank_and_candidates_can_be_changed_after_fit(data):
    index = data.index("vectors", n_candidates=20)
    question = {"X": data.codes, "vectors": data.queries}
    for rerank in ("asymmetric", "vectors"):
        for n_candidates in (7, None):
            index.set_params(rerank=rerank, n_candidates=n_candidates)
            np.testing.assert_array_equal(
                index.kneighbors(**question)[1],
                data.expected(rerank, "euclidean", 5, n_candidates)[1],
            )
    plain = index.set_params(rerank=None).kneighbors(**question)
    expected = HammingNeighbors().fit(data.bits).kneighbors(data.codes)
    np.testing.assert_array_equal(plain, expected)
    assert plain[0].dtype == np.int32


def test_a_clone_holds_no_data(data):
    index = clone(data.index("vectors"))
    assert index.get_params()["rerank"] == "vectors"
    with pytest.raises(ValueError, match="rerank='vectors' needs the real vectors"):
        index.fit(data.bits)


@RERANKS
def test_the_graph_is_of_scores(data, rerank):
    index = data.index(rerank)
    scores, positions = index.kneighbors(data.codes, vectors=data.queries)
    graph = index.kneighbors_graph(data.codes, mode="distance", vectors=data.queries)
    np.testing.assert_array_equal(graph.indices.reshape(positions.shape), positions)
    np.testing.assert_array_equal(graph.data.reshape(scores.shape), scores)


def test_sparse_queries_of_asymmetric_search(data):
    index = data.index("asymmetric")
    expected = index.kneighbors(data.codes, vectors=data.queries)
    found = index.kneighbors(data.codes, vectors=sparse.csc_array(data.queries))
    np.testing.assert_array_equal(found, expected)


def test_what_is_missing_is_named(data):
    with pytest.raises(ValueError, match=r"needs a decoder .* fit\(codes, decoder="):
        HammingNeighbors(rerank="asymmetric").fit(data.bits, vectors=data.vectors)
    index = HammingNeighbors().fit(data.bits).set_params(rerank="vectors")
    with pytest.raises(ValueError, match="fit.codes, vectors="):
        index.kneighbors(data.codes, vectors=data.queries)
    index = data.index("vectors")
    with pytest.raises(ValueError, match=r"kneighbors\(codes, vectors=...\)"):
        index.kneighbors(data.codes)
    with pytest.raises(ValueError, match="real vectors of the queries"):
        index.transform(data.codes)
    index = data.index("asymmetric").set_params(metric="cosine")
    with pytest.raises(ValueError, match="'cosine', .* for 'euclidean'; fit again"):
        index.kneighbors(data.codes, vectors=data.queries)


@RERANKS
def test_what_does_not_fit_is_refused(data, rerank):
    index = data.index(rerank)
    with pytest.raises(ValueError, match="7 features"):
        index.kneighbors(data.codes, vectors=np.ones((17, 7)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        index.kneighbors(data.codes, vectors=data.queries[1:])
    with pytest.raises(ValueError, match="NaN"):
        index.kneighbors(data.codes, vectors=data.queries * np.nan)
    with pytest.raises(ValueError, match="n_neighbors=8 .* n_candidates=7"):
        index.set_params(n_candidates=7)
        index.kneighbors(data.codes, 8, vectors=data.queries)
    with pytest.raises(ValueError, match="n_candidates"):
        HammingNeighbors(n_candidates=0).fit(data.bits)
    with pytest.raises(ValueError, match="rerank"):
        HammingNeighbors(rerank="floats").fit(data.bits)


def test_a_failed_addition_leaves_the_index_as_it_was(data):
    index = data.index("vectors")
    question = {"X": data.codes, "vectors": data.queries}
    expected = index.kneighbors(**question)
    one, vector = data.bits[:1], data.vectors[:1]
    for message, arguments in [
        ("inconsistent numbers", {"vectors": data.vectors[:2]}),
        ("must be dense", {"vectors": sparse.csr_array(vector)}),
        ("must be numbers", {"vectors": vector[0]}),
        ("must be numbers", {"vectors": vector.astype(str)}),
        ("these .n, ..5,..; both", {"vectors": vector[:, 1:]}),
        ("have vectors and these have none", {}),
        ("by the first partial_fit", {"vectors": vector, "decoder": data.decoder}),
    ]:
        with pytest.raises(ValueError, match=message):
            index.partial_fit(one, **arguments)
    decoder = data.codebook[1:], data.offset
    with pytest.raises(ValueError, match="21 bits, but the decoder is for 20 bits"):
        index.fit(data.bits, vectors=data.vectors, decoder=decoder)
    np.testing.assert_array_equal(index.kneighbors(**question), expected)


@RERANKS
@pytest.mark.parametrize("mmap", [False, True])
def test_saved_it_answers_the_same(data, rerank, mmap, tmp_path):
    index = data.index(rerank)
    expected = index.kneighbors(data.codes, vectors=data.queries)
    index.save(tmp_path)
    loaded = HammingNeighbors.load(tmp_path, mmap=mmap)
    found = loaded.kneighbors(data.codes, vectors=data.queries)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_vectors_that_are_no_numbers_are_refused(data, value, method):
    vectors = data.vectors.copy()
    vectors[3, 1] = value
    index = data.index()
    before = index.n_samples_fit_
    with pytest.raises(ValueError, match="Input vectors contains (NaN|infinity)"):
        getattr(index, method)(data.bits, vectors=vectors)
    assert index.n_samples_fit_ == before


def test_mapped_vectors_are_looked_at_where_they_are_read(data, tmp_path):
    vectors = np.lib.format.open_memmap(
        tmp_path / "vectors.npy", "w+", shape=data.vectors.shape
    )
    vectors[:] = data.vectors
    vectors[-1] = np.nan
    index = HammingNeighbors(3, rerank="vectors", n_candidates=None)
    index.fit(data.bits, vectors=vectors)
    with pytest.raises(ValueError, match=f"at position {N - 1} is NaN: it holds NaN"):
        index.kneighbors(data.codes, vectors=data.queries)
    found = index.remove([N - 1]).kneighbors(data.codes, vectors=data.queries)
    expected = data.index(n_candidates=None).remove([N - 1])
    expected = expected.kneighbors(data.codes, 3, vectors=data.queries)
    np.testing.assert_array_equal(found, expected)


def test_masked_vectors_are_refused(data):
    vectors = np.ma.array(data.vectors, mask=data.vectors == 0)
    with pytest.raises(ValueError, match="masked array would lose its mask"):
        HammingNeighbors(rerank="vectors").fit(data.bits, vectors=vectors)
    for rerank in ("vectors", "asymmetric"):
        with pytest.raises(ValueError, match="masked array would lose its mask"):
            data.index(rerank).kneighbors(data.bits, vectors=vectors)
    with pytest.raises(ValueError, match="masked array would lose its mask"):
        asymmetric_scores(vectors, data.bits, data.decoder)


@pytest.mark.parametrize("rerank", ["vectors", "asymmetric"])
def test_numbers_of_candidates_of_few_bits(data, rerank):
    small = data.index(rerank, n_candidates=np.int8(127))
    plain = data.index(rerank, n_candidates=127)
    for options in ({}, {"X": data.codes, "vectors": data.queries}):
        options = {"X": None, "vectors": data.vectors, **options}
        found, expected = small.kneighbors(**options), plain.kneighbors(**options)
        np.testing.assert_array_equal(found, expected)
