"""The benchmark of real-valued twins, on data that scikit-learn has."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "benchmarks"
STORED = ROOT / "docs" / "results" / "sbn_twin.json"


@pytest.fixture
def script(monkeypatch):
    """The script, as it is run, with short trainings."""
    monkeypatch.syspath_prepend(FOLDER)
    names = "sbn_twin", "sbn_images", "sbn_images_report", "growing_results"
    script = importlib.import_module(names[0])
    monkeypatch.setattr(script, "SETS", {"wine": (2, range(2))})
    monkeypatch.setattr(script, "TWIN_RATES", (0.003,))
    monkeypatch.setattr(script, "PICTURED", ("wine",))
    yield script
    for name in names:
        sys.modules.pop(name, None)


def test_parts_are_apart(script):
    for seed in (0, 1):
        X, y, X_valid, y_valid = script.rows_of("digits", "validation", seed, None)
        every, _, X_test, _ = script.rows_of("digits", "test", seed, None)
        train, valid, test = (
            {row.tobytes() for row in A} for A in (X, X_valid, X_test)
        )
        assert not train & valid and not (train | valid) & test
        assert {row.tobytes() for row in every} == train | valid
        assert len(y_valid) == len(X_valid) and len(y) == len(X)


def test_quality(script):
    """Two bins of confidence: .9, of which half are right, and .6, all of them."""
    p = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4], [0.4, 0.6]])
    y = np.array([0, 0, 0, 1])
    found = script.quality(p, y)
    assert found["accuracy"] == 75
    assert found["log_loss"] == pytest.approx(log_loss(y, p))
    assert found["ece"] == pytest.approx(100 * (0.5 * 0.4 + 0.5 * 0.4))


def test_runs_and_goes_on(script, tmp_path, capsys):
    file, picture = tmp_path / "twin.json", tmp_path / "reliability.png"
    arguments = ["--output", str(file), "--sizes", "3", "--sets", "wine"]
    arguments += ["--variants", "default", "noise 1 to .25"]
    script.main(arguments)
    script.main(
        [*arguments, "--part", "test", "--independent", "--picture", str(picture)]
    )
    text = capsys.readouterr().out
    assert "validation rows" in text and "acc. independent" in text
    assert picture.stat().st_size > 1000
    results = tmp_path / "results.json"
    script.main(["--show", str(file), "--part", "test", "--results", str(results)])
    again = capsys.readouterr().out
    # Columns are those of the documentation, but for data sets and sizes of ensembles.
    ours, theirs = (
        json.loads(path.read_text())["tables"] for path in (results, STORED)
    )
    for name in theirs:
        shared = ours[name]["formats"].keys() & theirs[name]["formats"].keys()
        assert {"network", "wine"} <= shared or {"data", "network", "seeds"} <= shared
        for column in shared:
            assert ours[name]["formats"][column] == theirs[name]["formats"][column]
    (twin, line) = ours["test"]["rows"][:2]
    cells = json.loads(file.read_text())["cells"]
    found = [cells[f"wine / test / default / {seed}"]["3"] for seed in (0, 1)]
    accuracies = [each["accuracy"] for each in found]
    position = list(ours["test"]["formats"]).index("acc. 3")
    assert twin[:2] == ["wine", "relu 0.003"] and line[:2] == ["wine", "default"]
    assert line[position] == [np.mean(accuracies), np.ptp(accuracies) / 2]
    assert text.splitlines()[-1] == again.splitlines()[-1] and "| wine |" in again


def test_noise_is_annealed(script, tmp_path):
    callback = script.AnnealedNoise(1.0, 0.25)
    model = script.SBNClassifier((4,), max_epochs=3, callbacks=[callback])
    X, y, *_ = script.rows_of("wine", "test", 0, None)
    model.fit(X, y)
    assert model.layers_[0]["scale"] == pytest.approx(0.25)
