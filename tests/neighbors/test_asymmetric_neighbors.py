"""`AsymmetricNeighbors` against two plain sorts a query in float64.

Vectors and codebooks hold small whole numbers, so that squared distances and products
are exact in float32, and those that a byte holds in it, and ties are many.
"""

import pickle
import warnings

import numpy as np
import pytest
from decoded import scores_of_decoded
from scipy import sparse
from searches import bytes_held
from sklearn.neighbors import NearestNeighbors

from skhash.codes import pack_bits
from skhash.metrics import true_neighbors
from skhash.neighbors import AsymmetricNeighbors, _asymmetric
from skhash.neighbors.search import table_scan
from skhash.neighbors.search import vectors as vector_search
from skhash.neighbors.store.decoder import METRICS

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
        self.codebook = rng.integers(-1, 2, (N_BITS, N_FEATURES)).astype(float)
        self.offset = rng.integers(-2, 3, N_FEATURES).astype(float)
        self.decoder = self.codebook, self.offset

    def index(self, by="vectors", n_candidates=100, **params):
        index = AsymmetricNeighbors(n_candidates=n_candidates, **params)
        return index.fit(self.bits, **{by: getattr(self, by)})

    def stands_for(self, by):
        """Return what each code is compared by."""
        return self.vectors if by == "vectors" else self.decoded()

    def decoded(self):
        assert np.square(self.bits @ self.codebook).sum(axis=1).max() < 128
        return self.offset + self.bits @ self.codebook

    def scores(self, by, metric):
        """Return all scores."""
        if by == "decoder":
            return scores_of_decoded(self.queries, self.decoded(), self.offset, metric)
        return np.stack([score(query, self.vectors, metric) for query in self.queries])

    def expected(self, by, metric, k, n_candidates, kept=None):
        """Return scores and positions among the `kept` codes, by two stable sorts."""
        kept = np.arange(N) if kept is None else kept
        all_scores, all_positions = [], []
        for code, own in zip(self.codes, self.scores(by, metric), strict=True):
            distances = (self.bits[kept] != code).sum(axis=1)
            order = np.argsort(distances, kind="stable")[:n_candidates]
            candidates = np.sort(kept[order])
            scores = own[candidates]
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


KINDS = pytest.mark.parametrize("by", ["decoder", "vectors"])


@KINDS
@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
@pytest.mark.parametrize("n_candidates", [5, 40, N, N + 9, None])
def test_candidates_by_distance_in_the_order_of_scores(data, by, metric, n_candidates):
    index = data.index(by, metric=metric, n_candidates=n_candidates)
    found = index.kneighbors(data.queries, codes=data.codes)
    scores, positions = data.expected(by, metric, 5, n_candidates)
    np.testing.assert_array_equal(found[1], positions)
    np.testing.assert_allclose(found[0], scores, rtol=1e-6)
    only = index.kneighbors(data.queries, return_distance=False, codes=data.codes)
    np.testing.assert_array_equal(only, positions)


@KINDS
@pytest.mark.parametrize("n_candidates", [40, None])
def test_cosine(data, by, n_candidates):
    """Ties of cosines are broken by rounding: scores are compared, then positions."""
    index = data.index(by, metric="cosine", n_candidates=n_candidates)
    scores, positions = index.kneighbors(data.queries, 9, codes=data.codes)
    expected, _ = data.expected(by, "cosine", 9, n_candidates)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    own = np.take_along_axis(data.scores(by, "cosine"), positions, axis=1)
    np.testing.assert_allclose(scores, own, atol=1e-6)
    assert all(len(set(found)) == 9 for found in positions)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_candidates", [N, None])
def test_with_all_as_candidates_it_is_exact_float_search(data, metric, n_candidates):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(N, N_FEATURES))
    queries = rng.normal(size=(17, N_FEATURES))
    index = AsymmetricNeighbors(7, metric=metric, n_candidates=n_candidates)
    index.fit(data.bits, vectors=vectors)
    scores, positions = index.kneighbors(queries, codes=data.codes)
    expected = true_neighbors(queries, vectors, 7, metric=metric)
    np.testing.assert_array_equal(positions, expected)
    if metric != "inner_product":
        search = NearestNeighbors(n_neighbors=7, metric=metric, algorithm="brute")
        distances, _ = search.fit(vectors).kneighbors(queries)
        distances = distances**2 if metric == "euclidean" else distances
        np.testing.assert_allclose(scores, distances, atol=1e-12)


@KINDS
@pytest.mark.parametrize("n_candidates", [30, None])
def test_neighbors_of_the_fitted_codes_leave_themselves_out(data, by, n_candidates):
    index = data.index(by, n_candidates=n_candidates)
    scores, positions = index.kneighbors(data.vectors, own=True)
    for own in range(N):
        distances = (data.bits != data.bits[own]).sum(axis=1)
        order = np.argsort(distances, kind="stable")
        candidates = np.sort(order[order != own][:n_candidates])
        vectors = data.stands_for(by)[candidates]
        expected = score(data.vectors[own], vectors, "euclidean")
        best = np.argsort(expected, kind="stable")[:5]
        np.testing.assert_array_equal(positions[own], candidates[best])
        np.testing.assert_allclose(scores[own], expected[best], rtol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("noise", [1e-3, 1e-5])
def test_near_copies_are_told_apart(noise, metric):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=N_FEATURES) + noise * rng.normal(size=(N, N_FEATURES))
    vectors = vectors.astype(np.float32)
    index = AsymmetricNeighbors(metric=metric).fit(np.zeros((N, 1)), vectors=vectors)
    scores, positions = index.kneighbors(vectors[:20], N)
    expected = true_neighbors(vectors[:20], vectors, N, metric=metric)
    if metric == "cosine":  # whose keys are products, rounded
        units = vectors / np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
        expected = true_neighbors(units[:20], units, N)
        halves = [np.square(unit - units).sum(axis=1) / 2 for unit in units[:20]]
        np.testing.assert_allclose(scores, np.sort(halves), rtol=1e-6, atol=1e-25)
    np.testing.assert_array_equal(positions, expected)


@pytest.mark.parametrize("metric", METRICS)
def test_the_unit_of_vectors_does_not_matter_or_is_refused(data, metric):
    index = AsymmetricNeighbors(metric=metric)
    expected = index.fit(data.bits, vectors=data.vectors).kneighbors(data.queries)[1]
    for power in (-140, -80, 64, 120):  # whose squares float32 does not hold
        unit = np.float32(2.0**power)
        vectors = unit * data.vectors.astype(np.float32)
        found = index.fit(data.bits, vectors=vectors).kneighbors(unit * data.queries)[1]
        np.testing.assert_array_equal(found, expected)
    for unit in (1e-200, 1e160):
        index.fit(data.bits, vectors=unit * data.vectors)
        with pytest.raises(ValueError, match="overflow or vanish in float64"):
            index.kneighbors(unit * data.queries)


def test_a_zero_vector_has_cosine_zero_with_every_query():
    index = AsymmetricNeighbors(2, metric="cosine")
    index.fit([[0], [1]], vectors=[[0.0, 0.0], [2.0, 0.0]])
    scores, positions = index.kneighbors([[3.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(scores, [[0, 1], [1, 1]])
    np.testing.assert_array_equal(positions, [[1, 0], [0, 1]])


@pytest.mark.parametrize("n_candidates", [30, None])
def test_neighbors_of_the_fitted_codes_need_their_vectors(data, n_candidates):
    index = data.index("decoder", n_candidates)
    with pytest.raises(ValueError, match=r"X=None .*kneighbors\(X, own=True\)"):
        index.kneighbors()
    index = data.index("vectors", n_candidates)
    expected = index.kneighbors()
    np.testing.assert_array_equal(index.kneighbors(data.vectors, own=True), expected)


@KINDS
@pytest.mark.parametrize("n_candidates", [40, None])
def test_nothing_is_near_where_all_are_removed(data, by, n_candidates):
    index = data.index(by, n_candidates=n_candidates).remove(np.arange(N))
    for one in (index, index.compact()):
        for balls in one.radius_neighbors(data.queries, 99.0, codes=data.codes):
            assert [len(ball) for ball in balls] == [0] * len(data.queries)


@pytest.mark.parametrize("by", ["vectors", "decoder"])
def test_candidates_of_codes_that_a_filter_leaves_out(data, by):
    """They lack no code of their own, so that all but one of the others are few."""
    kept = np.array([3, 70, 71, 200])
    mask = np.isin(np.arange(N), kept)
    vectors = data.stands_for("vectors")
    index = AsymmetricNeighbors(2, n_candidates=3)
    index.fit(
        data.bits,
        vectors=vectors,
        **({"decoder": data.decoder} if by == "decoder" else {}),
    )
    first = (data.bits[:, None] != data.bits[kept]).sum(axis=2)
    if by == "decoder":
        decoded = data.decoded()[kept]
        first = np.array([score(query, decoded, "euclidean") for query in vectors])
    found = index.kneighbors(mask=mask)
    for query in range(N):
        order = np.argsort(first[query], kind="stable")
        candidates = np.sort([kept[i] for i in order if kept[i] != query][:3])
        scores = score(vectors[query], vectors[candidates], "euclidean")
        best = np.argsort(scores, kind="stable")[:2]
        np.testing.assert_array_equal(found[0][query], scores[best])
        np.testing.assert_array_equal(found[1][query], candidates[best])


@KINDS
@pytest.mark.parametrize("n_candidates", [40, None])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_filters_and_removal(data, by, n_candidates, share):
    kept = np.random.default_rng(2).random(N) < share
    expected = data.expected(
        by, "euclidean", 5, n_candidates, kept=np.flatnonzero(kept)
    )
    question = {"X": data.queries, "codes": data.codes}
    index = data.index(by, n_candidates=n_candidates)
    masked = index.kneighbors(**question, mask=kept)
    np.testing.assert_allclose(masked, expected, rtol=1e-6)
    removed = index.remove(np.flatnonzero(~kept))
    np.testing.assert_array_equal(removed.kneighbors(**question), masked)
    scores, positions = removed.compact().kneighbors(**question)
    np.testing.assert_array_equal(scores, masked[0])
    np.testing.assert_array_equal(np.flatnonzero(kept)[positions], masked[1])


@KINDS
@pytest.mark.parametrize("n_candidates", [40, None])
def test_codes_in_parts(data, by, n_candidates):
    expected = data.index(by, n_candidates=n_candidates)
    index = AsymmetricNeighbors(n_candidates=n_candidates, packed=True)
    decoder = data.decoder if by == "decoder" else None
    for rows in (slice(0, 100), slice(100, 101), slice(101, None)):
        codes = pack_bits(data.bits[rows])
        vectors = data.vectors[rows] if by == "vectors" else None
        index.partial_fit(codes, vectors=vectors, decoder=decoder)
        decoder = None
    np.testing.assert_array_equal(
        index.kneighbors(data.queries, codes=pack_bits(data.codes)),
        expected.kneighbors(data.queries, codes=data.codes),
    )


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "g", "uint8", "int64", ">f4"]
)
def test_a_memory_map_is_read_and_never_written(data, dtype, tmp_path):
    vectors = (data.vectors + 4).astype(dtype)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = AsymmetricNeighbors(n_candidates=100).fit(data.bits, vectors=mapped)
    assert np.shares_memory(index._store["vectors"], mapped)
    data_of = Data()
    data_of.vectors, data_of.queries = data.vectors + 4, data.queries + 4
    found = index.kneighbors(data_of.queries, codes=data.codes)
    expected = data_of.expected("vectors", "euclidean", 5, 100)
    np.testing.assert_array_equal(found, expected)
    assert found[0].dtype == "float64"
    index.partial_fit(data.bits[:3], vectors=mapped[:3])
    np.testing.assert_array_equal(mapped, vectors)
    found = index.kneighbors(
        vectors[:1], 3, codes=data.bits[:1], mask=np.arange(N + 3) >= N
    )
    expected = np.square(vectors[:3] - data_of.vectors[0]).sum(axis=1)
    np.testing.assert_array_equal(found[0][0], np.sort(expected))


@KINDS
def test_neither_threads_nor_chunks_change_the_answer(data, by, monkeypatch):
    index = data.index(by, n_jobs=1)
    expected = index.kneighbors(data.queries, codes=data.codes)
    by_chunks = vector_search.row_chunks
    monkeypatch.setattr(vector_search, "BLOCK_BYTES", 500)

    def small_chunks(n, size, budget=9999):
        return by_chunks(n, size, budget)

    for module in (vector_search, _asymmetric):
        monkeypatch.setattr(module, "row_chunks", small_chunks)
    index.set_params(n_jobs=3)
    found = index.kneighbors(data.queries, codes=data.codes)
    np.testing.assert_array_equal(found, expected)
    own = index.kneighbors(data.vectors, 3, own=True)
    monkeypatch.undo()
    expected = index.kneighbors(data.vectors, 3, own=True)
    np.testing.assert_array_equal(own, expected)


def test_the_metric_of_vectors_can_be_changed_after_fit(data):
    index = data.index("vectors").set_params(metric="inner_product")
    found = index.kneighbors(data.queries, codes=data.codes)
    expected = data.expected("vectors", "inner_product", 5, 100)
    np.testing.assert_array_equal(found, expected)


@KINDS
def test_the_graph_is_of_scores(data, by):
    index = data.index(by)
    scores, positions = index.kneighbors(data.queries, codes=data.codes)
    question = {"mode": "distance", "codes": data.codes}
    graph = index.kneighbors_graph(data.queries, **question)
    np.testing.assert_array_equal(graph.indices.reshape(positions.shape), positions)
    np.testing.assert_array_equal(graph.data.reshape(scores.shape), scores)


def test_what_is_missing_is_named(data):
    index = AsymmetricNeighbors()
    with pytest.raises(ValueError, match=r"neither was .* fit\(codes, decoder="):
        index.fit(data.bits)
    for method in (data.index("vectors").kneighbors, data.index("vectors").transform):
        with pytest.raises(ValueError, match=r"kneighbors\(X, codes=...\)"):
            method(data.queries)
    index = data.index("decoder").set_params(metric="cosine")
    with pytest.raises(ValueError, match="'cosine', .* for 'euclidean'; fit again"):
        index.kneighbors(data.queries, codes=data.codes)
    with pytest.raises(AttributeError, match="has no vectors_"):
        index.vectors_  # noqa: B018


@KINDS
def test_what_does_not_fit_is_refused(data, by):
    index = data.index(by)
    with pytest.raises(ValueError, match="7 features"):
        index.kneighbors(np.ones((17, 7)), codes=data.codes)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        index.kneighbors(data.queries[1:], codes=data.codes)
    with pytest.raises(ValueError, match="NaN"):
        index.kneighbors(data.queries * np.nan, codes=data.codes)
    with pytest.raises(
        ValueError, match="n_candidates=7 must be at least n_neighbors=8"
    ):
        index.set_params(n_candidates=7)
        index.kneighbors(data.queries, 8, codes=data.codes)
    with pytest.raises(ValueError, match="n_candidates"):
        AsymmetricNeighbors(n_candidates=0).fit(data.bits, vectors=data.vectors)
    with pytest.raises(ValueError, match="metric"):
        AsymmetricNeighbors(metric="l1").fit(data.bits, vectors=data.vectors)
    with pytest.raises(ValueError, match="0 sample"):
        index.set_params(n_candidates=None).kneighbors(data.queries[:0])


def test_a_failed_addition_leaves_the_index_as_it_was(data):
    index = data.index("vectors")
    question = {"X": data.queries, "codes": data.codes}
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
        index.fit(data.bits, decoder=decoder)
    np.testing.assert_array_equal(index.kneighbors(**question), expected)


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


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("metric", METRICS)
def test_mapped_vectors_are_looked_at_where_they_are_read(
    data, tmp_path, metric, value
):
    vectors = np.lib.format.open_memmap(
        tmp_path / "vectors.npy", "w+", shape=data.vectors.shape
    )
    vectors[:] = data.vectors
    vectors[-1] = value
    index = AsymmetricNeighbors(3, metric=metric)
    index.fit(data.bits, vectors=vectors)
    with pytest.raises(ValueError, match=f"at position {N - 1} has no score: it hold"):
        index.kneighbors(data.queries, codes=data.codes)
    found = index.remove([N - 1]).kneighbors(data.queries, codes=data.codes)
    expected = data.index(n_candidates=None, metric=metric).remove([N - 1])
    expected = expected.kneighbors(data.queries, 3, codes=data.codes)
    np.testing.assert_array_equal(found, expected)
    nearest = expected[0][:, -1].min()
    counts = map(len, index.radius_neighbors(data.queries, nearest)[0])
    assert list(counts) == (expected[0] <= nearest).sum(axis=1).tolist()


@pytest.mark.parametrize("by", ["vectors", "decoder"])
def test_numbers_of_candidates_of_few_bits(data, by):
    small = data.index(by, n_candidates=np.int8(127))
    plain = data.index(by, n_candidates=127)
    own = {"X": data.vectors, "own": True}
    for options in (own, {"X": data.queries, "codes": data.codes}):
        found, expected = small.kneighbors(**options), plain.kneighbors(**options)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("weight", [0.0, 0.25, 2.0])
def test_errors_are_added_to_scores(data, weight):
    errors = np.random.default_rng(0).integers(0, 9, N).astype(float)
    index = AsymmetricNeighbors(7, error_weight=weight)
    index.fit(data.bits, decoder=data.decoder, errors=errors)
    added = {"added": weight * errors}
    task = data.queries, data.decoded(), data.offset, "euclidean"
    scores = scores_of_decoded(*task, **added)
    order = np.argsort(scores, axis=1, kind="stable")[:, :7]
    found = index.kneighbors(data.queries)
    np.testing.assert_array_equal(found[1], order)
    np.testing.assert_array_equal(found[0], np.take_along_axis(scores, order, axis=1))


def test_later_codes_may_have_larger_numbers(data):
    """Those of codes before keep theirs, in more bytes."""
    errors = np.linspace(1, 100, N)
    errors[200:] *= 30
    index = AsymmetricNeighbors(N)
    index.fit(data.bits[:200], decoder=data.decoder, errors=errors[:200])
    index.kneighbors(data.queries, 1)  # whose blocks are not those of later
    index.partial_fit(data.bits[200:], errors=errors[200:])
    task = data.queries, data.decoded(), data.offset, "euclidean"
    scores = scores_of_decoded(*task, added=errors / 4)
    order = np.argsort(scores, axis=1, kind="stable")
    found = index.kneighbors(data.queries)
    np.testing.assert_array_equal(found[1], order)
    scores = np.take_along_axis(scores, order, axis=1)
    np.testing.assert_allclose(found[0], scores, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"errors": np.ones(N - 1)}, "inconsistent numbers of samples"),
        ({"errors": -np.ones(N)}, "not below 0, got shape .* a least of -1.0"),
        ({"errors": np.ones((N, 1))}, "squared distances, of shape"),
        ({"errors": np.full(N, np.nan)}, "NaN"),
        ({"errors": np.full(N, np.inf)}, "infinity"),
        ({"errors": np.ones(N), "metric": "inner_product"}, "distances or angles"),
        ({"errors": np.ones(N), "decoder": None}, "those of decoded codes"),
    ],
)
def test_errors_that_are_none(data, arguments, message):
    arguments = {"decoder": data.decoder, **arguments}
    index = AsymmetricNeighbors(metric=arguments.pop("metric", "euclidean"))
    if arguments["decoder"] is None:
        arguments["vectors"] = data.vectors
    with pytest.raises(ValueError, match=message):
        index.fit(data.bits, **arguments)


def test_errors_are_for_all_codes_or_none(data):
    index = AsymmetricNeighbors().fit(data.bits, decoder=data.decoder)
    with pytest.raises(ValueError, match="before have no errors; give errors to fit"):
        index.partial_fit(data.bits, errors=np.ones(N))
    index.fit(data.bits, decoder=data.decoder, errors=np.ones(N))
    with pytest.raises(ValueError, match="before have errors; give errors to fit"):
        index.partial_fit(data.bits)


@pytest.mark.parametrize("radius", [np.nan, np.inf, "1"])
def test_radii_that_are_none(data, radius):
    index = AsymmetricNeighbors().fit(data.bits, decoder=data.decoder)
    with pytest.raises(ValueError, match="radius must be a finite number"):
        index.radius_neighbors(data.queries, radius)


def test_bytes_are_counted(data):
    index = AsymmetricNeighbors(metric="cosine").fit(data.bits, decoder=data.decoder)
    words, levels, numbers = 8 * N, 3 * N, 8 * (data.codebook.size + N_FEATURES)
    assert index.nbytes_ == words + levels + numbers
    index.kneighbors(data.queries)
    if table_scan.is_fast():  # blocks of 512 codes, 3 bytes each and 3 of levels
        assert index.nbytes_ == words + levels + numbers + 512 * 6


def test_bytes_of_ids_and_of_room_to_grow_are_counted(data):
    for ids in (np.arange(N), np.arange(N).astype(str)):
        index = AsymmetricNeighbors().fit(data.bits, decoder=data.decoder, ids=ids)
        index.remove(ids[3:5]).partial_fit(data.bits[:1], ids=ids[3:4])
        assert index.nbytes_ == bytes_held(index)


def test_a_codebook_of_bytes_is_held_once(data, tmp_path):
    """Its entries stand otherwise in memory, also where it was copied or saved."""
    rng = np.random.default_rng(0)
    decoder = rng.normal(size=(3, 256, N_FEATURES)), data.offset
    codes = pack_bits(data.bits)
    index = AsymmetricNeighbors(packed=True).fit(codes, decoder=decoder)
    expected = index.kneighbors(data.queries)
    index.save(tmp_path)
    copied = pickle.loads(pickle.dumps(index))
    for one in (index, copied, AsymmetricNeighbors.load(tmp_path)):
        held = one._store.decoder
        assert held.codebook.transpose(0, 2, 1).flags.c_contiguous
        assert held.nbytes == 4 * decoder[0].size + 8 * N_FEATURES
        np.testing.assert_array_equal(held.codebook, decoder[0].astype(np.float32))
        np.testing.assert_array_equal(one.kneighbors(data.queries), expected)


@pytest.mark.parametrize("by", ["decoder", "vectors"])
@pytest.mark.parametrize("n_candidates", [40, None])
def test_balls(data, by, n_candidates):
    """All within a radius, of all codes or of the candidates, with filters."""
    limit = n_candidates or N
    all_scores = data.expected(by, "euclidean", limit, limit)[0]
    radius = float(np.median(all_scores))
    index = data.index(by, n_candidates=n_candidates, radius=radius)
    expected = data.expected(by, "euclidean", limit, limit)
    found = index.radius_neighbors(data.queries, codes=data.codes)
    graph = index.radius_neighbors_graph(
        data.queries, mode="distance", codes=data.codes
    )
    for i, (scores, places) in enumerate(zip(*expected, strict=True)):
        n_near = (scores <= radius).sum()
        np.testing.assert_array_equal(found[1][i], places[:n_near])
        np.testing.assert_allclose(found[0][i], scores[:n_near])
        dense = np.zeros(N)
        dense[places[:n_near]] = scores[:n_near]
        np.testing.assert_allclose(graph[[i]].toarray()[0], dense)
    mask = np.random.default_rng(0).random(N) < 0.3
    few = index.radius_neighbors(data.queries, codes=data.codes, mask=mask)[1]
    expected = data.expected(by, "euclidean", limit, limit, np.flatnonzero(mask))
    for own, scores, places in zip(few, *expected, strict=True):
        np.testing.assert_array_equal(own, places[scores <= radius])


def test_balls_of_fitted_vectors_leave_themselves_out(data, monkeypatch):
    chunks = [slice(0, 7), slice(7, N)]
    monkeypatch.setattr(_asymmetric, "row_chunks", lambda *_: chunks)
    index = AsymmetricNeighbors(radius=30).fit(data.bits, vectors=data.vectors)
    every = index.radius_neighbors(data.vectors, return_distance=False)
    others = index.radius_neighbors(return_distance=False)
    for i, (own, with_itself) in enumerate(zip(others, every, strict=True)):
        np.testing.assert_array_equal(own, with_itself[with_itself != i])
        assert i in with_itself


@pytest.mark.parametrize("by", ["decoder", "vectors"])
@pytest.mark.parametrize("n_candidates", [40, None])
def test_the_largest_radius_finds_all(data, by, n_candidates):
    """Beyond float32, and without a warning."""
    index = data.index(by, n_candidates=n_candidates)
    n_found = n_candidates or N
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = index.radius_neighbors(data.queries, 1e300, codes=data.codes)[1]
        assert [len(set(own)) for own in found] == len(found) * [n_found]
        none = index.radius_neighbors(data.queries, -1e300, codes=data.codes)[1]
        assert [len(own) for own in none] == len(none) * [0]


@pytest.mark.parametrize("block_bits", [1, 8])
def test_queries_beyond_float32_are_refused(data, block_bits):
    entries = (256,) if block_bits == 8 else ()
    shape = 24 // block_bits, *entries, N_FEATURES
    decoder = np.ones(shape), np.zeros(N_FEATURES)
    index = AsymmetricNeighbors(packed=True).fit(pack_bits(data.bits), decoder=decoder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for query in (1e39, -1e200):
            with pytest.raises(ValueError, match="Scores are beyond float32"):
                index.kneighbors(np.full((2, N_FEATURES), query))
