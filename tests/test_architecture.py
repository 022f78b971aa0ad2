"""Imports run one way. This file reads the source; it imports nothing of it."""

import ast
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from cases import each

ROOT = Path(importlib.util.find_spec("skhash").submodule_search_locations[0])

# Each part of the package may import these, besides itself. A part is a folder or file
# of `skhash/`. What is not listed may import nothing of skhash, so a new part has to
# find its place here.
ALLOWED = {
    "utils": set(),
    "codes": {"utils"},
    "numerics": {"utils"},
    "persistence": {"utils"},
    "noise": {"utils", "codes"},
    "gradients": {"utils", "codes", "noise"},
    "losses": {"utils", "codes"},
    "networks": {"utils", "codes", "noise", "gradients"},
    "metrics": {"utils", "codes", "numerics"},
    "datasets": {"utils", "persistence"},
    "base": {"utils", "codes", "numerics", "persistence"},
    "quantization": {"utils", "codes", "numerics", "persistence"},
    "training": {"utils", "codes", "persistence", "base"},
}
METHODS = {"linear", "neural", "classification"}
BELOW_METHODS = {*ALLOWED} - {"datasets", "metrics"}
ALLOWED["linear"] = BELOW_METHODS
ALLOWED["neural"] = BELOW_METHODS | {"linear", "metrics"}
ALLOWED["classification"] = BELOW_METHODS
ALLOWED["neighbors"] = {"utils", "codes", "numerics", "persistence", "datasets"}
ALLOWED["distributed"] = {"utils", "codes", "neighbors"}
ALLOWED["export"] = {"utils", "codes", "neighbors"}
ESTIMATORS = {"persistence", "quantization", "neighbors", *METHODS}
ALLOWED["auditing"] = ESTIMATORS | {"utils", "codes", "metrics", "_versions"}
ALLOWED["cli"] = ALLOWED["auditing"] | {
    "compile",
    "auditing",
    "base",
    "datasets",
    "__init__",
}
ALLOWED["compile"] = {"utils", "numerics", "neighbors", "auditing"}
ALLOWED["__main__"] = {"cli"}
ALLOWED["_versions"] = {"utils"}
ALLOWED["__init__"] = ESTIMATORS | {"utils", "auditing", "_versions"}

# Allowed inside functions only, where importing skhash does not reach.
ALLOWED_LATE = {
    "gradients": {"training"},  # a report measures estimators on trained modules
    "persistence": {"__init__"},
    "_versions": {"__init__"},
    "auditing": {"__init__"},  # a page names the version
    "neighbors": {"quantization", "metrics"},
}


# Type checkers alone import what is below.
TYPES = "TYPE_CHECKING"


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
            if getattr(getattr(child, "func", None), "id", None) == "LateModule":
                yield Import(file, child.lineno, child.args[0].value, None, True)
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(file, child.lineno, alias.name, None, late)
            elif isinstance(child, ast.ImportFrom):
                module = absolute_module(file, child)
                for alias in child.names:
                    yield Import(file, child.lineno, module, alias.name, late)
            else:
                inside = (
                    isinstance(
                        child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
                    )
                    or getattr(getattr(child, "test", None), "id", None) == TYPES
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


def test_the_map_has_no_cycle():
    done = set()
    while len(done) < len(ALLOWED):
        ready = {
            part
            for part, targets in ALLOWED.items()
            if part not in done and targets <= done
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


@each("library", ["skorch"])
def test_one_importer_of_a_library(library):
    found = [i for i in IMPORTS if i.module.split(".")[0] == library]
    wrong = [i for i in found if i.part != "training"]
    assert not wrong, f"{library} is imported outside training:\n{listed(wrong)}"


def test_no_process_imports_faiss_beside_other_libraries():
    """On macOS a process that loads several OpenMP libraries may abort.

    Exports import the engine that the user names.
    """
    found = [i for i in IMPORTS if i.module.split(".")[0] in ("faiss", "usearch")]
    assert {i.file for i in found} == {ROOT / "auditing" / "timing.py"}
    imported = {i.module.split(".")[0] for i in IMPORTS if i.file == found[0].file}
    assert imported <= {"faiss", "numpy", *sys.stdlib_module_names}


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


def test_arrays_that_are_given_pass_one_door():
    """scikit-learn's own functions of these names drop masks."""
    doors = {"check_array", "check_X_y", "column_or_1d", "validate_data"}
    wrong = [
        found
        for found in IMPORTS
        if found.name in doors
        and found.module != "skhash.utils.arrays"
        and found.file != ROOT / "utils" / "arrays.py"
    ]
    assert not wrong, listed(wrong)


# Size


@dataclass(frozen=True)
class Function:
    """A function or method, and where."""

    file: Path
    node: ast.FunctionDef

    @property
    def body_lines(self):
        """Lines of the body, the docstring aside."""
        body = self.node.body
        if ast.get_docstring(self.node) is not None:
            body = body[1:]
        return body[-1].end_lineno - body[0].lineno + 1 if body else 0

    def parameters(self, *, named_only=False):
        """Names, without those that positions tell where these are not asked for."""
        given = self.node.args
        by_position = [] if named_only else [*given.posonlyargs, *given.args]
        names = [one.arg for one in (*by_position, *given.kwonlyargs)]
        return [name for name in names if name not in ("self", "cls")]

    def count_parameters(self, *, named_only=False):
        """Count parameters; of one that the body takes apart, what it holds."""
        names = self.parameters(named_only=named_only)
        parts = {
            value.id: len(target.elts)
            for node in ast.walk(self.node)
            if isinstance(node, ast.Assign)
            for target, value in pairs_of(node.targets[0], node.value)
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Name)
        }
        return sum(parts.get(name, 1) for name in names)

    def largest_call(self):
        """Return the most arguments of a call; of a tuple, what it holds counts."""
        sizes = {
            target.id: len(value.elts)
            for node in ast.walk(self.node)
            if isinstance(node, ast.Assign)
            for target, value in pairs_of(node.targets[0], node.value)
            if isinstance(target, ast.Name) and isinstance(value, ast.Tuple)
        }

        def size(node):
            node = node.value if isinstance(node, ast.Starred | ast.keyword) else node
            if isinstance(node, ast.Tuple):
                return sum(map(size, node.elts))
            return sizes.get(node.id, 1) if isinstance(node, ast.Name) else 1

        calls = [node for node in ast.walk(self.node) if isinstance(node, ast.Call)]
        return max((sum(map(size, [*c.args, *c.keywords])) for c in calls), default=0)

    def __str__(self):
        place = self.file.relative_to(ROOT.parent)
        return f"{place}:{self.node.lineno}: {self.node.name}"


def pairs_of(target, value):
    """Yield the targets of an assignment, each with the expression of its value."""
    tuples = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    if tuples and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


TREES = {file: ast.parse(file.read_text()) for file in FILES}
FUNCTIONS = [
    Function(file, node)
    for file, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.FunctionDef)
]
EXPORTED = {
    element.value
    for file, tree in TREES.items()
    if file.name == "__init__.py"
    for node in tree.body
    if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    for element in node.value.elts
}
MAX_BODY, MAX_PARAMETERS, MAX_OWN_PARAMETERS = 40, 10, 20
# Longer, for a reason that stands beside each in the code.
LONG_BODIES: set[str] = set()
# Whole measurements, whose options are told apart by their names.
MEASUREMENTS = {"audit"}
# Options of skorch, fields of a page, and arrays of a kernel, all by their names.
CALLS_WITH_MORE = {"_net.__init__", "page.whole_page", "pruned._batch"}


def test_bodies_are_short():
    long = [
        f"{function} has {function.body_lines} lines"
        for function in FUNCTIONS
        if function.body_lines > MAX_BODY
        and function.node.name not in {"__init__", *LONG_BODIES}
    ]
    assert not long, "\n".join(long)


def test_functions_have_few_parameters():
    """Of what users call, data do not count."""
    many = [
        f"{function} has {count}"
        for function in FUNCTIONS
        if function.node.name not in MEASUREMENTS
        for named_only in [function.node.name in EXPORTED]
        for count in [function.count_parameters(named_only=named_only)]
        if count > MAX_PARAMETERS
    ]
    assert not many, "\n".join(many)


def test_no_tuple_hides_arguments():
    many = [
        f"{function} calls with {count}"
        for function in FUNCTIONS
        if f"{function.file.stem}.{function.node.name}" not in CALLS_WITH_MORE
        for count in [function.largest_call()]
        if count > MAX_PARAMETERS
    ]
    assert not many, "\n".join(many)


def test_estimators_have_few_parameters_of_their_own():
    """Declared by annotations, see `skhash.utils.parameters`."""
    declared = {
        f"{file.relative_to(ROOT)}: {node.name}": sum(
            isinstance(line, ast.AnnAssign) for line in node.body
        )
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        if any("with_parameters" in ast.unparse(one) for one in node.decorator_list)
    }
    assert len(declared) > 30
    many = {name: n for name, n in declared.items() if n > MAX_OWN_PARAMETERS}
    assert not many
