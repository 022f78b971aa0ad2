"""`show_versions` names what pyproject.toml does, and tells what is imported."""

import importlib
import re
import tomllib
from pathlib import Path

import skhash
from skhash._versions import OPTIONAL, REQUIRED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = {"scikit-learn": "sklearn", "faiss-cpu": "faiss", "sqlite-vec": "sqlite_vec"}


def names_in(requirements):
    return {re.match(r"[\w-]+", one)[0] for one in requirements}


def test_every_python_that_is_named_is_tested():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    classified = re.findall(r":: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', workflow) == classified


def test_what_is_required_is_named():
    assert set(REQUIRED) == names_in(PROJECT["project"]["dependencies"])


def test_what_extras_bring_to_users_is_named():
    extras = PROJECT["project"]["optional-dependencies"]
    of_users = [
        one for name in ("audit", "hdf5", "dask", "export") for one in extras[name]
    ]
    assert names_in(of_users) <= set(OPTIONAL) <= names_in(extras["test"])


def test_versions_are_those_that_are_imported(capsys, monkeypatch):
    monkeypatch.setattr("skhash._versions.OPTIONAL", ("pandas", "of-no-such-name"))
    skhash.show_versions()
    lines = capsys.readouterr().out.splitlines()
    printed = dict(line.split(maxsplit=1) for line in lines)
    for name in ("skhash", *REQUIRED, "pandas"):
        module = importlib.import_module(MODULES.get(name, name))
        assert printed[name] == module.__version__
    assert "of-no-such-name" not in printed
    monkeypatch.setattr("skhash._versions.REQUIRED", ("of-no-such-name",))
    skhash.show_versions()
    assert "of-no-such-name  not installed\n" in capsys.readouterr().out
