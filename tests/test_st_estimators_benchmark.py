"""The benchmark of gradient estimators on text measures what it says, on few words."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, log_softmax

# A network of a few words may well have bits that are always the same.
pytestmark = pytest.mark.filterwarnings("ignore:.*bits are the same")
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "benchmarks"
STORED = ROOT / "docs" / "results" / "st_estimators.json"
OPTIONS = (
    "--words 30 --skip-words 5 --documents 40 --batch-size 20 --epochs 20 "
    "--correction-epochs 4 --points 2 --measured-documents 20 --reference-samples 20 "
    "--trials 2 --bits 12 3 --seeds 0 1 --estimators arm st exact"
).split()


@pytest.fixture
def scripts(monkeypatch):
    """The script and its report, as they are run, on counts drawn at random."""
    monkeypatch.syspath_prepend(FOLDER)
    names = "st_estimators", "st_estimators_report", "growing_results"
    script, report, _ = [importlib.import_module(name) for name in names]
    counts = np.random.default_rng(0).poisson(np.geomspace(3, 0.1, 50), (60, 50))
    data = SimpleNamespace(train=sparse.csr_array(counts.astype(np.float32)))
    monkeypatch.setattr(script, "load_20newsgroups", lambda *args, **options: data)
    yield script, report
    for name in names:
        sys.modules.pop(name, None)


def run(script, monkeypatch, output, *more):
    monkeypatch.setattr(sys, "argv", ["", *OPTIONS, "--output", str(output), *more])
    script.main()
    return json.loads(output.read_text())


def options_of(script, monkeypatch, *more):
    monkeypatch.setattr(sys, "argv", ["", *OPTIONS, *more])
    return script.parse()


def test_words_are_those_of_the_ranks(scripts, monkeypatch):
    script, _ = scripts
    X = script.load(options_of(script, monkeypatch))
    counts = script.load_20newsgroups().train.toarray()
    # Poisson means that differ by 7 % and 60 rows: ranks are those of the sums.
    chosen = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[5:35])
    rows = {tuple(row) for row in counts[:, chosen]}
    assert X.shape == (40, 30)
    assert {tuple(row) for row in X} <= rows


def test_trainings_are_kept_and_gone_on_with(scripts, monkeypatch, tmp_path):
    script, _ = scripts
    output = tmp_path / "runs.json"
    content = run(script, monkeypatch, output)
    done = list(content["cells"])
    assert len(done) == 10
    firsts = [f"seed 0, {b} bits, {n}" for b in (3, 12) for n in ("arm", "st")]
    assert done[:4] == firsts
    assert done[4:6] == ["seed 0, 3 bits, exact", "seed 1, 3 bits, arm"]
    # What is missing is trained, alike, and nothing else.
    lost = {name: content["cells"].pop(name) for name in (done[1], done[-1])}
    output.write_text(json.dumps(content))
    trained = []
    train = script.train

    def counted(*args):
        trained.append(args[:3])
        return train(*args)

    monkeypatch.setattr(script, "train", counted)
    again = run(script, monkeypatch, output)["cells"]
    assert trained == [(0, 3, "st"), (1, 3, "exact")]
    for name, cell in lost.items():
        timed = {"seconds": 0, "ms_a_step": []}
        assert again[name] | timed == cell | timed
    with pytest.raises(SystemExit, match="another setting"):
        run(script, monkeypatch, output, "--epochs", "10")


def test_losses_are_those_of_drawn_bits(scripts, monkeypatch):
    """The mean of many draws is the expectation over all codes, in NumPy."""
    script, _ = scripts
    options = options_of(script, monkeypatch)
    X = script.load(options)
    monkeypatch.setattr(script, "LOSS_DRAWS", 3000)
    watches = []

    class Watch(script.Watch):
        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == 24:
                super().on_epoch_end(net, **kwargs)
                watches.append((self.records_[-1], net.module_))

    monkeypatch.setattr(script, "Watch", Watch)
    script.train(0, 3, "st", X, options)
    (record, module), *_ = watches
    (W, V), (b, c) = module.encoder.arrays()
    logits = np.maximum(X / X.sum(axis=1, keepdims=True) @ W + b, 0) @ V + c
    p = expit(logits.astype(np.float64))
    codes = np.indices((2,) * 3).reshape(3, -1).T
    (W, V), (b, c) = module.decoder.arrays()
    losses = -X @ log_softmax(np.maximum(codes @ W + b, 0) @ V + c, axis=1).T
    chances = np.where(codes == 1, p[:, None], 1 - p[:, None]).prod(axis=2)
    expected = (chances * losses).sum(axis=1).mean()
    likeliest = losses[np.arange(len(X)), (p > 0.5) @ [4, 2, 1]].mean()
    assert record["epoch"] == 24
    assert record["loss"] == pytest.approx(expected, abs=0.02)
    assert record["code_loss"] == pytest.approx(likeliest, rel=1e-5)
    assert record["certainty"] == pytest.approx(np.abs(2 * p - 1).mean(), rel=1e-4)


def test_report_reads_phases_and_votes(scripts, monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    script, report = scripts
    output, pictures = tmp_path / "runs.json", tmp_path / "pictures"
    run(script, monkeypatch, output, "--estimators", *report.BIASED, "arm")
    results = tmp_path / "results.json"
    argv = ["", str(output), "--picture-folder", str(pictures)]
    argv += ["--results", str(results)]
    monkeypatch.setattr(sys, "argv", argv)
    report.main()
    printed = capsys.readouterr().out
    cells = json.loads(output.read_text())["cells"]
    ends = [np.mean(cells[f"seed {s}, 12 bits, arm"]["loss"][17:20]) for s in (0, 1)]
    spread = f"{np.mean(ends):.1f} ± {np.ptp(ends) / 2:.1f}"
    header, line = (
        next(row for row in printed.splitlines() if row.startswith(start))
        for start in ("| estimator", "| arm")
    )
    columns = dict(zip(header.split(" | "), line.split(" | "), strict=True))
    assert columns["late, 12"] == spread
    for number in ("1a", "1b", *range(2, 7)):
        assert f"\n| {number} | " in printed
    # The bits are others than those of the documentation, and so are some columns.
    ours, theirs = (
        json.loads(path.read_text(encoding="utf-8"))["tables"]
        for path in (results, STORED)
    )
    for name in ("claims", "evidence"):
        assert ours[name]["formats"] == theirs[name]["formats"]
    for table in ("loss", "code_loss", "gradients"):
        bits = {name.replace("12", "256") for name in ours[table]["formats"]}
        bits = {name.replace(", 3", ", 8") for name in bits}
        assert bits <= set(theirs[table]["formats"])
    assert (pictures / "st_estimators.png").stat().st_size > 10_000


def test_falls_and_verdicts(scripts):
    _, report = scripts
    # 100 epochs, the last 40 by 0.05 nats each; then 1 nat an epoch, 10 times.
    epochs = np.arange(1, 121)
    loss = np.interp(epochs, [1, 60, 100, 110, 120], [60, 50, 48, 38, 38])
    cell = {"epoch": epochs.tolist(), "loss": loss.tolist()}
    one = report.Run(cell, 100)
    assert one.phase("early") == pytest.approx(np.mean(loss[7:10]))
    assert one.phase("corrected") == 38
    # Means of three records: 48.05 at the end of the phase, 47 two epochs later.
    assert one.falls() == pytest.approx((0.05, 1.05 / 2, 1.25 / 11.95))
    assert report.verdict([True, True]) == "holds"
    assert report.verdict([False, False]) == "does not hold here"
    assert report.verdict([True, False]) == "cannot be told at this size"
    assert report.verdict([]) == "cannot be told at this size"
