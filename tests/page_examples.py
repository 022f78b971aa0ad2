"""The classes that the pages of the documentation show, for the contract tests."""

import ast
import doctest
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"


@cache
def _modules():
    """Return a module for each page with a class: its imports and classes, run."""
    modules = []
    for page in sorted(DOCS.rglob("*.rst")):
        text = page.read_text(encoding="utf-8")
        if ">>> class " not in text:
            continue
        examples = doctest.DocTestParser().get_examples(text)
        tree = ast.parse("".join(example.source for example in examples))
        tree.body = [
            statement
            for statement in tree.body
            if isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef)
        ]
        # Pickles find a class by the name of its module.
        module = ModuleType(f"examples_of_{page.stem}")
        sys.modules[module.__name__] = module
        exec(compile(tree, page, "exec"), vars(module))
        modules.append(module)
    return modules


def page_classes(base=object):
    """Return the classes of all pages that derive from `base`."""
    return [
        value
        for module in _modules()
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and issubclass(value, base)
    ]
