"""Pages show the results that benchmarks wrote: all of them, and no others."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [path for path in DOCS.rglob("*.*") if path.suffix in (".md", ".rst")]
INCLUDE = re.compile(r"(?:\{include\}|\.\. include::) (\S+)")


def test_the_front_has_the_figures_that_were_measured():
    rows = (DOCS / "results/headline.md").read_text(encoding="utf-8").split("\n\n")[-1]
    assert rows.startswith("| ") and rows.count("\n") > 4
    assert rows in (DOCS.parent / "README.md").read_text(encoding="utf-8")


def test_every_result_is_included_and_every_include_exists():
    included = {
        (page.parent / name).resolve()
        for page in PAGES
        for name in INCLUDE.findall(page.read_text(encoding="utf-8"))
    }
    assert included >= set((DOCS / "results").iterdir())
    assert not [path for path in included if not path.exists()]
