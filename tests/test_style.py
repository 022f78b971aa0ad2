"""Lint and format are part of the tests, so that one command says all."""

import subprocess
import sys
from pathlib import Path

from cases import each

ROOT = Path(__file__).parents[1]
FOLDERS = ["skhash", "tests", "examples", "docs"]


@each("command", [["check"], ["format", "--check"]])
def test_ruff_has_nothing_to_say(command):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
