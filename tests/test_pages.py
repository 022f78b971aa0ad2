"""Pages show the results that benchmarks wrote: all of them, and no others."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from skhash.auditing.growth import Growth

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [path for path in DOCS.rglob("*.*") if path.suffix in (".md", ".rst")]
INCLUDE = re.compile(r"(?:\{include\}|\.\. include::) (\S+)")


def test_the_front_has_the_figures_that_were_measured():
    rows = (DOCS / "results/headline.md").read_text(encoding="utf-8").split("\n\n")[-1]
    assert rows.startswith("| ") and rows.count("\n") > 4
    assert rows in (DOCS.parent / "README.md").read_text(encoding="utf-8")


def test_the_page_on_recall_says_what_the_table_has():
    """Ahead in most cells, level in nearly all others, in fewest ahead on GloVe."""
    text = (DOCS / "results/every_cell.md").read_text(encoding="utf-8")
    counts = {
        name: [*map(int, numbers)]
        for name, *numbers in re.findall(
            r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE
        )
    }
    ahead, level, behind = counts.pop("all")
    assert ahead > level > 4 * behind
    assert min(counts, key=lambda data: counts[data][0] / sum(counts[data])) == "glove"
    differences = re.findall(r" \| ([+-]0\.\d+) \| ", text)
    assert min(map(float, differences)) > -0.02


def test_the_calculator_knows_all_data_and_how_recall_falls(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import measured

    data = json.loads(measured.byte_codes())
    assert {title: it["n"] for title, it in data.items()} == measured.SEARCHED
    slopes = measured.growth_slopes()
    text = (DOCS / "results/growth.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines()]
    for title, means in slopes.items():
        assert data[title]["slopes"] == means
        for column, mean in zip((3, 4), means, strict=True):
            grown = []
            for n_bytes in ("8", "16"):
                rows = [row for row in cells if row[:2] == [title, n_bytes]]
                sizes = [int(row[2].replace(",", "")) for row in rows]
                recalls = [float(row[column]) for row in rows]
                angles = [
                    np.arccos(np.sqrt(Growth(sizes, recalls, n).expected))
                    for n in (10**5, 10**6)
                ]
                grown.append(np.diff(angles)[0] / np.log(10))
            assert np.mean(grown) == pytest.approx(mean)


def test_diagrams_are_what_their_script_draws(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import diagrams

    diagrams.main(tmp_path)
    drawn = list(tmp_path.iterdir())
    assert len(drawn) == 4
    for path in drawn:
        assert path.read_bytes() == (DOCS / "images" / path.name).read_bytes()


def test_every_result_is_included_and_every_include_exists():
    included = {
        (page.parent / name).resolve()
        for page in PAGES
        for name in INCLUDE.findall(page.read_text(encoding="utf-8"))
    }
    assert included >= set((DOCS / "results").iterdir())
    assert not [path for path in included if not path.exists()]


def test_parts_of_files_begin_and_end_where_pages_say():
    option = re.compile(r":(?:start-after|end-before): (.+)")
    found = 0
    for page in PAGES:
        for block in page.read_text(encoding="utf-8").split(".. include:: ")[1:]:
            path = page.parent / block.split("\n")[0]
            text = path.read_text(encoding="utf-8")
            for mark in option.findall(block.split("\n\n")[0]):
                assert mark in text, f"{page} includes {path.name} by {mark!r}"
                found += 1
    assert found


def test_every_result_says_where_when_and_with_which_version_it_was_measured():
    for path in (DOCS / "results").iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        about = [line for line in lines if re.match(r"\*[^*]", line)]
        assert len(about) == 1, path
        assert re.search(r", \d+ cores?, \d{4}-\d\d-\d\d\. .*\*$", about[0]), path
        assert re.search(r" scikit-hash \d+\.\d+\.\d+", about[0]), path
