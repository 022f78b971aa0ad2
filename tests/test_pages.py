"""Figures of the documentation come from stored results of benchmarks."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "benchmarks"))
pages = importlib.import_module("pages")
result_files = importlib.import_module("result_files")

# What is not prose: code, what the script writes, and what it wrote into sentences.
_ELSEWHERE = [
    r"```.*?```",
    r"<!-- (?:about|table): .*?<!-- end -->",
    r"[-+]?[\d.,]*\d<!--= .*? -->",
    r":measured:`[^`]*`",
    r"(?m)^>>> .*?(?:\n\n|\Z)",
    r"``.*?``",
    r"`[^`]*`",
    r"\]\([^)]*\)",
    r"(?m)^(?:    |\t).*$",
]
_UNITS = (
    "%|ms|us|ns|ps|s|seconds?|minutes?|hours?|MB|GB|KB|GB/s|times|points?|nats|rows/s"
)
_MEASURED = re.compile(rf"(?<![\w.])(?:\d*\.\d+|\d[\d, ]*\s(?:{_UNITS})\b|\d+\s?%)")
# Numbers with a point that are names, not measurements.
_NAMES = re.compile(
    r"(?i)(?:section|table|figure|appendix|equation|eq\.|version|python|torch|numpy|numba)"
    r"\s[A-Z]?\.?\d+(?:\.\d+)*"
)


def unfounded(text):
    """Return the measured numbers of a page's sentences that no result has."""
    for pattern in _ELSEWHERE:
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    return [match[0] for match in _MEASURED.finditer(_NAMES.sub(" ", text))]


# Pages whose numbers are still to be taken from results.
NOT_YET = {path.name for path in pages.PAGES}


@pytest.mark.parametrize("path", pages.PAGES, ids=lambda path: path.name)
def test_pages_say_what_the_results_do(path):
    text = path.read_text(encoding="utf-8")
    assert pages.rendered(text, pages.Results()) == text, "python " + pages.__file__
    if path.name not in NOT_YET:
        assert not unfounded(text)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of a made-up benchmark, saved and read again."""
    monkeypatch.setattr(
        sys, "argv", [str(ROOT / "examples" / "made_up.py"), "--n", "1 2"]
    )
    table = result_files.Table.of(
        [
            {"bits": 8, "codes a second": 1234.5, "loss": [0.25, 0.125], "name": "ä"},
            {"bits": 16, "codes a second": None, "loss": [3.0, 0.5], "name": "b"},
        ],
        **{"codes a second": ",.0f", "loss": ".2f"},
    )
    path = tmp_path / "made_up.json"
    result_files.save(path, {"first": table}, {"ratio": 2.345}, seeds=[0, 1], data="X")
    json.loads(path.read_text(encoding="utf-8"))
    return pages.Results(tmp_path)


def test_figures_are_written_into_blocks_and_sentences(results):
    page = """<!-- about: made_up -->
<!-- end -->
<!-- table: made_up.first | name, loss, codes a second -->
old
<!-- end -->
It is 9.9<!--= made_up.ratio | .1f --> times,
-7<!--= made_up.first.at(bits=16)["loss"][0] - 4 | .0f --> and
0<!--= max(made_up.first["codes a second"]) | ,.0f -->."""
    after = pages.rendered(page, results)
    assert "python examples/made_up.py --n '1 2'" in after
    assert "X. " in after and "seeds 0, 1" in after
    assert "| ä | 0.25 ± 0.12 | 1,234 |\n| b | 3.00 ± 0.50 |  |" in after
    assert "It is 2.3<!--= " in after
    assert "\n-1<!--= " in after and "\n1,234<!--= " in after
    assert "old" not in after
    assert pages.rendered(after, results) == after


def test_a_row_is_the_only_one_of_its_values(results):
    with pytest.raises(LookupError, match="0 rows"):
        results.value("made_up.first.at(bits=9)")
    with pytest.raises(LookupError, match="2 rows"):
        results.value("made_up.first.at()")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("takes 0.41 s and `0.3`", ["0.41"]),
        ("79% of 2 GB, in 3 ms", ["79%", "2 GB", "3 ms"]),
        ("at 64 bits, seed 0, 60,000 rows of section 5.2 with torch 2.13", []),
        ("is 0.9<!--= a.b | .1f --> and\n```\n3.5 s\n```\n", []),
        ("<!-- table: a.b -->\n| 0.5 |\n<!-- end -->", []),
        (":measured:`a.b | .1f`, ``1.5``", []),
    ],
)
def test_measured_numbers_are_found(text, found):
    assert unfounded(text) == found
