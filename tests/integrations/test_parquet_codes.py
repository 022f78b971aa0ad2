"""Ray and Spark encode and search files, though a worker is killed in the middle."""

import os
import subprocess
import sys

import numpy as np
import pytest

from skhash import HammingNeighbors, ITQHash

from .conftest import FOLDER

# The first batch kills its worker, once.
KILLING = """
import os, signal
import parquet_codes

def encode(table, encoder):
    try:
        os.mkdir("killed")
    except FileExistsError:
        return parquet_codes.encode(table, encoder)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    parquet_codes.main(encode)
"""


@pytest.mark.parametrize("engine, library", [("ray", "ray"), ("spark", "pyspark")])
def test_a_killed_worker_loses_nothing(engine, library, vectors, queries, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install pyarrow")
    import pyarrow

    pytest.importorskip(library, reason="pip install '.[integrations]'")
    encoder = ITQHash(20, random_state=0).fit(vectors)
    encoder.save(tmp_path / "encoder")
    ids = np.random.default_rng(0).permutation(1000)[: len(vectors)]
    (tmp_path / "vectors").mkdir()
    for part in range(4):
        rows = {"id": ids[part::4], "x": list(vectors[part::4])}
        path = tmp_path / "vectors" / f"{part}.parquet"
        parquet.write_table(pyarrow.table(rows), path)
    np.save(tmp_path / "queries.npy", queries)
    (tmp_path / "killing.py").write_text(KILLING)
    words = ["killing.py", engine, "vectors", "encoder", "codes"]
    places = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, *words, "--queries", "queries.npy"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed").exists()
    codes = parquet.read_table(tmp_path / "codes").sort_by("id")
    order = np.argsort(ids)
    expected = encoder.transform_packed(vectors[order])
    assert codes["id"].to_pylist() == ids[order].tolist()
    assert codes["code"].to_pylist() == [row.tobytes() for row in expected]
    index = HammingNeighbors(10, packed=True).fit(expected, ids=ids[order])
    asked = encoder.transform_packed(queries)
    truth = index.kneighbors(asked, return_distance=False, return_ids=True)
    found = [line.split() for line in done.stdout.splitlines()[-len(queries) :]]
    np.testing.assert_array_equal(np.array(found, dtype=int), truth)
