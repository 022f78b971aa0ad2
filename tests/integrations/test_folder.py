"""No script stays without a test."""

import re
from pathlib import Path

from .conftest import FOLDER


def test_every_script_is_loaded_by_a_test():
    """`module.py` of the harnesses is imported, as they do."""
    texts = [path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")]
    loaded = set(re.findall(r'load\("(\w+)"', "\n".join(texts)))
    assert loaded == {path.stem for path in FOLDER.glob("*.py")}
