"""Write the figures of ``docs/results/*.json`` into the pages that quote them.

    python examples/benchmarks/pages.py
    python examples/benchmarks/pages.py --check

In a page, ``<!-- about: knn -->`` to ``<!-- end -->`` holds the commands, the machine
and the date of ``docs/results/knn.json``, and ``<!-- table: knn.first -->`` to
``<!-- end -->`` one of its tables (``knn.first | bits, n``: two columns of it). A
number in a sentence is followed by what it is:
``3.4<!--= max(knn.first["ratio"]) | .1f -->``. The expression is Python, and sees the
results by their files' names beside `min`, `max`, `median`, `sum`, `len` and `round`.
In the cell of a table the bar before the format is written with a backslash.
``--check`` writes nothing, and ends with 1 where a page is not up to date.
"""

import argparse
import re
import statistics
import sys
from pathlib import Path

from result_files import Result, written

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [*sorted((DOCS / "benchmarks").glob("*.md"))]
PAGES += [DOCS / "scale.md", DOCS.parent / "README.md"]
_NAMES = {it.__name__: it for it in (min, max, statistics.median, sum, len, round)}
_BLOCK = re.compile(r"<!-- (about|table): (.*?) -->\n.*?<!-- end -->", re.DOTALL)
_NUMBER = re.compile(r"[-+]?[\d.,]*\d%?(?=<!--= (.*?) -->)", re.DOTALL)


class Results:
    """The results of a folder by the names of their files, read when asked for."""

    def __init__(self, folder=DOCS / "results"):
        self.folder, self._read = folder, {}

    def __getitem__(self, name):
        if name not in self._read:
            self._read[name] = Result.read(self.folder / f"{name}.json")
        return self._read[name]

    def value(self, expression):
        """Return what an expression comes to."""
        names = re.findall(r"\w+", expression)
        found = {it: self[it] for it in names if (self.folder / f"{it}.json").exists()}
        return eval(expression, {"__builtins__": _NAMES, **found})

    def table(self, text):
        """Return the table of ``expression | a, b``, with these columns alone."""
        expression, _, columns = text.partition(" | ")
        table = self.value(expression)
        return table.narrowed(columns) if columns else table

    def figure(self, text):
        """Return ``expression | format`` as it is written in a sentence."""
        plain = " ".join(text.replace("\\|", "|").split())
        expression, _, form = plain.partition(" | ")
        return written(self.value(expression), form.strip())


def rendered(text, results):
    """Return the text of a page with all of its figures as the results have them."""

    def block(match):
        kind, what = match.groups()
        if kind == "about":
            content = results[what].about()
        else:
            content = results.table(what).markdown()
        return f"<!-- {kind}: {what} -->\n\n{content}\n\n<!-- end -->"

    text = _BLOCK.sub(block, text)
    return _NUMBER.sub(lambda match: results.figure(match[1]), text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    results, stale = Results(), []
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = rendered(before, results)
        if after != before:
            stale.append(path)
            if not check:
                path.write_text(after, encoding="utf-8")
    for path in stale:
        print(f"{'not up to date' if check else 'written'}: {path.name}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
