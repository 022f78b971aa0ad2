"""The benchmark of recall against bytes measures what it says, on digits."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

faiss = pytest.importorskip("faiss")
FOLDER = Path(__file__).parents[1] / "examples" / "benchmarks"
ROWS = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)


@pytest.fixture
def scripts(monkeypatch):
    """The script and the module of its methods, as it is run."""
    monkeypatch.syspath_prepend(FOLDER)
    names = "bytes", "bytes_methods", "bytes_report", "growing_results"
    yield [importlib.import_module(name) for name in names]
    for name in names:
        sys.modules.pop(name, None)


def nearest_decoded(index, queries, database, k):
    """Decode codes by faiss, and compare each with each in float64."""
    decoded = index.index.sa_decode(index.index.sa_encode(database))
    distances = np.empty((len(queries), len(database)))
    for query, row in zip(queries.astype(np.float64), distances, strict=True):
        row[:] = np.square(query - decoded).sum(axis=1)
    return np.sort(distances, axis=1)[:, :k], distances


def test_recall_is_the_share_that_sets_share(scripts):
    rng = np.random.default_rng(1)
    found = np.array([rng.permutation(300)[:100] for _ in range(7)])
    found[0, 50:] = -1
    truth = np.array([rng.permutation(300)[:10] for _ in range(7)])
    pairs = list(zip(found, truth, strict=True))
    expected = {
        f"10@{n}": sum(len({*row[:n]} & {*true}) for row, true in pairs) / 70
        for n in (10, 100)
    }
    assert scripts[0].recalls(found, truth) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["PQ", "OPQ", "RQ", "LSQ", "PCA, int8", "int4"])
def test_searches_compare_what_codes_decode_to(scripts, method):
    kind = scripts[1].METHODS[method]
    # Parts of 5 bytes are no whole columns of 16.
    index = kind.make(16, None if kind.whole else 5, seed=0)
    index.fit(ROWS), index.add(ROWS[:300])
    found = index.search(ROWS[300:320], 10)
    nearest, distances = nearest_decoded(index, ROWS[300:320], ROWS[:300], 10)
    # RQ and LSQ round norms to one of 256 levels.
    tolerance = np.ptp(distances) / 100 if method in ("RQ", "LSQ") else 1e-3
    own = np.take_along_axis(distances, found, axis=1)
    assert np.abs(np.sort(own, axis=1) - nearest).max() < tolerance


def stored_bytes(index, n_codes):
    """Count what faiss keeps of a vector."""
    while isinstance(index, faiss.IndexPreTransform):
        index = faiss.downcast_index(index.index)
    # Fast scans keep blocks of 32 codes.
    return index.codes.size() / n_codes


@pytest.mark.skipif(
    not hasattr(faiss, "IndexRaBitQFastScan"), reason="needs a faiss with RaBitQ"
)
def test_bytes_are_those_that_faiss_stores(scripts):
    for name, method in scripts[1].METHODS.items():
        if name.startswith("ours"):
            continue
        # RQ and LSQ keep a norm, which the rest of the code implies.
        n_norms = int(name in ("RQ", "LSQ"))
        n_bytes = None if method.whole else 3 if n_norms else 20
        index = method.make(16, n_bytes, seed=0)
        index.fit(ROWS), index.add(ROWS[:64])
        assert index.memory_bytes == stored_bytes(index.index, 64), name
        assert index.code_bytes == index.memory_bytes - n_norms, name


def test_what_is_measured_is_kept(scripts, tmp_path, capsys, monkeypatch):
    script, output = scripts[0], tmp_path / "bytes.json"
    arguments = ["--quick", "--bytes", "4", "--methods", "PQ", "ours, Hamming"]
    arguments += ["--queries", "50", "--output", str(output)]
    script.main(arguments)
    first = json.loads(output.read_text())
    monkeypatch.setattr(script, "measure", None)  # nothing is left to be measured
    script.main(arguments)
    assert json.loads(output.read_text())["cells"] == first["cells"]
    picture = tmp_path / "picture.png"
    script.main(["--show", str(output), "--picture", str(picture)])
    table = capsys.readouterr().out
    recall = first["cells"]["digits/test/PQ/4/0"]["recalls"]["10@10"]
    assert table.count(f"| {recall:.3f} |") >= 2
    assert picture.stat().st_size > 0
