"""The API page has every public name, and what CONTRIBUTING says of files is so."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path
from pydoc import locate

from cases import each
from test_architecture import ALLOWED

ROOT = Path(__file__).parents[1]
EXTENDING = (ROOT / "docs/extending.rst").read_text(encoding="utf-8")
PATHS = {
    file: re.findall(
        r"(?:skhash|tests|docs|examples)/[\w./]*",
        (ROOT / file).read_text(encoding="utf-8"),
    )
    for file in ("CONTRIBUTING.md", "docs/extending.rst", "docs/project/maintaining.md")
}
# Parts whose users are inside.
INSIDE = {
    *("utils", "numerics", "persistence", "cli", "compile"),
    *("__main__", "__init__", "_versions"),
}
PUBLIC = [
    "skhash",
    *(f"skhash.{name}" for name in sorted(ALLOWED.keys() - INSIDE)),
    "skhash.neighbors.search",
]


def documented():
    """Return what the API page lists, by full names."""
    module, listed, found = "", False, []
    for line in (ROOT / "docs/api.rst").read_text(encoding="utf-8").splitlines():
        directive = re.match(r"\.\. ([\w:]+):: *(\S*)", line)
        if directive:
            kind, name = directive.groups()
            listed = kind == "autosummary"
            if kind == "currentmodule":
                module = name
            elif kind.startswith(("auto", "py:")) and name:
                found.append(f"{module}.{name}")
        elif listed and re.fullmatch(r"   [\w.]+", line):
            found.append(f"{module}.{line.strip()}")
        elif line and not line.startswith(" "):
            listed = False
    return found


def resolved(name):
    """Return the object of a full name."""
    module, _, own = name.rpartition(".")
    return getattr(import_module(module), own)


def names_of(module):
    """Return the public names of a module: those it lists, or else its classes."""
    module = import_module(module)
    classes = inspect.getmembers(module, inspect.isclass)
    own = [name for name, cls in classes if cls.__module__ == module.__name__]
    return getattr(module, "__all__", own)


@each("module", PUBLIC)
def test_every_public_name_is_on_the_api_page(module):
    listed = [resolved(name) for name in documented()]
    missing = [
        name
        for name in names_of(module)
        if not any(resolved(f"{module}.{name}") is one for one in listed)
    ]
    assert not missing, f"docs/api.rst lacks these names of {module}: {missing}"


def test_the_api_page_has_public_names_only():
    public = [
        resolved(f"{module}.{name}") for module in PUBLIC for name in names_of(module)
    ]
    other = [
        name
        for name in documented()
        if not any(resolved(name) is one for one in public)
    ]
    assert not other, f"docs/api.rst lists {other}, which no public module exports"


@each("folder", ["skhash", "docs", "examples"])
def test_names_in_texts_are_those_of_something(folder):
    """Links are checked by Sphinx too, but not those of private docstrings."""
    stale = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / folder).rglob("*.*"))
        if file.suffix in (".py", ".rst", ".md") and "_build" not in file.parts
        for name in re.findall(r"`~?(skhash(?:\.\w+)+)`", file.read_text("utf-8"))
        if locate(name) is None
    ]
    assert not stale, stale


def test_pages_import_public_names_only():
    pages = [*(ROOT / "docs").rglob("*.rst"), *(ROOT / "examples").glob("*.py")]
    private = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in [ROOT / "README.md", *pages]
        for line in page.read_text("utf-8").splitlines()
        if re.match(r"\W*(from|import) (skhash|sklearn)\b.*\b_", line)
    ]
    assert len(pages) > 20
    assert not private, private


@each("file", [*PATHS])
def test_files_that_pages_for_contributors_name_are_there(file):
    missing = [
        path
        for path in PATHS[file]
        if not re.search("NAME|_build", path) and not (ROOT / path.rstrip(".")).exists()
    ]
    assert len(PATHS[file]) > 5
    assert not missing, f"{file} names {missing}"


def test_examples_of_parts_are_short():
    """So that a newcomer reads one as a whole."""
    examples = doctest.DocTestParser().get_examples(EXTENDING)
    lengths = {
        found[1]: example.source.count("\n")
        for example in examples
        if (found := re.search(r"^(?:class|def) (\w+)", example.source, re.MULTILINE))
    }
    needed = {"QuantileHash", "MarginLoss", "FlooredST", "WeightedNeighbors"}
    assert needed <= lengths.keys()
    assert max(lengths.values()) < 40, lengths
