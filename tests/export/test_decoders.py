"""Decoders as Arrow tables: they come back bit for bit, and no file does harm."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import HashedNeighbors, ITQHash
from skhash.codes import pack_bits
from skhash.export import (
    decoder_from_arrow,
    decoder_to_arrow,
    from_arrow,
    read_source,
    score_tables,
    to_arrow,
    to_faiss,
    to_pgvector,
)
from skhash.linear import LinearDecoder
from skhash.neighbors import (
    AsymmetricNeighbors,
    HammingNeighbors,
    PrefixNeighbors,
    asymmetric_scores,
)

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


def through_parquet(table, folder):
    from pyarrow import parquet

    parquet.write_table(table, folder / "table.parquet")
    return parquet.read_table(folder / "table.parquet")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block_bits", [1, 4, 8])
def test_decoders_come_back_bit_for_bit(block_bits, dtype, X, bits, tmp_path):
    decoder = made_by_hand(block_bits, dtype, normalize=dtype == np.float32)
    metric = METRICS[block_bits % 3]
    table = through_parquet(decoder_to_arrow(decoder, metric=metric), tmp_path)
    # The order of the rows says nothing, in as many chunks as there may be.
    order = np.random.default_rng(2).permutation(len(table))
    table = arrow.concat_tables([table.take(order[:9]), table.take(order[9:])])
    again = decoder_from_arrow(table)
    assert again.codebook_.dtype == again.offset_.dtype == dtype
    assert_array_equal(again.offset_, decoder.offset_)
    # Blocks are scored by entries in float32, and exported as they are scored.
    kind = dtype if block_bits == 1 else np.float32
    assert_array_equal(again.codebook_, decoder.codebook_.astype(kind))
    assert (again.n_bits_, again.metric) == (12, metric)
    assert again.normalize is (dtype == np.float32)
    # An index of what came back gives the same answer, to the last bit.
    index = AsymmetricNeighbors(5, metric=metric).fit(bits, decoder=decoder)
    codes = through_parquet(to_arrow(index), tmp_path)
    packed, ids, _ = from_arrow(codes)
    other = AsymmetricNeighbors(5, metric=metric, packed=True)
    other.fit(packed, decoder=again, ids=ids)
    assert_array_equal(index.kneighbors(X), other.kneighbors(X))
    assert decoder_to_arrow(other).equals(decoder_to_arrow(index), check_metadata=True)


def test_a_decoder_stands_in_its_table_as_it_is_defined():
    codebook = np.arange(32, dtype=np.float32).reshape(1, 16, 2)
    table = decoder_to_arrow((codebook, [1.0, 2.0]), metric="cosine").to_pydict()
    assert table["block"] == [-1] + 16 * [0]
    assert table["value"] == [0, *range(16)]
    assert table["vector"] == [[1, 2], *codebook[0].tolist()]
    table = decoder_to_arrow(([[3.0], [4.0]], [5.0])).to_pydict()
    assert table["block"] == [-1, 0, 0, 1, 1]
    assert table["value"] == [0, 0, 1, 0, 1]
    assert table["vector"] == [[5], [0], [3], [0], [4]]


@pytest.mark.parametrize("metric", METRICS)
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
    expected = {
        "euclidean": {"term": np.square(decoded - offset).sum(axis=1)},
        "inner_product": {"term": np.zeros(78)},
        "cosine": {
            "term": 1 - decoded @ (offset / np.linalg.norm(offset)) / lengths,
            "factor": 1 / lengths,
        },
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


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("wrap", [lambda one: one, make_pipeline, FrozenEstimator])
def test_a_search_is_exported_with_the_space_of_its_encoder(wrap, normalize, X):
    encoder = wrap(ITQHash(4, normalize=normalize, random_state=0).fit(X))
    index = AsymmetricNeighbors(5)
    search = HashedNeighbors(encoder, index, decoder=LinearDecoder()).fit(X)
    packed, ids, n_bits = read_source(search)
    assert_array_equal(packed, search.index_.packed_codes_)
    assert (n_bits, len(ids)) == (4, 80)
    again = decoder_from_arrow(decoder_to_arrow(search))
    assert again.normalize is normalize
    bits = np.unpackbits(packed, axis=1, count=4)
    scores = asymmetric_scores(X[:9], bits, again)
    own, positions = search.kneighbors(X[:9])
    np.testing.assert_allclose(
        np.take_along_axis(scores, positions, axis=1), own, rtol=1e-5, atol=1e-6
    )


def test_tables_of_a_search_take_the_queries_of_the_search(X):
    encoder = make_pipeline(StandardScaler(), ITQHash(4, normalize=True))
    decoder = LinearDecoder(block_bits=4)
    search = HashedNeighbors(encoder, AsymmetricNeighbors(5), decoder=decoder).fit(X)
    table = to_arrow(search)
    packed, _, _ = from_arrow(table)
    sums = score_tables(search, X[:9])[:, 0, packed[:, 0]] + table["term"].to_numpy()
    own, positions = search.kneighbors(X[:9])
    np.testing.assert_allclose(
        np.take_along_axis(sums, positions, axis=1), own, rtol=1e-5, atol=1e-6
    )


def test_other_indexes_are_sources_of_codes(X, bits):
    packed = pack_bits(bits)
    prefix = PrefixNeighbors(1, prefix_bits=4).fit(bits)
    asymmetric = AsymmetricNeighbors(packed=True).fit(packed, decoder=made_by_hand(4))
    for index in (prefix, asymmetric, HammingNeighbors().fit(bits)):
        codes, ids, n_bits = read_source(index)
        assert_array_equal(codes, packed)
        assert_array_equal(ids, np.arange(80))
        assert n_bits == 12
    assert to_arrow(prefix).column_names == ["id", "code"]
    for index in (prefix, AsymmetricNeighbors().fit(bits, vectors=X)):
        with pytest.raises(ValueError, match="has no decoder"):
            decoder_to_arrow(index)
    with pytest.raises(ValueError, match="'cosine'.*'euclidean'"):
        score_tables(asymmetric, X, metric="cosine")
    with pytest.raises(ValueError, match="not fitted"):
        to_arrow(AsymmetricNeighbors())


def test_faiss_takes_the_codes_of_an_index_with_a_decoder(bits):
    pytest.importorskip("faiss", reason="pip install faiss-cpu")
    ids, decoder = range(100, 180), made_by_hand(8)
    index = AsymmetricNeighbors().fit(bits, decoder=decoder, ids=ids)
    found = to_faiss(index).search(pack_bits(bits[:1]), 1)
    assert found[0] == 0
    assert_array_equal(bits[found[1][0] - 100], bits[:1])


def changed(table, metadata=None, **columns):
    """Return a table with other columns or metadata."""
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, column)
    if metadata is not None:
        about = {k.decode(): v for k, v in table.schema.metadata.items()}
        table = table.replace_schema_metadata({**about, **metadata})
    return table


def lists(rows, kind=None):
    return arrow.array(rows, arrow.list_(kind or arrow.float32(), 5))


def floats(first, n=17):
    return lists([first] + (n - 1) * [[0.0] * 5])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.drop(["value"]), "one column 'value'"),
        (lambda t: t.append_column("block", t["block"]), "one column 'block'"),
        (lambda t: t.replace_schema_metadata(None), "'n_bits'"),
        (lambda t: changed(t, {"n_bits": "0"}), "'0'"),
        (lambda t: changed(t, {"n_bits": "-4"}), "'-4'"),
        (lambda t: changed(t, {"n_bits": "4194305"}), "'4194305'"),
        (lambda t: changed(t, {"n_bits": "9" * 5000}), "'9999"),
        (lambda t: changed(t, {"n_bits": b"\xff"}), "'n_bits'"),
        (lambda t: changed(t, {"n_bits": "4194304"}), "16777217 rows, got 17"),
        (lambda t: changed(t, {"block_bits": "5"}), "'5'"),
        (lambda t: changed(t, {"block_bits": "8"}), "257 rows, got 17"),
        (lambda t: changed(t, {"metric": "manhattan"}), "'manhattan'"),
        (lambda t: changed(t, {"normalized": "yes"}), "'yes'"),
        (lambda t: t.slice(1), "17 rows, got 16"),
        (lambda t: changed(t, block=arrow.array(17 * [0])), "one row for each value"),
        (lambda t: changed(t, value=arrow.array(17 * [2**40])), "one row for each"),
        (lambda t: changed(t, value=arrow.array([None, *range(16)])), "1 nulls"),
        (lambda t: changed(t, value=arrow.array(17 * ["a"])), "must hold integers"),
        (
            lambda t: changed(t, value=arrow.array(17 * [2**63], arrow.uint64())),
            "9223372036854775808",
        ),
        (lambda t: changed(t, vector=arrow.array(17 * [[1.0]])), "fixed size"),
        (lambda t: changed(t, vector=arrow.array(17 * ["a"])), "got string"),
        (lambda t: changed(t, vector=floats(None)), "1 nulls"),
        (lambda t: changed(t, vector=floats([None, 1, 1, 1, 1])), "1 nulls"),
        (lambda t: changed(t, vector=floats([np.nan, 1, 1, 1, 1])), "NaN"),
        (lambda t: changed(t, vector=floats([np.inf, 1, 1, 1, 1])), "infinity"),
    ],
)
def test_damaged_decoders_are_refused(change, message):
    table = decoder_to_arrow(made_by_hand(4, n_bits=4))
    assert decoder_from_arrow(table).codebook_.shape == (1, 16, 5)
    with pytest.raises(ValueError, match=message):
        decoder_from_arrow(change(table))


def test_a_bit_that_is_0_adds_nothing():
    table = decoder_to_arrow(made_by_hand(1, n_bits=8))
    with pytest.raises(ValueError, match="must add nothing"):
        decoder_from_arrow(changed(table, vector=lists(17 * [[1.0] * 5])))


def damaged_ids():
    """Return strings of which one ends behind the text."""
    offsets = arrow.py_buffer(np.array([0, 10**6, 2], dtype=np.int32))
    return arrow.Array.from_buffers(
        arrow.string(), 2, [None, offsets, arrow.py_buffer(b"ab")]
    )


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.drop(["code"]), "one column 'code'"),
        (lambda t: t.append_column("id", t["id"]), "one column 'id'"),
        (lambda t: changed(t, {"n_bits": "many"}), "'many'"),
        (lambda t: changed(t, {"n_bits": "17"}), "take 3 bytes, got 2"),
        (lambda t: changed(t, {"n_bits": "11"}), "must be 0"),
        (lambda t: changed(t, {"bitorder": b"\xff"}), "bitorder"),
        (lambda t: changed(t, code=arrow.array(2 * [b""], arrow.binary(0))), "n_bytes"),
        (lambda t: changed(t, code=arrow.array([b"", b"a"])), "got binary"),
        (
            lambda t: changed(t, code=arrow.array([b"ab", None], arrow.binary(2))),
            "1 nulls",
        ),
        (lambda t: changed(t, id=arrow.array([1, None])), "1 nulls"),
        (lambda t: changed(t, id=arrow.array([1.0, 2.0])), "got double"),
        (lambda t: changed(t, id=arrow.array([[1], [2]])), "got list"),
        (
            lambda t: changed(t, id=arrow.array([2**63, 1], arrow.uint64())),
            "9223372036854775808",
        ),
        (lambda t: changed(t, id=damaged_ids()), "offset"),
    ],
)
def test_damaged_codes_are_refused(change, message):
    bits = np.ones((2, 12), dtype=np.uint8)
    table = to_arrow(pack_bits(bits), n_bits=12)
    assert from_arrow(table)[2] == 12
    with pytest.raises(ValueError, match=message):
        from_arrow(change(table))


def test_one_long_id_does_not_fill_the_memory():
    n = 2**16
    ids = arrow.array((n - 1) * ["a"] + ["b" * 2**16])
    table = arrow.table({"id": ids, "code": arrow.array(n * [b"c"], arrow.binary(1))})
    with pytest.raises(ValueError, match="has 65536 characters"):
        from_arrow(table)
    # A few of them are as they should be.
    found = from_arrow(table.slice(n - 3))[1]
    assert_array_equal(found, ["a", "a", "b" * 2**16])


def test_no_codes_are_none():
    packed, ids, n_bits = from_arrow(to_arrow(np.zeros((0, 2), dtype=np.uint8)))
    assert (packed.shape, ids.dtype, n_bits) == ((0, 2), np.int64, 16)


@pytest.mark.parametrize("read", [from_arrow, decoder_from_arrow])
def test_files_are_not_tables(read):
    with pytest.raises(TypeError, match="pyarrow.Table, got 'codes.parquet'"):
        read("codes.parquet")
