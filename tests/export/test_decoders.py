"""Codes of indexes with decoders as Arrow tables; no file does harm."""

import io
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from decoded import rounded
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skhash.export
from skhash import AdditiveQuantizer, HashedNeighbors, ITQHash
from skhash.codes import pack_bits
from skhash.export import score_tables, to_arrow, to_faiss, to_pgvector
from skhash.export._source import read_source
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors

METRICS = ("euclidean", "inner_product", "cosine")
arrow = pytest.importorskip("pyarrow", reason="pip install pyarrow")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 5)) + 1


@pytest.fixture(scope="module")
def bits():
    return np.random.default_rng(1).integers(0, 2, (80, 12))


def made_by_hand(block_bits, dtype=np.float32, n_bits=12, normalize=False):
    """Return a decoder of random numbers."""
    rng = np.random.default_rng(block_bits)
    n_blocks = -(-n_bits // block_bits)
    shape = (n_bits,) if block_bits == 1 else (n_blocks, 2**block_bits)
    return SimpleNamespace(
        codebook_=rng.normal(size=(*shape, 5)).astype(dtype),
        offset_=rng.normal(size=5).astype(dtype),
        n_bits_=n_bits,
        normalize=normalize,
    )


@each("metric", METRICS)
def test_codes_come_with_what_scoring_takes(metric, X, bits):
    decoder = made_by_hand(8)
    index = AsymmetricNeighbors(5, metric=metric).fit(bits, decoder=decoder)
    index.remove([0, 7])
    table = to_arrow(index)
    assert table["id"].to_pylist() == [i for i in range(80) if i not in (0, 7)]
    assert table.schema.metadata[b"metric"] == metric.encode()
    codes, codebook = pack_bits(bits)[index.live_], decoder.codebook_.astype(float)
    offset = decoder.offset_.astype(float)
    decoded = offset + codebook[0, codes[:, 0]] + codebook[1, codes[:, 1]]
    lengths = np.linalg.norm(decoded, axis=1)
    squares = np.square(decoded - offset).sum(axis=1)
    expected = {
        "euclidean": {"term": rounded(squares)},
        "inner_product": {"term": np.zeros(78)},
        "cosine": {"term": np.ones(78), "factor": 1 / rounded(lengths)},
    }[metric]
    assert table.column_names == ["id", "code", *expected]
    for name, values in expected.items():
        np.testing.assert_allclose(table[name].to_numpy(), values, rtol=1e-6, atol=0)
    # The text for PostgreSQL has the same floats, to the last bit.
    to_pgvector(index, text := io.StringIO())
    rows = [line.split("\t") for line in text.getvalue().splitlines()]
    assert [row[1] for row in rows] == ["".join(map(str, b)) for b in bits[index.live_]]
    for place, name in enumerate(expected, 2):
        floats = np.array([row[place] for row in rows], dtype=np.float32)
        assert_array_equal(floats, table[name].to_numpy())


def scaled(encoder):
    return make_pipeline(StandardScaler(), encoder)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("wrap", [lambda one: one, scaled, FrozenEstimator])
@pytest.mark.parametrize(
    ("encoder", "n_bits"),
    [
        (AdditiveQuantizer(1), 8),
        (ITQHash(4, random_state=0), 4),
        (ITQHash(4, normalize=True, random_state=0), 4),
    ],
    ids=str,
)
def test_a_search_is_exported_with_the_space_of_its_encoder(
    encoder, n_bits, wrap, metric, X
):
    encoder, index = wrap(clone(encoder).fit(X)), AsymmetricNeighbors()
    search = HashedNeighbors(encoder, metric=metric, index=index).fit(X)
    packed, ids, exported_bits = read_source(search)
    assert_array_equal(packed, search.index_.packed_codes_)
    assert (exported_bits, len(ids)) == (n_bits, 80)
    table = to_arrow(search)
    scores = score_tables(search, X[:9])[:, 0, packed[:, 0]]
    if "factor" in table.column_names:
        scores = scores * table["factor"].to_numpy()
    scores = scores + table["term"].to_numpy()
    own, positions = search.kneighbors(X[:9])
    found = np.take_along_axis(scores, positions, axis=1)
    if metric != "inner_product":  # rounded lengths leave some below 0
        found = found.clip(0)
    own = own**2 if metric == "euclidean" else own
    np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-6)


def test_other_indexes_are_sources_of_codes(X, bits):
    packed = pack_bits(bits)
    hamming = HammingNeighbors().fit(bits)
    asymmetric = AsymmetricNeighbors(packed=True).fit(packed, decoder=made_by_hand(4))
    for index in (hamming, asymmetric):
        codes, ids, n_bits = read_source(index)
        assert_array_equal(codes, packed)
        assert_array_equal(ids, np.arange(80))
        assert n_bits == 12
    assert to_arrow(hamming).column_names == ["id", "code"]
    with pytest.raises(ValueError, match="has no decoder"):
        score_tables(hamming, X)
    with pytest.raises(ValueError, match="'cosine'.*'euclidean'"):
        score_tables(asymmetric, X, metric="cosine")
    with pytest.raises(ValueError, match="not fitted"):
        to_arrow(AsymmetricNeighbors())


def test_faiss_takes_the_codes_of_an_index_with_a_decoder(bits):
    pytest.importorskip("faiss", reason="pip install faiss-cpu")
    ids, decoder = range(100, 180), made_by_hand(1)
    index = AsymmetricNeighbors().fit(bits, decoder=decoder, ids=ids)
    found = to_faiss(index).search(pack_bits(bits[:1]), 1)
    assert found[0] == 0
    assert_array_equal(bits[found[1][0] - 100], bits[:1])


@pytest.mark.parametrize("engine", ["faiss", "usearch", "sqlite_vec"])
def test_engines_of_bits_refuse_the_codes_of_a_quantizer(engine):
    pytest.importorskip(engine, reason="pip install 'scikit-hash[export]'")
    X = np.random.default_rng(0).normal(size=(50, 4))
    export = getattr(skhash.export, f"to_{engine}")
    others = [sqlite3.connect(":memory:")] if engine == "sqlite_vec" else []
    for encoder in (2, make_pipeline(StandardScaler(), AdditiveQuantizer(2))):
        search = HashedNeighbors(encoder).fit(X)
        for source in (search, search.index_):
            with pytest.raises(ValueError, match=r"encoder of bits.*score_tables"):
                export(source, *others)
