"""No script stays without a test."""

from pathlib import Path

from .conftest import FOLDER


def test_every_script_has_a_test():
    tests = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    scripts |= {path.parent.name for path in FOLDER.glob("*/module.py")}
    assert {f"test_{name}" for name in scripts} <= tests
