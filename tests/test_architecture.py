"""Imports run one way. This file reads the source; it imports nothing of it."""

import ast
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(importlib.util.find_spec("skhash").submodule_search_locations[0])
MAX_LINES = 520

# What each part of the package may import, besides itself. A part is a folder or a file
# of `skhash/`. What is not listed may import nothing of skhash, so a new part has to
# find its place here.
ALLOWED = {
    "utils": set(),
    "codes": {"utils"},
    "persistence": {"utils", "codes"},
    "noise": {"utils", "codes"},
    "gradients": {"utils", "codes", "noise"},
    "losses": {"utils", "codes"},
    "modules": {"utils", "codes", "noise", "gradients"},
    "_net": {"utils", "codes", "noise", "gradients", "modules"},
    "metrics": {"utils", "codes"},
    "datasets": {"utils"},
    "base": {"utils", "codes", "persistence", "_net"},
}
METHODS = {"linear", "neural", "classification"}
BELOW_METHODS = {*ALLOWED, "base"} - {"datasets", "metrics"}
ALLOWED["linear"] = BELOW_METHODS
ALLOWED["neural"] = BELOW_METHODS | {"linear", "metrics"}
ALLOWED["classification"] = BELOW_METHODS | {"linear", "neural", "metrics"}
ALLOWED["neighbors"] = {"utils", "codes", "persistence"}
ALLOWED["distributed"] = {"utils", "codes", "neighbors"}
ALLOWED["export"] = {"utils", "codes", "neighbors"}
ESTIMATORS = {"persistence", "neighbors", *METHODS}
AUDIT = ESTIMATORS | {"utils", "codes", "base", "metrics", "datasets"}
AUDIT_FILES = {"audit", "_audit", *(file.stem for file in ROOT.glob("_audit*.py"))}
for audit_file in AUDIT_FILES:
    ALLOWED[audit_file] = AUDIT | AUDIT_FILES
ALLOWED["cli"] = AUDIT | AUDIT_FILES | {"__init__"}
ALLOWED["__main__"] = {"cli"}
ALLOWED["__init__"] = ESTIMATORS | {"audit", "_audit"}

# Allowed inside functions only, where importing skhash does not reach.
ALLOWED_LATE = {
    "persistence": {"__init__"},
    "neighbors": {"linear", "metrics"},
}

# Parts that are imported where a network is trained, and may import torch at once.
IMPORT_TORCH = {"_net", "modules", "losses", "gradients", "noise"}


@dataclass(frozen=True)
class Import:
    """One imported name, and where."""

    file: Path
    line: int
    module: str
    name: str | None
    late: bool

    @property
    def part(self):
        """The part of skhash that imports."""
        return part_of(self.file.relative_to(ROOT).with_suffix("").parts)

    @property
    def target(self):
        """The part of skhash that is imported, or None."""
        head, *rest = self.module.split(".")
        if head != "skhash":
            return None
        return part_of([*rest, *([self.name] if not rest and self.name else [])])

    def __str__(self):
        place = self.file.relative_to(ROOT.parent)
        name = f" import {self.name}" if self.name else ""
        return f"{place}:{self.line}: {self.module}{name}"


def part_of(names):
    """The first name, where it is a file or folder of skhash; else skhash itself."""
    head = names[0] if names else "__init__"
    is_part = (ROOT / head).is_dir() or (ROOT / f"{head}.py").is_file()
    return head if is_part else "__init__"


def imports_of(file):
    def visit(node, late):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(file, child.lineno, alias.name, None, late)
            elif isinstance(child, ast.ImportFrom):
                module = absolute_module(file, child)
                for alias in child.names:
                    yield Import(file, child.lineno, module, alias.name, late)
            else:
                inside = isinstance(
                    child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
                )
                yield from visit(child, late or inside)

    yield from visit(ast.parse(file.read_text()), late=False)


def absolute_module(file, node):
    if not node.level:
        return node.module
    package = file.parent.relative_to(ROOT.parent).parts
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


FILES = sorted(ROOT.rglob("*.py"))
IMPORTS = [found for file in FILES for found in imports_of(file)]


def listed(imports):
    return "\n".join(map(str, imports))


def test_there_is_something_to_read():
    assert len(FILES) > 20
    assert {"codes", "base", "_net"} <= {i.target for i in IMPORTS}
    assert any(i.late for i in IMPORTS) and any(not i.late for i in IMPORTS)


def test_the_map_has_no_cycle():
    done = set()
    while len(done) < len(ALLOWED):
        ready = {
            part
            for part, targets in ALLOWED.items()
            if part not in done and targets - AUDIT_FILES <= done | AUDIT_FILES
        }
        assert ready, f"in a cycle: {sorted(ALLOWED.keys() - done)}"
        done |= ready


def test_every_part_has_its_place():
    parts = {part_of(file.relative_to(ROOT).with_suffix("").parts) for file in FILES}
    assert parts <= ALLOWED.keys()


def test_imports_run_one_way():
    turned = [
        found
        for found in IMPORTS
        if found.target is not None
        and found.target != found.part
        and found.target not in ALLOWED[found.part]
        and not (found.late and found.target in ALLOWED_LATE.get(found.part, ()))
    ]
    assert not turned, f"these imports turn the arrow:\n{listed(turned)}"


@pytest.mark.parametrize("library", ["skorch"])
def test_one_importer_of_a_library(library):
    found = [i for i in IMPORTS if i.module.split(".")[0] == library]
    wrong = [i for i in found if i.part != "_net"]
    assert not wrong, f"{library} is imported outside _net.py:\n{listed(wrong)}"


@pytest.mark.parametrize("library", ["faiss", "usearch"])
def test_no_importer_of_a_library(library):
    found = [i for i in IMPORTS if i.module.split(".")[0] == library]
    assert not found, listed(found)


def test_private_names_of_scikit_learn_pass_one_door():
    def is_private(found):
        names = [*found.module.split("."), found.name or ""]
        return names[0] == "sklearn" and any(
            name.startswith("_") and not name.endswith("__") for name in names
        )

    wrong = [
        found
        for found in IMPORTS
        if is_private(found) and found.file != ROOT / "utils" / "_sklearn.py"
    ]
    assert not wrong, listed(wrong)


def test_torch_is_imported_late():
    """`import skhash` and encoding with a linear model do without torch.

    A file named for torch, as `neighbors/search/_torch.py`, may import it at once,
    where nothing imports that file at once.
    """
    torch_files = {file for file in FILES if file.stem.startswith("_torch")}
    wrong = [
        found
        for found in IMPORTS
        if found.module.split(".")[0] == "torch"
        and not found.late
        and found.part not in IMPORT_TORCH
        and found.file not in torch_files
    ]
    assert not wrong, listed(wrong)

    def imports_torch_part(found):
        names = {found.module.split(".")[-1], found.name}
        is_torch_file = found.target and names & {file.stem for file in torch_files}
        return found.target in IMPORT_TORCH or is_torch_file

    eager = [
        found
        for found in IMPORTS
        if imports_torch_part(found)
        and not found.late
        and found.part not in IMPORT_TORCH
        and found.file not in torch_files
    ]
    assert not eager, f"these bring torch in at import:\n{listed(eager)}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_file_is_too_long(file):
    assert len(file.read_text().splitlines()) <= MAX_LINES


def test_no_star_imports():
    assert not [found for found in IMPORTS if found.name == "*"]
