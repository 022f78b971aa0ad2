"""Modules that are imported late."""

import ast
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path

import pytest

import skhash
from skhash import training
from skhash.utils.lazy import LateModule

# Each takes as long to import as all of skhash, or longer.
HEAVY = {"llvmlite", "matplotlib", "numba", "pandas", "skorch", "torch"}
PROGRAM = """
import sys
{}
before = set(sys.modules)
{}
print(*set(sys.modules) - before)
"""
SCIKIT_LEARN = "import sklearn.base, sklearn.model_selection, sklearn.preprocessing"


def imported_by(program, before=SCIKIT_LEARN):
    """Return the modules that a program imports besides those imported before."""
    command = [sys.executable, "-c", PROGRAM.format(before, program)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(answer.stdout.split())


def packages(modules):
    return {name.partition(".")[0] for name in modules}


def test_importing_brings_nothing_heavy():
    names = "import skhash.neighbors, skhash.metrics, skhash.cli\nfrom skhash import *"
    found = packages(imported_by(names))
    assert "skhash" in found
    assert not found & HEAVY


def test_the_package_alone_imports_nothing():
    found = imported_by("import skhash; skhash.__version__, dir(skhash)", before="")
    assert found >= {"skhash", "skhash.utils.lazy"}
    assert packages(found) <= {"skhash", *sys.stdlib_module_names}
    assert len([name for name in found if name.startswith("skhash.")]) == 2


def test_the_command_begins_at_once():
    found = imported_by("import skhash.cli._main", before="")
    assert packages(found) <= {"skhash", *sys.stdlib_module_names}


def test_search_of_codes_imports_little_besides_scikit_learn():
    """Whoever has bits already does not wait for what fits encoders."""
    search = "from skhash import HammingNeighbors"
    found = imported_by(search, before="import sklearn.neighbors")
    assert "skhash.neighbors" in found
    assert packages(found) <= {"skhash", "sklearn", *sys.stdlib_module_names}
    parts = {name.split(".")[1] for name in found if name.startswith("skhash.")}
    fit = {"auditing", "classification", "linear", "neural", "quantization", "training"}
    assert not parts & fit


def test_a_search_brings_numba():
    search = "skhash.HammingNeighbors(1).fit([[0], [1]]).kneighbors([[1]])"
    score = "skhash.metrics.recall_at_k_score([[0]], [[0]], [1], [1], k=1)"
    found = imported_by(f"import skhash, skhash.datasets\n{search}\n{score}")
    assert packages(found) & HEAVY == {"llvmlite", "numba"}
    assert not [name for name in found if "cuda" in name]


@pytest.mark.parametrize("package", [skhash, training])
def test_type_checkers_and_programs_find_the_same_names(package):
    checked = {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(package.__file__).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*package.__all__} <= checked.keys() & {*dir(package)}
    for name in package.__all__:
        assert getattr(package, name) is getattr(import_module(checked[name]), name)


def test_names_are_imported_when_they_are_asked_for(tmp_path, monkeypatch):
    (tmp_path / "late_package").mkdir()
    table = '{"first": ["one"], "second": []}'
    (tmp_path / "late_package" / "__init__.py").write_text(
        "from skhash.utils.lazy import late_names\n"
        f"__getattr__, __dir__ = late_names(__name__, {table})\n"
    )
    (tmp_path / "late_package" / "first.py").write_text("one = []\n")
    (tmp_path / "late_package" / "second.py").write_text("two = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = import_module("late_package")
    assert {"one", "first", "second"} <= {*dir(package)}
    assert not hasattr(package, "third") and not hasattr(package, "two")
    assert "late_package.second" not in sys.modules
    assert package.second.two == 2
    assert "late_package.first" not in sys.modules
    assert package.one is package.one is package.first.one


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
