"""Modules that are imported late."""

import subprocess
import sys
import types

import pytest

from skhash.utils.late import LateModule

# Each takes as long to import as all of skhash, or longer.
HEAVY = {"llvmlite", "matplotlib", "numba", "pandas", "skorch", "torch"}
PROGRAM = """
import sys
import sklearn.base, sklearn.model_selection, sklearn.preprocessing
before = set(sys.modules)
{}
print(*{{name.split(".")[0] for name in set(sys.modules) - before}})
"""


def imported_by(program):
    """Return the packages that a program imports, besides those of scikit-learn."""
    command = [sys.executable, "-c", PROGRAM.format(program)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


def test_importing_brings_nothing_heavy():
    found = imported_by("import skhash, skhash.neighbors, skhash.metrics, skhash.cli")
    assert "skhash" in found
    assert not found & HEAVY


def test_a_search_brings_numba():
    search = "skhash.HammingNeighbors(1).fit([[0], [1]]).kneighbors([[1]])"
    found = imported_by(f"import skhash\n{search}")
    assert found & HEAVY == {"llvmlite", "numba"}


def test_a_module_is_imported_when_it_is_used(tmp_path, monkeypatch):
    (tmp_path / "some_late_module.py").write_text("number = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    late = LateModule("some_late_module")
    assert "some_late_module" not in sys.modules
    assert late.number == 7
    module = sys.modules.pop("some_late_module")
    assert isinstance(module, types.ModuleType)
    module.number = 8  # as whoever patches it in a test expects
    assert late.number == 8
    with pytest.raises(AttributeError, match="other"):
        late.other  # noqa: B018
