"""`AsymmetricNeighbors` against a plain sort a query in float64.

Codebooks hold small whole numbers, so that squared distances and products are exact in
float32, and ties are many.
"""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from searches import bytes_held

import skhash
from skhash.codes import pack_bits
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors, _asymmetric
from skhash.neighbors.search import table_scan
from skhash.neighbors.search.chunks import LINE
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
        self.codebook = rng.integers(-1, 2, (N_BITS, N_FEATURES)).astype(float)
        self.offset = rng.integers(-2, 3, N_FEATURES).astype(float)
        self.decoder = self.codebook, self.offset

    def index(self, **params):
        return AsymmetricNeighbors(**params).fit(self.bits, decoder=self.decoder)

    def decoded(self):
        assert np.square(self.bits @ self.codebook).sum(axis=1).max() < 128
        return self.offset + self.bits @ self.codebook


@pytest.fixture(scope="module")
def data():
    return Data()


@each("metric", METRICS)
def test_neighbors_of_the_fitted_codes_leave_themselves_out(data, metric):
    index = data.index(metric=metric)
    scores, positions = index.kneighbors(data.vectors, exclude_self=True)
    every, others = index.kneighbors(data.vectors, N)
    for own in range(N):
        others_of = others[own] != own
        np.testing.assert_array_equal(positions[own], others[own][others_of][:5])
        np.testing.assert_array_equal(scores[own], every[own][others_of][:5])
    with pytest.raises(ValueError, match=rf"the {N} fitted rows, .* got {N - 1} rows"):
        index.kneighbors(data.vectors[1:], exclude_self=True)
    for search in (index.kneighbors, index.radius_neighbors, index.kneighbors_graph):
        with pytest.raises(ValueError, match="an index of codes has none; pass them"):
            search()
    with pytest.raises(ValueError, match="1 codes were removed"):
        index.remove([3]).kneighbors(data.vectors, exclude_self=True)


def test_what_is_missing_or_does_not_fit_is_refused(data):
    index = data.index()
    with pytest.raises(ValueError, match="'cosine', .*='euclidean'; set it back"):
        data.index().set_params(metric="cosine").kneighbors(data.queries)
    with pytest.raises(ValueError, match="7 features"):
        index.kneighbors(np.ones((17, 7)))
    with pytest.raises(ValueError, match="NaN"):
        index.kneighbors(data.queries * np.nan)
    with pytest.raises(ValueError, match="0 sample"):
        index.kneighbors(data.queries[:0])
    with pytest.raises(ValueError, match="metric"):
        data.index(metric="l1")
    with pytest.raises(ValueError, match="decoder must have codebook_ and offset_"):
        index.fit(data.bits, decoder=None)


def test_a_failed_addition_leaves_the_index_as_it_was(data):
    index = data.index()
    expected = index.kneighbors(data.queries)
    for message, arguments in [
        ("by the first partial_fit", {"decoder": data.decoder}),
        ("index have no ids", {"ids": [3]}),
        ("index have no errors", {"errors": [3.0]}),
        ("index have no labels", {"y": [3]}),
    ]:
        with pytest.raises(ValueError, match=message):
            index.partial_fit(data.bits[:1], **arguments)
    decoder = data.codebook[1:], data.offset
    with pytest.raises(ValueError, match="21 bits, but the decoder is for 20 bits"):
        index.fit(data.bits, decoder=decoder)
    np.testing.assert_array_equal(index.kneighbors(data.queries), expected)
    codes = pack_bits(data.bits)
    index = AsymmetricNeighbors(packed=True).fit(codes, decoder=data.decoder)
    with pytest.raises(ValueError, match=r"The last 3 bit\(s\) of the last byte"):
        index.partial_fit(codes | 1)  # or else its file would be refused


@each("metric", ["euclidean", "cosine"])
def test_a_sum_of_entries_that_is_zero_has_the_number_0(metric):
    """Not what rounding leaves of it, which would take more bytes for all codes."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(4, N_FEATURES))
    decoder = SimpleNamespace(
        codebook_=np.concatenate([half, -half]),
        offset_=np.zeros(N_FEATURES),
        n_bits_=8,
        length_bits_=4,
        distance_bits_=4,
    )
    bits = np.array([[*low, *low] for low in np.ndindex(2, 2, 2, 2)])
    bits = np.concatenate([bits, np.eye(8, dtype=int)])
    index = AsymmetricNeighbors(metric=metric).fit(bits, decoder=decoder)
    levels = index._store["blocks"].levels
    assert levels.shape[1] == 1
    np.testing.assert_array_equal(levels[:, 0] == 0, np.arange(24) < 16)
    zero = {"euclidean": 0, "cosine": 1}[metric]
    found = index.kneighbors(np.zeros((1, N_FEATURES)), 16)
    np.testing.assert_array_equal(found[0], np.full((1, 16), zero))
    np.testing.assert_array_equal(found[1], [np.arange(16)])


@each(
    "errors, metric, message",
    [
        (np.ones(N - 1), "euclidean", "inconsistent numbers of samples"),
        (-np.ones(N), "euclidean", "at least 0, got shape .* a minimum of -1.0"),
        (np.ones((N, 1)), "euclidean", "squared distances, of shape"),
        (np.full(N, np.nan), "euclidean", "NaN"),
        (np.full(N, np.inf), "euclidean", "infinity"),
        (np.ones(N), "inner_product", "distances and angles"),
    ],
)
def test_errors_that_are_none(data, errors, metric, message):
    index = AsymmetricNeighbors(metric=metric)
    with pytest.raises(ValueError, match=message):
        index.fit(data.bits, decoder=data.decoder, errors=errors)


def test_errors_are_for_all_codes_or_none(data):
    index = AsymmetricNeighbors()
    index.fit(data.bits, decoder=data.decoder, errors=np.ones(N))
    with pytest.raises(ValueError, match="index have errors; give errors to fit"):
        index.partial_fit(data.bits)


@each("radius", [np.nan, np.inf, "1"])
def test_radii_that_are_none(data, radius):
    with pytest.raises(ValueError, match="radius must be a finite number"):
        data.index().radius_neighbors(data.queries, radius)


@each("search_fraction", [1.0, 0.1])
@each("metric", METRICS)
def test_bytes_are_those_of_all_arrays(data, metric, search_fraction, monkeypatch):
    """The same before and after the first search, but for positions and lists."""
    monkeypatch.setattr(table_scan, "MIN_BLOCKS", 1)
    rng = np.random.default_rng(0)
    decoder = rng.normal(size=(3, 256, N_FEATURES)), np.zeros(N_FEATURES)
    options = {"packed": True, "search_fraction": search_fraction}
    index = AsymmetricNeighbors(metric=metric, **options)
    codes = np.tile(pack_bits(data.bits), (9, 1))
    index.fit(codes, decoder=decoder, ids=np.arange(len(codes)))
    index.remove([3, 4]).partial_fit(codes[:1], ids=[3])
    n_bytes = 3 if metric == "inner_product" else 7  # with those of levels
    assert index._store["blocks"].nbytes == 6 * 512 * n_bytes
    before, room = index.nbytes_, 2 * LINE  # in which blocks are aligned
    assert 0 <= bytes_held(index) - before <= room
    index.kneighbors(data.queries)
    index.radius_neighbors(data.queries)
    assert 0 <= bytes_held(index) - index.nbytes_ <= room
    if search_fraction == 1:
        assert index.nbytes_ == before
    elif table_scan.is_fast():  # they are moved, and a search needs 4 bytes a position
        blocks = index._store["blocks"]
        assert blocks.nbytes == 6 * 512 * n_bytes + 4 * len(index.live_)
    np.testing.assert_array_equal(index.packed_codes_, np.vstack([codes, codes[:1]]))


@pytest.mark.parametrize("algorithm", ["multi_index", "pruned"])
def test_bytes_of_tables_and_clusters_are_counted(algorithm):
    codes = np.random.default_rng(0).integers(0, 256, (100_000, 8), dtype=np.uint8)
    index = HammingNeighbors(packed=True, algorithm=algorithm).fit(codes)
    before = index.nbytes_
    assert before == codes.nbytes
    index.prepare(10**7, radius=1)
    assert index.nbytes_ > before + 4 * len(codes)
    assert bytes_held(index) == pytest.approx(index.nbytes_, rel=0.05)


def test_bytes_of_ids_that_are_strings_are_counted(data):
    ids = np.arange(N).astype(str)
    index = AsymmetricNeighbors().fit(data.bits, decoder=data.decoder, ids=ids)
    index.remove(ids[3:5]).partial_fit(data.bits[:1], ids=ids[3:4])
    assert 0 <= bytes_held(index) - index.nbytes_ <= LINE


def test_a_codebook_of_bytes_is_held_once(data, tmp_path):
    """Its entries stand otherwise in memory, also where it was copied or saved."""
    rng = np.random.default_rng(0)
    decoder = rng.normal(size=(3, 256, N_FEATURES)), data.offset
    codes = pack_bits(data.bits)
    index = AsymmetricNeighbors(packed=True).fit(codes, decoder=decoder)
    expected = index.kneighbors(data.queries)
    index.save(tmp_path)
    copied = pickle.loads(pickle.dumps(index))
    for one in (index, copied, skhash.load(tmp_path)):
        held = one._store.decoder
        assert held.entries.transpose(0, 2, 1).flags.c_contiguous
        assert held.nbytes == 4 * decoder[0].size + 8 * N_FEATURES
        np.testing.assert_array_equal(held.codebook, decoder[0].astype(np.float32))
        np.testing.assert_array_equal(one.kneighbors(data.queries), expected)


def test_balls_of_fitted_vectors_leave_themselves_out(data, monkeypatch):
    chunks = [slice(0, 7), slice(7, N)]
    monkeypatch.setattr(_asymmetric, "row_chunks", lambda *_: chunks)
    index, vectors = data.index(radius=5), data.decoded()
    every = index.radius_neighbors(vectors, return_distance=False)
    others = index.radius_neighbors(vectors, return_distance=False, exclude_self=True)
    for i, (own, with_itself) in enumerate(zip(others, every, strict=True)):
        np.testing.assert_array_equal(own, with_itself[with_itself != i])
        assert i in with_itself


@each("metric", METRICS)
def test_the_largest_radius_finds_all(data, metric):
    """Beyond float32, and without a warning; one below all finds none."""
    index = data.index(metric=metric)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = index.radius_neighbors(data.queries, 1e300)[1]
        assert [len(set(own)) for own in found] == len(found) * [N]
        for radius in (-1e300, *([-1e-200] if metric != "inner_product" else [])):
            none = index.radius_neighbors(data.queries, radius)[1]
            assert [len(own) for own in none] == len(none) * [0]


@each("block_bits", [1, 8])
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
