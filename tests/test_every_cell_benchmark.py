"""The benchmark of every cell measures what it says, on digits."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from skhash import ITQHash, NeighborHash

FOLDER = Path(__file__).parents[1] / "examples" / "benchmarks"
SMALL = ["--data", "digits", "--bits", "12", "8", "--seeds", "0"]


@pytest.fixture
def scripts(monkeypatch):
    """The script and the module of its tables, as it is run; its fits are short."""
    monkeypatch.syspath_prepend(FOLDER)
    names = "every_cell", "every_cell_report", "growing_results", "l2nns"
    script, report, *_ = [importlib.import_module(name) for name in names]
    monkeypatch.setattr(script, "NeighborHash", short)
    yield script, report
    for name in names:
        sys.modules.pop(name, None)


def short(n_bits, **options):
    return NeighborHash(n_bits, max_epochs=1, **options)


@pytest.fixture
def task(scripts):
    return scripts[0].load("digits", None)


def distances_of(queries, rows):
    queries, rows = queries.astype(np.float64), rows.astype(np.float64)
    return np.sqrt(((queries[:, None] - rows) ** 2).sum(axis=2))


def expected_recall(encoder, task, k, cut):
    """Return each query's recall: true ones before the cut, and shares of its ties."""
    codes = encoder.transform(task.queries), encoder.transform(task.rows)
    result = []
    for query, own in zip(codes[0], distances_of(task.queries, task.rows), strict=True):
        apart = (query != codes[1]).sum(axis=1)
        edge = np.sort(apart)[cut - 1]
        share = (cut - (apart < edge).sum()) / (apart == edge).sum()
        chances = np.where(apart < edge, 1.0, np.where(apart == edge, share, 0.0))
        result.append(chances[np.argsort(own, kind="stable")[:k]].sum() / k)
    return np.array(result)


def test_recalls_of_all_queries_and_of_the_far_half(scripts, task):
    encoder = ITQHash(12, random_state=0).fit(task.rows)
    found = scripts[0].recalls(encoder, task)
    nearest = distances_of(task.queries, task.rows).min(axis=1)
    far = nearest > np.median(nearest)
    assert abs(far.mean() - 0.5) < 0.01
    for name, (k, cut) in (
        ("10@10", (10, 10)),
        ("10@100", (10, 100)),
        ("100@100", (100, 100)),
    ):
        expected = expected_recall(encoder, task, k, cut)
        # Digits tie in their distances, which a few queries feel.
        assert found["all"][name] == pytest.approx(expected.mean(), abs=2e-3)
        assert found["far"][name] == pytest.approx(expected[far].mean(), abs=2e-3)


def test_queries_of_validation_are_cut_from_the_rows(task):
    part = task.validation()
    both = np.concatenate([part.queries, part.rows])
    assert len(part.queries) == len(task.rows) // 5
    order = np.lexsort(both.T), np.lexsort(task.rows.T)
    np.testing.assert_array_equal(both[order[0]], task.rows[order[1]])
    np.testing.assert_array_equal(part.queries, task.validation().queries)


def test_nested_codes_are_cut_from_one_fit_a_seed(scripts, task, monkeypatch):
    fits = scripts[0].Fits(task.rows[:400], [12, 8])
    lengths, fit = [], NeighborHash.fit

    def counted(self, X, y=None):
        lengths.append((self.n_bits, len(X)))
        return fit(self, X, y)

    monkeypatch.setattr(NeighborHash, "fit", counted)
    codes = {
        (name, n_bits): fits.get(name, n_bits, 0)[0].transform(task.queries)
        for name in (scripts[1].OURS, scripts[1].variant(scripts[1].OWN))
        for n_bits in (8, 12)
    }
    assert [pair for pair in lengths if pair[1] == 400] == [
        *[(12, 400)],
        *[(8, 400), (12, 400)],
    ]
    longest = short(12, nested=[8], random_state=0).fit(task.rows[:400])
    for (name, n_bits), found in codes.items():
        expected = longest.truncate(n_bits)
        if name != scripts[1].OURS:
            expected = short(n_bits, nested=False, random_state=0).fit(task.rows[:400])
        np.testing.assert_array_equal(found, expected.transform(task.queries))


def test_a_change_is_made_to_its_fits_only(scripts, monkeypatch):
    script, report = scripts
    monkeypatch.setitem(script.CHANGES, "hotter", {"temperature": 2.0})
    fits = script.Fits(None, [8, 16])
    as_it_is = fits.make(report.OURS, 16, 3).get_params()
    changed = fits.make(report.variant("hotter"), 16, 3).get_params()
    assert changed == as_it_is | {"temperature": 2.0}
    assert as_it_is["nested"] == [8, 16] and as_it_is["random_state"] == 3


def test_what_is_measured_is_kept(scripts, tmp_path, capsys, monkeypatch):
    script, report = scripts
    output, picture = tmp_path / "cells.json", tmp_path / "cells.png"
    words = [*SMALL, "--methods", "NeighborHash", "PCA", "--output", str(output)]
    script.main([*words, "--own"])
    first = json.loads(output.read_text())["cells"]
    names = "PCA", report.OURS, report.variant(report.OWN)
    assert {*first} == {f"digits/test/{name}/{n}/0" for name in names for n in (8, 12)}
    script.main([*words, "--ablation", "5 neighbours"])
    cells = json.loads(output.read_text())["cells"]
    changed = report.OURS, report.variant("5 neighbours")
    assert {name for name in cells if name not in first} == {
        f"digits/validation/{name}/{n_bits}/0" for name in changed for n_bits in (8, 12)
    }
    # Nothing is left to be measured.
    monkeypatch.setattr(script, "measure", lambda *_: pytest.fail("measured again"))
    script.main([*words, "--own"])
    assert json.loads(output.read_text())["cells"] == cells
    with pytest.raises(SystemExit, match=r"lengths \[8, 12\], nested: give the same"):
        script.main([*words, "--bits", "8", "16"])
    capsys.readouterr()
    script.main(["--show", str(output), "--picture", str(picture)])
    tables = capsys.readouterr().out
    for name, cell in cells.items():
        part = "all" if "/test/" in name else "far"
        recall, (data, which, method, *rest) = cell["recalls"][part], name.split("/")
        ours = cells["/".join([data, which, report.OURS, *rest])]["recalls"][part]
        # Of changes there are the differences alone.
        is_change = method.startswith(report.variant(""))
        shown = recall["10@10"] - ours["10@10"] * is_change
        assert format(shown, "+.3f" if is_change else ".3f") in tables
    assert picture.stat().st_size > 0


def content_of(recalls, part="test"):
    """Return results of 8 bits: by method, 10@100 of each seed; the others are 0.5."""
    cells = {}
    for (data, method), values in recalls.items():
        for seed, value in enumerate(values):
            every = {"10@10": 0.5, "10@100": value, "100@100": 0.5}
            cell = {"recalls": {"all": every, "far": every}, "fit_seconds": 2.0}
            cells[f"{data}/{part}/{method}/8/{seed}"] = cell
    return {"cells": cells, "left_out": {}}


def test_ahead_level_and_behind(scripts):
    report = scripts[1]
    ours, itq = [0.80, 0.82, 0.81], [0.70, 0.70, 0.70]
    others = {"a": 0.795, "b": 0.81, "c": 0.8195, "d": 0.8205}
    recalls = {}
    for data, other in others.items():
        recalls[data, report.OURS] = ours
        recalls[data, "ITQ"] = itq
        recalls[data, "SGH"] = [other] * 3
        recalls[data, report.variant("hotter")] = [0.9]  # no other method
    found = report.Found(content_of(recalls), "test")
    cells = [it for it in report.duels(found, "all") if it.measure == "10@100"]
    assert {cell.other for cell in cells} == {"SGH"}
    assert [cell.difference for cell in cells] == pytest.approx(
        [0.015, 0.0, -0.0095, -0.0105]
    )
    assert [cell.spread for cell in cells] == pytest.approx([0.01] * 4)
    verdicts = [cell.verdict for cell in cells]
    assert verdicts == ["ahead", "level", "level", "behind"]


def test_tables_of_the_summary_of_nesting_and_of_times(scripts, capsys):
    report = scripts[1]
    recalls = {
        ("minilm", report.OURS): [0.7, 0.72],
        ("minilm", "ITQ"): [0.8, 0.8],
        ("minilm", report.variant(report.OWN)): [0.73, 0.73],
    }
    content = content_of(recalls)
    for name, cell in content["cells"].items():
        if "/NeighborHash/" in name:
            cell["fit_seconds"] = 5.0
    head = {"date": "today", "machine": "it", "cores": 2, "versions": {"numpy": "2"}}
    report.show({**content, "head": head})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "today, it, 2 cores. numpy 2."
    assert "| 10@100 | 8 | ITQ | 0.800 | 0.710 | -0.090 | 0.010 |" in lines
    assert "| minilm | 0 | 2 | 1 |" in lines
    assert "| minilm | 10@100 | 8 | ITQ | 0.800 | 0.710 | -0.090 | 0.010 |" in lines
    assert "| minilm | 10@100 | 8 | 0.710 ± 0.010 | +0.020 ± 0.000 |" in lines
    figures = report.tables_of(content)[1]
    expected = {"own_most": 0.02, "own_more": 1, "own_cells": 3}
    assert figures == pytest.approx(expected)
    assert "| minilm | 8 | 2.00 | 2.00 | 1.0 |" in lines
    assert "| minilm | all, nested | 2.00 | 5.00 | 2.5 |" in lines


def test_the_library_makes_what_is_compared(scripts):
    script = scripts[0]
    assert set(script.OTHERS) <= set(script.METHODS)
    assert set(script.DATA) <= set(script.LOADERS)
    assert set(script.DATA) == set(scripts[1].TITLES)
