"""The page "Serve it elsewhere": its code, run in each engine, finds what we find."""

import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from stress.plain import decoded

from skhash.codes import pack_bits
from skhash.export import bit_strings, score_tables, to_arrow
from skhash.neighbors import AsymmetricNeighbors, HammingNeighbors

PAGE = Path(__file__).parents[2] / "docs/guide/serve_elsewhere.rst"
K, N_FEATURES, REMOVED = 10, 6, [3, 50]
METRICS = ("euclidean", "inner_product", "cosine")


def blocks(section, language="python"):
    """Return the blocks of code of a section of the page."""
    text = re.search(
        rf"^{section}\n-+\n(.*?)(?=\n[^\n]+\n---|\Z)",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    found = re.findall(
        rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)", text[1], re.MULTILINE
    )
    assert found
    return [textwrap.dedent(block) for block in found]


def run(section, names, metric="euclidean"):
    """Run the Python of a section, with `names` and in the current folder."""
    for block in blocks(section):
        if metric != "cosine":
            block = without_factor(block)
        exec(compile(block, PAGE, "exec"), names)
    return names


def without_factor(text):
    """Return what the page says to write if codes have no factor."""
    return text.replace("* factor ", "").replace('* pl.col("factor") ', "")


def make(n_bits, block_bits, metric, n=200):
    """Return an index of random codes, some of them equal, and a decoder."""
    rng = np.random.default_rng([n_bits, block_bits])
    n_blocks = -(-n_bits // block_bits)
    shape = (n_bits,) if block_bits == 1 else (n_blocks, 2**block_bits)
    decoder = SimpleNamespace(
        codebook_=rng.normal(size=(*shape, N_FEATURES)).astype(np.float32),
        offset_=rng.normal(size=N_FEATURES).astype(np.float32),
        n_bits_=n_bits,
        normalize=metric == "cosine",
    )
    bits = rng.integers(0, 2, (n, n_bits))
    bits[n // 2 :: 2] = bits[: n // 4]
    index = AsymmetricNeighbors(K, metric=metric).fit(bits, decoder=decoder)
    return index.remove(REMOVED), bits, decoder


def in_blocks(decoder):
    """Return a vector for each value of each block, that of 0 of a bit among them."""
    codebook = decoder.codebook_
    if codebook.ndim == 2:
        codebook = np.stack([0 * codebook, codebook], axis=1)
    return codebook


def true_scores(query, index):
    """Return the scores of all live codes, by their ids; Euclidean ones are squared."""
    (distances,), (ids,) = index.kneighbors(query[None], int(index.live_.sum()))
    scores = np.full(len(index.live_), np.inf)
    scores[ids] = distances**2 if index.metric == "euclidean" else distances
    return scores


def assert_same_answer(found, query, index):
    """The engine finds what the index does, up to rounding."""
    ids, values = map(np.array, zip(*found, strict=True))
    scores = true_scores(query, index)
    room = 1e-5 * np.abs(scores[index.live_]).max()
    assert len(set(ids)) == K
    assert list(zip(values, ids, strict=True)) == sorted(zip(values, ids, strict=True))
    assert_allclose(values, scores[ids], rtol=0, atol=room)
    assert_allclose(values, np.sort(scores)[:K], rtol=0, atol=room)


def by_hamming(packed_query, index, n):
    """Return Hamming distances and ids of the n nearest codes."""
    hamming = HammingNeighbors(n, packed=True).fit(index.packed_codes_).remove(REMOVED)
    return hamming.kneighbors(packed_query[None])


def assert_same_distances(found, packed_query, index):
    """The engine finds what `HammingNeighbors` does, in its order."""
    distances, ids = by_hamming(packed_query, index, K)
    assert [tuple(map(int, row)) for row in found] == list(
        zip(ids[0], distances[0], strict=True)
    )


@pytest.fixture(params=[(20, 1), (20, 4), (64, 8)], ids=str)
def made(request, tmp_path, monkeypatch):
    """A function of the metric: what the sections of the page take, and an oracle."""

    def names(metric):
        parquet = pytest.importorskip("pyarrow.parquet", reason="pip install pyarrow")
        index, bits, decoder = make(*request.param, metric)
        monkeypatch.chdir(tmp_path)
        parquet.write_table(to_arrow(index), "codes.parquet")
        np.savez("decoder.npz", codebook=in_blocks(decoder), offset=decoder.offset_)
        rng = np.random.default_rng(7)
        query = rng.normal(size=N_FEATURES)
        return {
            "index": index,
            "bits": bits,
            "decoder": decoder,
            "query": query,
            "packed_query": pack_bits(rng.integers(0, 2, (1, bits.shape[1])))[0],
            "tables": score_tables(index, query[None])[0],
        }

    return names


def assert_answers(names, found):
    assert_same_distances(found["by_distance"], names["packed_query"], names["index"])
    assert_same_answer(found["by_score"], names["query"], names["index"])


@pytest.mark.parametrize("metric", METRICS)
def test_tables(made, metric):
    """Without any engine: the sums of look-ups, in float32 and in NumPy."""
    names = made(metric)
    index, live = names["index"], np.flatnonzero(names["index"].live_)
    from pyarrow import parquet

    table = parquet.read_table("codes.parquet")
    n_bytes = len(names["packed_query"])
    entries = names["tables"][np.arange(n_bytes), index.packed_codes_[live]]
    term, factor = table["term"].to_numpy(), np.float32(1)
    if metric == "cosine":
        factor = table["factor"].to_numpy()
    values = entries.sum(axis=1) * factor + term
    assert values.dtype == np.float32
    exact = entries.sum(axis=1, dtype=np.float64) * factor.astype(np.float64) + term
    sizes = np.abs(entries).sum(axis=1, dtype=np.float64) * factor + np.abs(term)
    assert (np.abs(values - exact) <= (n_bytes + 2) * 2.0**-24 * sizes).all()
    scores = true_scores(names["query"], index)[live]
    assert_allclose(values, scores, rtol=0, atol=1e-5 * np.abs(scores).max())


@pytest.mark.parametrize("metric", METRICS)
def test_numpy(made, metric):
    names = made(metric)
    index = names["index"]
    found = run("NumPy", dict(names), metric)
    assert_same_answer(found["by_score"], names["query"], index)
    live = np.flatnonzero(index.live_)
    codebook, offset = names["decoder"].codebook_, names["decoder"].offset_
    expected = decoded(names["bits"][live], codebook.astype(np.float64), offset)
    assert_allclose(found["decoded"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_duckdb(made, metric):
    pytest.importorskip("duckdb", reason="pip install duckdb")
    names = made(metric)
    assert_answers(names, run("DuckDB", dict(names), metric))


@pytest.mark.parametrize("metric", METRICS)
def test_polars(made, metric):
    pytest.importorskip("polars", reason="pip install polars")
    names = made(metric)
    assert_answers(names, run("Polars", dict(names), metric))


@pytest.mark.parametrize("metric", METRICS)
def test_postgres(made, metric, psql):
    names = made(metric)
    index, n_bits = names["index"], names["bits"].shape[1]
    exec(blocks("PostgreSQL")[0], {**names, "search": index})
    create, approximate, exact = blocks("PostgreSQL", "postgresql")
    create = create.replace("bit(64)", f"bit({n_bits})")
    (copy,) = re.findall(r'"(.*)"', blocks("PostgreSQL", "console")[0])
    if metric != "cosine":
        create = without_factor(create).replace(", factor real", "")
        copy = copy.replace(", factor", "")
    (query,) = bit_strings(names["packed_query"][None], n_bits)
    tables = "{" + ",".join(names["tables"].ravel().astype(str)) + "}"

    def ask(n_candidates):
        return f"SELECT * FROM nearest(B'{query}', '{tables}', {n_candidates}, {K});"

    # Of so small a table PostgreSQL takes the index only if it must.
    must = "SET enable_seqscan = off; SET hnsw.ef_search = 10;"
    script = create, copy, ask("NULL"), ask(30), approximate, must, exact, ask("NULL")
    rows = [(int(one), float(score)) for one, score in psql("\n".join(script))]
    everything, among_candidates = rows[:K], rows[K : 2 * K]
    assert_same_answer(everything, names["query"], index)
    assert rows[2 * K :] == everything
    _, (candidates,) = by_hamming(names["packed_query"], index, 30)
    own = index.kneighbors(names["query"][None], return_distance=False, ids=candidates)
    assert [one for one, _ in among_candidates] == own[0].tolist()


def test_the_page_from_its_first_line(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pip install pyarrow")
    from sklearn.datasets import load_digits

    monkeypatch.chdir(tmp_path)
    X, _ = load_digits(return_X_y=True)
    names = run("Store codes and decoder", {"X": X[:500], "queries": X[500:]})
    search, tables = names["search"], run("Prepare a query", names)["tables"]
    found = run("NumPy", {"tables": tables}, "cosine")
    (distances,), (positions,) = search.kneighbors(X[500:501], K)
    assert_allclose(found["scores"][positions], distances**2, rtol=1e-5)
    expected = names["decoder"].inverse_transform(search.index_.packed_codes_)
    assert_allclose(found["decoded"], expected, atol=1e-4)  # entries are float32
