"""Benchmarks that take seconds save the tables that the documentation shows."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "benchmarks"
SMALL = {
    "metrics": "--queries 20 --database 300 --repeats 1",
    "index_files": "--codes 3000",
    "encode_file": "--rows 3000 --bits 8",
    "encoding": "--shapes 6000x16x8 --rounds 1 --threads 1",
    "l2nns": "digits --bits 8 --methods PCA SGH --seeds 0 1",
}


@pytest.mark.parametrize("name", SMALL)
def test_saved_tables_are_those_of_the_pages(name, monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(FOLDER)
    output = tmp_path / f"{name}.json"
    words = [str(FOLDER / f"{name}.py"), *SMALL[name].split(), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", words)
    # Some have names of modules of the library or of others.
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", words[0])
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main()
    found = json.loads(output.read_text(encoding="utf-8"))
    path = ROOT / "docs" / "results" / f"{name}.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    for table_name, table in found["tables"].items():
        columns = list(table["formats"])
        assert columns == list(stored["tables"][table_name]["formats"])
        assert f"| {' | '.join(columns)} |" in printed
        assert table["rows"]
    assert found["figures"].keys() == stored["figures"].keys()
    command = f"python examples/benchmarks/{name}.py {SMALL[name]} --output {name}.json"
    assert command in found["commands"][0]
