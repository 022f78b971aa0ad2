"""What people see on a terminal of 60 columns: lines fit, and progress is gone."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from screens import Screen

import skhash

pty = pytest.importorskip("pty", reason="a pseudo-terminal, which this system lacks")

WIDTH = 60
# All that prints as it goes: an audit, an encoding, fits that are verbose.
SCRIPT = """
import sys
sys.modules["rich"] = None  # see `test_rich`
import numpy as np
from skhash import NeighborHash, SGHEncoder, SBNClassifier
from skhash.cli import main
from skhash._audit import _measure
from skorch.callbacks import EpochScoring

_measure.TIMED_SECONDS = 0.0
X = np.random.default_rng(0).standard_normal((150, 6)).astype(np.float32)
np.save("vectors.npy", X)
names = ["--bits", "4,6", "--methods", "lsh,pca", "--rescore", "20", "--out", "report"]
assert main(["audit", "vectors.npy", *names]) == 0
print("ENCODE")
words = ["encode", "report/encoder", "vectors.npy", "codes.npy"]
assert main(words) == 0 and main([*words, "--quiet"]) == 0
print("FIT")
def a_long_name(net, X, y=None):
    return 0.5
scores = [EpochScoring(a_long_name, name="a_score_with_a_long_name")]
options = dict(max_epochs=12, verbose=1, random_state=0, validation_fraction=0.2)
SGHEncoder(4, callbacks=scores, **options).fit(X)
SBNClassifier(**options).fit(X, np.arange(150) % 2)
"""


def run_on_terminal(script, folder):
    """Return all that a process writes to a terminal of `WIDTH` columns."""
    import fcntl
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    }
    environment |= {
        "TERM": "xterm-256color",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(skhash.__file__).parents[1]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=folder,
        env=environment,
    )
    os.close(its)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait() == 0, written.decode()
    return written.decode()


def test_all_lines_fit_and_progress_is_gone(tmp_path):
    written = run_on_terminal(SCRIPT, tmp_path)
    screen = Screen(written, WIDTH)
    # A command is one line, so that it can be copied.
    assert {line[:6] for line in screen.wrapped} == {"Next: "}
    lines = [line.rstrip() for line in screen.lines]
    audit, encode, fit = "\n".join(lines).replace("FIT", "ENCODE").split("ENCODE")
    assert len(re.findall(r"^(lsh|pca) +[46] ", audit, re.MULTILINE)) == 4
    steps = ("reading", "finding the", "compiling", "(1 of 4)", "looking at")
    assert all(step in written and step not in audit for step in steps)
    assert re.search(r"\(2 of 4\), \d+ s passed, about \d+ s l", written)
    assert "encoding: 150 of 150" in written
    (line,) = encode.split("\n")[1:-1]  # the quiet one says nothing
    assert re.fullmatch(r"Wrote codes.npy: 150 codes of [46] bits, a byte each", line)
    epochs = [line for line in fit.splitlines() if line]
    assert len(epochs) == 24
    for number, line in enumerate(epochs):
        epoch = number % 12 + 1
        assert line.startswith(f"epoch {epoch:2}/12  train_loss ")
        assert (" left" in line) == (epoch < 12)
        # There is no room for it.
        assert "a_score_with_a_long_name" not in line
