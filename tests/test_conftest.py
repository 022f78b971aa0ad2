"""The option ``--minutes``, and in how many processes tests run."""

import os
import subprocess
import sys

DRAWING = """
from hypothesis import given, settings, strategies as st

drawn = []

@settings(max_examples=5, database=None)
@given(st.integers(0, 10**9))
def test_first(number):
    drawn.append(number)

def test_that_draws_nothing():
    drawn.append(None)

def test_last():
    assert len(set(drawn)) {many} 6 and drawn.count(None) == 1
"""


def test_hypothesis_draws_for_so_long(tmp_path):
    """Again and again, and other cases; tests that draw nothing run once."""
    for minutes, many in ((0, "<="), (0.01, ">")):
        file = tmp_path / "test_drawing.py"
        file.write_text(DRAWING.format(many=many))
        command = ["-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, *command, "--minutes", str(minutes), file],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert "3 passed" in done.stdout, done.stdout + done.stderr
