"""Benchmarks that run in seconds save the tables that the documentation has."""

import importlib
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "benchmarks"
# What is run, the results that the documentation has of it, and how to be quick.
QUICK = {
    "sgh_labels": "digits --bits 4 --shares 0 1 --seeds 0",
    "network_gradients": "--networks 1 --batches 2 --batch-size 10",
    "network_gradients_polynomial": "--polynomial --networks 1 --batches 1 "
    "--batch-size 2",
    "propositions": "--only B.3 33a 10 IV.1",
}


def tables_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["tables"]


def stored(name):
    return tables_of(ROOT / "docs" / "results" / f"{name}.json")


def assert_same_columns(ours, theirs):
    """Assert that tables of a name have the same columns in the same formats."""
    assert ours.keys() <= theirs.keys()
    for name, table in ours.items():
        assert table["formats"] == theirs[name]["formats"], name
        assert table["rows"], name


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run a script with options, and return the tables that it saves and prints."""
    monkeypatch.syspath_prepend(FOLDER)

    def run(script, options, option="--output"):
        path = tmp_path / f"{script}.json"
        arguments = [f"{FOLDER / script}.py", *options, option, str(path)]
        monkeypatch.setattr(sys, "argv", arguments)
        runpy.run_path(arguments[0], run_name="__main__")
        return tables_of(path), capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", QUICK)
def test_columns_are_those_of_the_documentation(run, monkeypatch, name):
    script = name.removesuffix("_polynomial")
    tables, printed = run(script, QUICK[name].split())
    assert_same_columns(tables, stored(name))
    for table in tables.values():
        for row in table["rows"]:
            cells = [str(cell) for cell in row if isinstance(cell, str)]
            assert any(all(c in line for c in cells) for line in printed.splitlines())


def test_propositions_have_the_verdicts_of_the_documentation(run):
    tables, _ = run("propositions", QUICK["propositions"].split())
    for name, table in tables.items():
        known = [row[:3] for row in stored("propositions")[name]["rows"]]
        assert all(row[:3] in known for row in table["rows"])


def test_figures_of_the_sgh_paper(run, tmp_path):
    """Means over seeds, and times of the longest trainings, by hand."""
    head = {"date": "", "machine": "", "cores": 1, "versions": {}, "commands": ["a"]}
    cuts = {f"{k}@{n}": 0.5 for k in (1, 10) for n in (10, 100)} | {"100@100": 0.25}
    recalls = [
        {"method": "SGH", "search": "Hamming", "bits": bits, "seed": seed}
        | {**cuts, "10@100": value}
        for bits, seed, value in ((8, 0, 0.1), (8, 1, 0.3), (16, 0, 0.4), (64, 0, 0.7))
        + ((32, 0, 0.6),)
    ]
    times = [
        {"method": method, "bits": bits, "seed": 0, budget: n, "seconds": seconds}
        | {"10@100": 0.5}
        for method, budget, bits, n, seconds in (
            ("SGH", "max_epochs", 8, 1, 0.5),
            ("SGH", "max_epochs", 8, 10, 2.0),
            ("SGH", "max_epochs", 16, 10, 4.0),
            ("binary autoencoder", "max_iter", 8, 10, 6.0),
            ("binary autoencoder", "max_iter", 16, 10, 8.0),
        )
    ]
    contents = {"recall": recalls, "mips": recalls[2:], "time": times}
    for name, rows in contents.items():
        content = json.dumps({"head": head, "about": "", "rows": rows})
        (tmp_path / f"{name}.json").write_text(content)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    options = [str(tmp_path), str(pictures)]
    tables, _ = run("sgh_paper_pictures", options, "--results")
    assert_same_columns(tables, stored("sgh_paper"))
    (row,) = tables["recall_10_100"]["rows"]
    assert row[:2] == ["SGH", "Hamming"]
    assert row[2:] == pytest.approx([0.2, 0.4, 0.6, 0.7])
    saved = json.loads((tmp_path / "sgh_paper_pictures.json").read_text())
    assert saved["figures"] == {
        "least_seconds": 2.0,
        "most_seconds": 4.0,
        "least_autoencoder_ratio": 2.0,
        "most_autoencoder_ratio": 3.0,
    }
    assert {path.stem for path in pictures.iterdir()} == {
        *("sgh_paper_time", "sgh_paper_recall_1", "sgh_paper_recall_10"),
        *("sgh_paper_recall_100", "sgh_paper_mips"),
    }


def test_tables_of_supervised_codes(monkeypatch):
    """Means over seeds in the order of their precision, with the bound among them."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("supervised_hashing")
    run = dict.fromkeys(script.COLUMNS, 0.5) | {"protocol": "training", "n_bits": 32}
    results = [
        run | {"method": "none", "mAP": 0.6},
        run | {"method": "none", "mAP": 0.8},
        run | {"method": "ITQ", "mAP": 0.2, "seconds": None},
        run | {"method": "none", "n_bits": 64},
    ]
    bound = {"mAP": 0.4, "P@100": 0.3, "P@1000": 0.2}
    table = script.table_of(results, "training", 32, bound)
    candidates = script.candidates_table({"none": [(0.1, {"lr": 1}), (0.2, {"lr": 2})]})
    theirs = stored("supervised_hashing")
    assert table.formats == theirs["training_32"]["formats"]
    assert candidates.formats == theirs["validation"]["formats"]
    assert candidates.rows == [["none", "0.100 0.200", '`{"lr": 2}`']]
    assert [row[0] for row in table.rows] == ["none", "exact cosine", "ITQ"]
    assert table.rows[0][1] == pytest.approx([0.7, 0.1])
    assert table.rows[1][1:4] == [0.4, 0.3, 0.2]
    assert table.rows[2][-1] is None


def test_the_overview_draws_what_is_stored(monkeypatch, tmp_path):
    """Its pictures are six, and a line goes through the numbers of its page."""
    monkeypatch.syspath_prepend(FOLDER)
    script = importlib.import_module("overview")
    script.main([str(tmp_path)])
    names = {f"overview_{name}.svg" for name in script.PICTURES}
    assert {path.name for path in tmp_path.iterdir()} == names and len(names) == 6
    figure, ax = script.plt.subplots()
    script.draw_text(ax, script.Results())
    line = next(line for line in ax.get_lines() if line.get_label() == "ITQ")
    rows = [row for row in stored("semantic_hashing")["found"]["rows"] if "ITQ" in row]
    np.testing.assert_array_equal(line.get_ydata(), [row[2][0] for row in rows])
    script.plt.close(figure)
