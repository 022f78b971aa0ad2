"""Classes that the documentation defines, for the contract tests."""

import ast
import doctest
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)


@cache
def _modules():
    """Return a module for each page that defines something: that and imports, run."""
    modules = []
    for page in sorted(DOCS.rglob("*.rst")):
        text = page.read_text(encoding="utf-8")
        if ">>> class " not in text and ">>> def " not in text:
            continue
        examples = doctest.DocTestParser().get_examples(text)
        tree = ast.parse("".join(example.source for example in examples))
        tree.body = [
            statement for statement in tree.body if isinstance(statement, DEFINITIONS)
        ]
        # Pickles find a class by the name of its module.
        module = ModuleType(f"examples_of_{page.stem}")
        sys.modules[module.__name__] = module
        exec(compile(tree, page, "exec"), vars(module))
        modules.append(module)
    return modules


def _definitions():
    return [
        value
        for module in _modules()
        for value in vars(module).values()
        if getattr(value, "__module__", None) == module.__name__
    ]


def page_classes(base=object):
    """Return the classes of all pages that derive from `base`."""
    classes = (value for value in _definitions() if isinstance(value, type))
    return [value for value in classes if issubclass(value, base)]


def page_functions(*, start="", end=""):
    """Return the functions of all pages whose names start and end so."""
    found = (value for value in _definitions() if not isinstance(value, type))
    found = (value for value in found if value.__name__.startswith(start))
    return [value for value in found if value.__name__.endswith(end)]
