"""Exports: the real engines find what `HammingNeighbors` finds."""

import io
import re
import sqlite3

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skhash.codes import pack_bits
from skhash.export import (
    bit_strings,
    reverse_bits,
    to_arrow,
    to_faiss,
    to_pgvector,
    to_sqlite_vec,
    to_usearch,
)
from skhash.neighbors import HammingNeighbors, JaccardNeighbors

N_BITS, K = 20, 10


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def bits(rng):
    return rng.integers(0, 2, (200, N_BITS))


@pytest.fixture
def index(bits):
    """An index with ids that are no positions, from which two codes were removed."""
    ids = np.random.default_rng(1).permutation(1000)[: len(bits)]
    index = HammingNeighbors(K).fit(bits, ids=ids)
    return index.remove(ids[[3, 50]])


@pytest.fixture
def queries(rng):
    return rng.integers(0, 2, (15, N_BITS))


def assert_same_neighbors(index, queries, distances, ids):
    """The same distances, and codes at these distances: ties may come in any order."""
    expected, _ = index.kneighbors(queries)
    assert_array_equal(distances, expected)
    everything = index.ids_
    for query, row, found in zip(queries, distances, ids, strict=True):
        assert len(set(found)) == K
        places = [np.flatnonzero(everything == one)[0] for one in found]
        codes = np.unpackbits(index.packed_codes_[places], axis=1, count=N_BITS)
        assert index.live_[places].all()
        assert_array_equal((codes != query).sum(axis=1), row)


def test_faiss(index, queries):
    pytest.importorskip("faiss", reason="pip install faiss-cpu")
    distances, ids = to_faiss(index).search(pack_bits(queries), K)
    assert_same_neighbors(index, queries, distances, ids)


def test_usearch(index, queries):
    pytest.importorskip("usearch", reason="pip install usearch")
    exported = to_usearch(index, connectivity=8)
    assert exported.connectivity == 8
    found = exported.search(pack_bits(queries), K, exact=True)
    assert_same_neighbors(index, queries, found.distances, found.keys.astype(int))


@pytest.fixture
def connection():
    """A connection with sqlite-vec, by a build of SQLite that takes extensions."""
    sqlite_vec = pytest.importorskip("sqlite_vec", reason="pip install sqlite-vec")
    library = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        library = pytest.importorskip(
            "pysqlite3", reason="pip install pysqlite3-binary (SQLite with extensions)"
        )
    connection = library.connect(":memory:")
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    return connection


def test_sqlite_vec(index, queries, connection):
    to_sqlite_vec(index, connection, "items")
    ask = (
        "SELECT id, distance FROM items WHERE code MATCH vec_bit(?) AND k = ? "
        "ORDER BY distance"
    )
    found = [
        connection.execute(ask, (row.tobytes(), K)).fetchall()
        for row in reverse_bits(pack_bits(queries))
    ]
    ids, distances = np.moveaxis(np.array(found), 2, 0)
    assert_same_neighbors(index, queries, distances, ids)
    # The bits are those of its quantizer of real vectors.
    vector = np.random.default_rng(3).normal(size=24).astype(np.float32)
    (own,) = connection.execute("SELECT vec_quantize_binary(?)", (vector,)).fetchone()
    assert own == reverse_bits(pack_bits((vector > 0)[None])).tobytes()


def test_sqlite_vec_texts_and_errors(bits, connection):
    packed = pack_bits(bits[:3])
    with pytest.raises(ValueError, match="letters, digits"):
        to_sqlite_vec(packed, connection, "codes; DROP TABLE x")
    to_sqlite_vec(packed, connection, "other")
    with pytest.raises(Exception, match="already exists"):
        to_sqlite_vec(packed[:2], connection, "other")
    # The failed call left nothing behind.
    to_sqlite_vec(packed, connection, ids=["a", "b", "c"])
    rows = connection.execute("SELECT id, code FROM codes ORDER BY id").fetchall()
    assert [name for name, _ in rows] == ["a", "b", "c"]
    stored = np.frombuffer(b"".join(code for _, code in rows), np.uint8)
    assert_array_equal(reverse_bits(stored.reshape(packed.shape)), packed)


def test_a_failed_export_keeps_the_transaction_of_the_caller(index):
    connection = sqlite3.connect(":memory:")  # without sqlite-vec
    connection.execute("CREATE TABLE texts (text)")
    connection.execute("INSERT INTO texts VALUES ('kept')")
    with pytest.raises(sqlite3.OperationalError, match="vec0"):
        to_sqlite_vec(index, connection)
    connection.commit()
    assert connection.execute("SELECT text FROM texts").fetchall() == [("kept",)]


def test_codes_of_one_dimension_are_refused():
    with pytest.raises(ValueError, match=r"must have shape \(n_codes, n_bytes\)"):
        bit_strings(np.zeros(3, np.uint8))


def test_postgres(index, queries, psql):
    text = io.StringIO()
    to_pgvector(index, text)
    script = (
        "CREATE EXTENSION IF NOT EXISTS vector;\n"
        f"CREATE TABLE items (id bigint PRIMARY KEY, code bit({N_BITS}));\n"
        f"COPY items (id, code) FROM STDIN;\n{text.getvalue()}\\.\n"
    )
    for query in bit_strings(pack_bits(queries), N_BITS):
        script += (
            f"SELECT id, code <~> B'{query}' FROM items "
            f"ORDER BY code <~> B'{query}', id LIMIT {K};\n"
        )
    ids, distances = np.moveaxis(np.array(psql(script), dtype=int), 1, 0)
    shape = len(queries), K
    assert_same_neighbors(index, queries, distances.reshape(shape), ids.reshape(shape))


def test_pgvector_text(bits):
    # The format, where there is no server: tab, backslash and newline are escaped.
    text = io.StringIO()
    to_pgvector(pack_bits(bits[:2, :3]), text, ids=["a\tb", "c\\\n"], n_bits=3)
    first, second = ("".join(map(str, row)) for row in bits[:2, :3])
    assert text.getvalue() == f"a\\tb\t{first}\nc\\\\\\n\t{second}\n"


def test_texts_have_a_line_for_each_code(index, bits):
    def lines(*arguments, **options):
        to_pgvector(*arguments, file := io.StringIO(), **options)
        return file.getvalue().splitlines()

    of_index = lines(index)
    live = np.flatnonzero(index.live_)
    assert [line.split()[0] for line in of_index] == list(map(str, index.ids_[live]))
    packed = pack_bits(bits)[live]
    assert lines(packed, ids=index.ids_[live], n_bits=N_BITS) == of_index
    by_position = lines(packed, n_bits=N_BITS)
    assert [line.split()[0] for line in by_position] == list(map(str, range(198)))
    with pytest.raises(ValueError, match="uint8"):
        lines(bits)
    with pytest.raises(ValueError, match="bits"):
        lines(packed, n_bits=N_BITS - 1)


def test_bit_strings(bits):
    expected = ["".join(map(str, row)) for row in bits]
    assert_array_equal(bit_strings(pack_bits(bits), N_BITS), expected)
    padding = "0" * (-N_BITS % 8)
    assert_array_equal(
        bit_strings(pack_bits(bits)), [one + padding for one in expected]
    )
    with pytest.raises(ValueError, match="must be 0"):
        bit_strings(np.full((1, 1), 255, np.uint8), n_bits=3)


@pytest.mark.parametrize("kind", [int, str])
def test_arrow_and_parquet(bits, kind, tmp_path):
    pytest.importorskip("pyarrow", reason="pip install pyarrow")
    from pyarrow import parquet

    ids = [kind(3 * i) for i in range(len(bits))]
    for kind in (HammingNeighbors, JaccardNeighbors):
        index = kind().fit(bits, ids=ids).remove(ids[:2])
        parquet.write_table(to_arrow(index), tmp_path / "codes.parquet")
        table = parquet.read_table(tmp_path / "codes.parquet")
        codes = [row.tobytes() for row in pack_bits(bits[2:])]
        assert table["code"].to_pylist() == codes
        assert table["id"].to_pylist() == ids[2:]
        assert table.schema.metadata[b"n_bits"] == str(N_BITS).encode()


def test_reversed_bits(bits):
    packed = pack_bits(bits)
    assert_array_equal(
        np.unpackbits(reverse_bits(packed), axis=1, bitorder="little"),
        np.unpackbits(packed, axis=1),
    )
    assert_array_equal(reverse_bits(reverse_bits(packed)), packed)


EXPORTS = {
    "faiss": to_faiss,
    "usearch": to_usearch,
    "sqlite_vec": lambda *what, **ids: to_sqlite_vec(*what, None, **ids),
    "pyarrow": to_arrow,
    "io": lambda *what, **ids: to_pgvector(*what, io.StringIO(), **ids),
}
WRONG_IDS = [
    np.array([2**64 - 1, 2**63, 5], dtype=np.uint64),
    [1.0, 2.0, 3.0],
    [1, 2, np.nan],
    ["a", "b", None],
    ["a", "b", 3],
    [True, False, True],
    ["a", "a\0", "b"],
    np.array(["a", "a\0b", "b"]),
    ["a", "b", "a"],
    [4, 5, 4],
    [1, 2],
    [[1], [2], [3]],
    [2**70, 1, 2],
]


@pytest.mark.parametrize("engine", EXPORTS)
def test_ids_are_those_that_an_index_may_have(engine, bits):
    pytest.importorskip(engine)
    for ids in WRONG_IDS:
        with pytest.raises(ValueError, match="^(Ids must|Found input)") as own:
            HammingNeighbors().fit(bits[:3], ids=ids)
        with pytest.raises(ValueError, match=f"^{re.escape(str(own.value))}$"):
            EXPORTS[engine](pack_bits(bits[:3]), ids=ids)


@pytest.mark.parametrize("engine", ["faiss", "usearch"])
def test_ids_of_engines_that_have_integers_only(engine, bits):
    pytest.importorskip(engine)
    for ids in (["a", "b"], [3, -1]):
        with pytest.raises(ValueError, match=f"{engine} supports only integer ids"):
            EXPORTS[engine](pack_bits(bits[:2]), ids=ids)
