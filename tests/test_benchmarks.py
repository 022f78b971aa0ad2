"""Benchmarks run at tiny sizes, and write the tables that the documentation has."""

import importlib
import importlib.util
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss

from skhash import NeighborHash
from skhash.datasets import load_digits_retrieval

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "benchmarks"
# By the results that the documentation has: the script, and how to be quick.
QUICK = {
    "fits": "fits --data digits --methods PCAHash LinearDecoder",
    "metrics": "metrics --queries 20 --database 300 --repeats 1",
    "first_minute": "first_minute --rounds 1 --parts import",
    "one_query": "one_query --codes 1000 --bits 64",
    "jaccard": "jaccard --data synthetic --codes 2000 --queries 9",
    "knn": "knn --quick --kinds random --n 5000 --repeats 1",
    "bytes": "bytes --quick --bytes 4 --queries 50 --methods PQ signs",
    "growth": "growth --sets digits --bytes 4 --queries 50",
    "every_cell": "every_cell --data digits --bits 8 --methods PCA NeighborHash "
    "--seeds 0",
    "network_gradients": "network_gradients --networks 1 --batches 2 --batch-size 10",
}

# Those that keep what they measure.
GROWING = ("bytes", "every_cell", "growth")


@pytest.fixture
def load(monkeypatch):
    """Load a script, whose name may be that of a module of Python's."""
    pytest.importorskip("faiss")
    monkeypatch.syspath_prepend(FOLDER)
    pytest.importorskip("matplotlib")

    def load(name):
        path = FOLDER / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
        script = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        return script

    yield load
    for name in [name for name in sys.modules if name.startswith("benchmark_")]:
        del sys.modules[name]


def headers(text):
    """Return the first line of each table."""
    return set(re.findall(r"(\| .*\|)\n\|-", text))


@pytest.mark.parametrize("name", QUICK)
def test_tables_are_those_of_the_documentation(name, load, tmp_path, monkeypatch):
    output, cells = tmp_path / f"{name}.md", tmp_path / "cells.json"
    script, *words = QUICK[name].split()
    words += ["--results", str(output)] * (grows := script in GROWING)
    words += ["--picture", str(tmp_path / "it.png")] * (script == "every_cell")
    words += ["--output", str(cells if grows else output)]
    monkeypatch.setattr(sys, "argv", [str(FOLDER / f"{script}.py"), *words])
    module = load(script)
    if script == "every_cell":
        short = partial(NeighborHash, max_epochs=1)
        monkeypatch.setattr(module, "NeighborHash", short)
    if script == "first_minute":
        numpy_alone = {"numpy": module.PARTS["import"]["numpy"]}
        monkeypatch.setitem(module.PARTS, "import", numpy_alone)
    if script == "fits":
        module.METHODS["LinearDecoder"].set_params(n_alternations=0)
    module.main()
    text = output.read_text(encoding="utf-8")
    stored = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert headers(text)
    assert headers(text) <= headers(stored)
    command = text.splitlines()[1]
    assert f"python examples/benchmarks/{script}.py {words[0]}" in command
    assert command.endswith(f"--output {Path(words[-1]).name}")
    if grows:  # nothing is left to be measured, and the tables stay the same
        fail = partial(pytest.fail, "measured again")
        monkeypatch.setattr(module, "measure", lambda *_: fail())
        module.main()
        assert output.read_text(encoding="utf-8") == text


def test_the_headline_is_drawn_from_what_is_stored(load, tmp_path, monkeypatch):
    script = load("headline")
    monkeypatch.setattr(script, "PICTURE", tmp_path / "picture.svg")
    title = script.TITLES["minilm"]
    script.draw(title)
    for name in ("picture.svg", "picture-dark.svg"):
        is_dark = script.tools.ON_DARK in (tmp_path / name).read_text()
        assert is_dark == ("dark" in name)
    curves = script.curves(script.read_table(script.BYTES, title))
    assert [point["bytes"] for point in curves["PQ"]] == [4, 8, 16]
    assert len(curves["RaBitQ"]) == 3


def test_the_code_of_the_readme_is_measured(load, tmp_path, monkeypatch):
    script, digits = load("headline"), load_digits_retrieval()
    digits = replace(
        digits,
        database=digits.database[:1000],
        database_labels=digits.database_labels[:1000],
    )
    before = script.README.read_text("utf-8")
    for name in ("README", "RESULTS"):
        monkeypatch.setattr(script, name, tmp_path / f"{name}.md")
    script.README.write_text(before, "utf-8")
    monkeypatch.setitem(script.LOADERS, "minilm", lambda data_home: digits)
    script.measure("minilm", None)
    # Only the table of the README changes, to that of the results.
    after, results = (
        path.read_text("utf-8") for path in (script.README, script.RESULTS)
    )
    table = results.split("\n\n")[-1].strip()
    same = [line for line in before.splitlines() if line in after.splitlines()]
    changed = set(after.splitlines()) - set(same)
    assert changed <= set(table.splitlines()) <= set(after.splitlines())
    vectors, codes, *_ = (
        list(row.values()) for row in script.read_table(script.RESULTS, "Seed")
    )
    assert vectors[1] == "256" and int(codes[1]) < 20
    alone, ranked = (int(cell.rstrip("%")) for cell in codes[3:])
    assert vectors[3] == "100%" and ranked > 95 > alone > 60


def test_the_picture_of_search_is_drawn_from_what_is_stored(load, tmp_path):
    script = load("knn")
    rows = script.read_curves(ROOT / "docs/results/knn.md")
    drawn = {(kind, n) for kind, bits, n, asked, name, *_ in rows if name == "ours"}
    assert {("random", 10_000_000), ("real", 10_000_000)} <= drawn
    assert set(script.DRAWN) <= {row[4] for row in rows} and len(script.DRAWN) <= 6
    script.draw(rows, tmp_path / "knn.svg")
    assert (tmp_path / "knn-dark.svg").is_file()


def test_a_file_of_results(load, tmp_path, monkeypatch):
    """Numbers in their formats, spreads, long tables folded; no folders outside."""
    tools = load("tools")
    table = tools.Table("n :, | s :.2f | name", [[1234, [0.25, 0.125], "ä"]])
    rows = [[number] for number in range(tools.SHOWN + 1)]
    words = [str(FOLDER / "x.py"), str(tmp_path / "y"), "--output", "docs/results/x.md"]
    monkeypatch.setattr(sys, "argv", words)
    output = tmp_path / "x.md"
    tables = {"One": table, "Long": tools.Table("n", rows)}
    tools.save(output, tables, {"ratio": 2.345678, "n": 1}, seeds=[0, 1], data="X")
    text = output.read_text(encoding="utf-8")
    command = "python examples/benchmarks/x.py y --output docs/results/x.md"
    assert text.splitlines()[1].endswith(command)
    assert "\n*X. " in text and " Seeds 0, 1. Python" in text
    first = "| n | s | name |\n|---:|---:|---|\n| 1,234 | 0.25 ± 0.12 | ä |"
    assert f"**One**\n\n{first}\n" in text
    assert "<summary>Long</summary>" in text and text.count("<details>") == 1
    assert text.endswith("| ratio | n |\n|---:|---:|\n| 2.346 | 1 |\n")
    read = {"n": "1,234", "s": "0.25 ± 0.12", "name": "ä"}
    assert tools.read_table(output, "One") == [read]
    assert len(tools.read_table(output, "Long")) == len(rows)
    # Rows that are measured again are replaced; the others are kept, with commands.
    later = {"Long": tools.Table("n | name", [[2, "new"]])}
    content = {"head": {**tools.head(), "commands": ["again"]}}
    tools.keep_rows(later, content, output, n_names=1)
    kept = [[number, ""] for number in range(tools.SHOWN + 1) if number != 2]
    assert later["Long"].rows == [[2, "new"], *kept]
    first, before, _, last = content["head"]["commands"]
    assert (
        "not measured again" in first and before.endswith(command) and last == "again"
    )


def test_calls_take_turns(load):
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    times = load("tools").turns(calls, 3)
    assert "".join(order) == "abababab"
    assert all(len(own) == 3 and own == sorted(own) for own in times.values())


def test_shares_of_the_nearest_that_are_found(load):
    rng = np.random.default_rng(1)
    found = np.array([rng.permutation(300)[:100] for _ in range(7)])
    found[0, 50:] = -1
    truth = np.array([rng.permutation(300)[:10] for _ in range(7)])
    truth[1, 0] = found[1, 0]
    pairs = list(zip(found, truth, strict=True))
    expected = {
        f"10@{n}": sum(len({*row[:n]} & {*true}) for row, true in pairs) / 70
        for n in (10, 100)
    }
    expected["1@1"] = np.mean([row[0] == true[0] for row, true in pairs])
    is_new = rng.random(300) < 0.4
    new = [{*true} & {*np.flatnonzero(is_new)} for true in truth]
    shared = [len({*row[:10]} & own) for row, own in zip(found, new, strict=True)]
    expected["not fitted"] = sum(shared) / sum(map(len, new))
    found_here = load("bytes").recalls(found, truth, is_new)
    assert found_here == pytest.approx(expected)


def test_ahead_level_and_behind(load):
    report = load("every_cell")
    cells = {}
    for data, other in {"digits": 0.785, "tfidf": 0.8195, "glove": 0.8205}.items():
        seeds = {
            report.OURS: (0.80, 0.82, 0.81),
            "ITQ": (0.7,) * 3,
            "SGH": (other,) * 3,
        }
        for method, values in seeds.items():
            for seed, value in enumerate(values):
                every = dict.fromkeys(report.NAMES, value)
                cell = {"recalls": every, "fit_seconds": 2.0}
                cells[f"{data}/test/{method}/8/{seed}"] = cell
    tables = report.tables_of({"cells": cells, "left_out": {}})
    counts = [row[1:] for row in tables["Cells"].rows]
    assert counts == [[3, 0, 0], [0, 3, 0], [0, 0, 3], [3, 3, 3]]
    behind = tables["The cells where it is behind"].rows
    assert [row[:4] for row in behind] == [
        ["glove", it, 8, "SGH"] for it in report.NAMES
    ]
    expected = pytest.approx([0.8205, 0.81, -0.0105, 0.01])
    assert all(row[4:] == expected for row in behind)


def test_quality_of_probabilities(load):
    """Two bins of confidence: .9, of which half are right, and .6, all of them."""
    p = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4], [0.4, 0.6]])
    y = np.array([0, 0, 0, 1])
    found = load("sbn_twin").quality(p, y)
    expected = [75, log_loss(y, p), 100 * (0.5 * 0.4 + 0.5 * 0.4)]
    scores = [found[name] for name in ("accuracy", "log_loss", "ece")]
    assert scores == pytest.approx(expected)
