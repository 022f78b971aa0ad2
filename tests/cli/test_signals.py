"""Real signals to `skhash audit`: it writes what it measured, and ends by the signal.

One process audits again and again, and says when it has come to the point where the
signal belongs.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skhash

CHILD = """
import json, os, signal, sys
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from unittest.mock import patch
from skhash import AuditResult, PCAHash, load
from skhash.auditing import run, timing
from skhash.cli._main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
reading, writing = os.pipe()
os.set_blocking(reading, False), os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)
timing.TIMED_SECONDS = 0.0

def wait():
    with suppress(BlockingIOError):
        os.read(reading, 99)
    os.set_blocking(reading, True)
    try:
        print("WAIT", flush=True)
        os.read(reading, 1)
    finally:
        os.set_blocking(reading, False)

def before(call):
    def waits(*arguments, **options):
        wait()
        return call(*arguments, **options)
    return waits

def fits(handling):
    def fit(self, *arguments):
        if self.n_bits > 1:
            with handling():
                wait()
        return original(self, *arguments)
    return patch.object(PCAHash, "fit", fit)

def dropped():  # as skorch does, which then ends the fit
    return suppress(KeyboardInterrupt)

@contextmanager
def replaced():  # as faiss does
    try:
        yield
    except KeyboardInterrupt:
        raise RuntimeError("computation interrupted") from None

original = PCAHash.fit
POINTS = {
    "fit": fits(nullcontext),
    "dropped": fits(dropped),
    "replaced": fits(replaced),
    "examples": patch.object(run, "gather_evidence", before(run.gather_evidence)),
    "writing": patch.object(AuditResult, "to_html", before(AuditResult.to_html)),
    "start": patch.object(run, "true_neighbors", before(run.true_neighbors)),
}
words = ["--methods", "lsh,pca,sign", "--bits", "4", "--rerank", "30"]
for number in ("SIGINT", "SIGTERM"):
    points = [*POINTS] if number == "SIGINT" else ["dropped", "writing"]
    for point, patched in [(point, POINTS[point]) for point in points]:
        out = Path(f"{point} {number}")
        with patched:
            status = main(["audit", "vectors.npy", "--out", str(out), *words])
        done = {"point": point, "number": number, "status": status}
        if out.exists():
            done["files"] = sorted(path.name for path in out.iterdir())
            done |= json.loads((out / "report.json").read_text())
            done["loaded"] = load(out / "encoder").n_bits
        print("DONE", json.dumps(done), flush=True)
with POINTS["fit"]:
    sys.exit(main(["audit", "vectors.npy", *words]))
"""
MEASURED = {
    "fit": ["lsh"],
    "dropped": ["lsh"],
    "replaced": ["lsh"],
    "examples": ["lsh", "pca", "sign", "sign"],
    "writing": ["lsh", "pca", "sign", "sign"],
    "start": [],
}


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals are sent otherwise there")
def test_an_audit_keeps_what_it_measured(tmp_path):
    X = np.random.default_rng(0).standard_normal((150, 6)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", X)
    errors = tmp_path / "errors"
    root = Path(skhash.__file__).parents[1]
    numbers = [signal.SIGINT] * len(MEASURED) + [signal.SIGTERM] * 3
    numbers, done = iter(numbers), []
    with (
        open(errors, "w") as file,
        subprocess.Popen(
            [sys.executable, "-c", CHILD],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        ) as child,
    ):
        for line in child.stdout:
            if line == "WAIT\n":
                child.send_signal(next(numbers))
            elif line.startswith("DONE"):
                done.append(json.loads(line.removeprefix("DONE")))
    lines = errors.read_text().splitlines()  # steps, and how each run ended
    told = [line for line in lines if line.startswith("skhash: ")]
    assert child.returncode == 143, told
    assert next(numbers, None) is None
    assert len(done) == len(MEASURED) + 2 == len(told) - 1
    for one, line in zip(done, told, strict=False):
        methods = MEASURED[one["point"]]
        assert one["status"] == {"SIGINT": 130, "SIGTERM": 143}[one["number"]]
        assert "interrupted" in line
        assert [row["method"] for row in one.get("rows", [])] == methods, one
        assert ("files" in one) == bool(methods)
        if methods:
            names = ["audit.png", "encoder", "report.html", "report.json"]
            assert one["files"] == names and one["loaded"] == 4
            assert f"{one['point']} {one['number']} holds the {len(methods)} " in line
            named = " ".join(one["skipped"])
            assert ("pca" not in methods) == ("pca at 4 bits" in named)
