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
growing_results = importlib.import_module("growing_results")

# What is not prose: code, what the script writes, and what it wrote into sentences.
_ELSEWHERE = [
    r"```.*?```",
    r"<!-- (?:about|table): .*?<!-- end -->",
    r"[-+]?[\d.,]*\d%?<!--= .*? -->",
    r"(?m)^>>> .*?(?:\n\n|\Z)",
    r"(?m)^\.\. (?:measured|code-block|math)::[^\n]*\n(?:[ \t]*\n|[ \t][^\n]*\n)*",
    r"(?m)::\n\n(?:[ \t]*\n|[ \t][^\n]*\n)+",
    r"``.*?``",
    r":\w+:`[^`]*`",
    r"`[^`]*`",
    r"\]\([^)]*\)",
]

_UNITS = (
    "%|ms|us|ns|ps|s|seconds?|minutes?|hours?|MB|GB|KB|GB/s|times|points?|nats|rows/s"
)
_MEASURED = re.compile(rf"(?<![\w.])(?:\d*\.\d+|\d[\d, ]*\s(?:{_UNITS})\b|\d+\s?%)")
# Numbers with a point that are names, not measurements.
_NAMES = re.compile(
    r"(?i)(?:section|table|figure|appendix|equation|eq\.|version|python|torch|numpy|scipy"
    r"|scikit-learn|skorch|numba|joblib|safetensors|ray|spark|license)"
    r"\s[A-Z]?\.?\d+(?:\.\d+)*"
)


def unfounded(text):
    """Return the measured numbers of a page's sentences that no result has."""
    for pattern in _ELSEWHERE:
        text = re.sub(pattern, " … ", text, flags=re.DOTALL)
    return [match[0] for match in _MEASURED.finditer(_NAMES.sub(" ", text))]


# Without what a build has left there.
BUILT = {"auto_examples", "generated", "sg_execution_times.rst"}
GUIDE = [
    path
    for path in sorted((ROOT / "docs").glob("**/*.rst"))
    if not BUILT.intersection(path.parts)
]
# More rows than these are folded, and something shorter says the main thing before.
LONG = 25


def folded(text):
    """Return what a page folds."""
    return "".join(re.findall(r"<details>\n<summary>.*?</details>", text, re.DOTALL))


@pytest.mark.parametrize("path", pages.PAGES, ids=lambda path: path.name)
def test_pages_say_what_the_results_do(path):
    text = path.read_text(encoding="utf-8")
    assert pages.rendered(text, pages.Results()) == text, "python " + pages.__file__
    assert not unfounded(text)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert table.count("\n") <= LONG + 2 or table in folded(text), table[:200]


@pytest.mark.parametrize("path", GUIDE, ids=lambda path: path.name)
def test_the_guide_says_what_the_results_do(path):
    text, results = path.read_text(encoding="utf-8"), pages.Results()
    for figure in re.findall(r":measured:`([^`]*)`", text):
        assert results.figure(figure)
    for table in re.findall(r"(?m)^\.\. measured:: (.*)$", text):
        assert results.table(table).rows
    assert not unfounded(text)


def test_every_result_is_shown_somewhere():
    texts = [path.read_text(encoding="utf-8") for path in [*pages.PAGES, *GUIDE]]
    text = "\n".join(texts)
    names = {path.stem for path in (ROOT / "docs" / "results").glob("*.json")}
    assert names <= set(re.findall(r"\w+", text))


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
0<!--= max(made_up.first["codes a second"]) | ,.0f --> of
0%<!--= sum(n / 100 for n in made_up.first.where(name="b")["bits"]) | .1% -->."""
    after = pages.rendered(page, results)
    assert "python examples/made_up.py --n '1 2'" in after
    assert "X. " in after and "Seeds 0, 1." in after
    assert "| ä | 0.25 ± 0.12 | 1,234 |\n| b | 3.00 ± 0.50 |  |" in after
    assert "It is 2.3<!--= " in after
    assert "\n-1<!--= " in after and "\n1,234<!--= " in after
    assert "\n16.0%<!--= " in after
    assert "old" not in after
    assert pages.rendered(after, results) == after


def test_a_table_and_a_figure_do_not_share_a_name(tmp_path):
    table = result_files.Table({"n": ""})
    with pytest.raises(ValueError, match="'first'.*share a name"):
        result_files.save(tmp_path / "a.json", {"first": table}, {"first": 1})


def test_a_row_is_the_only_one_of_its_values(results):
    with pytest.raises(LookupError, match="0 rows"):
        results.value("made_up.first.at(bits=9)")
    with pytest.raises(LookupError, match="2 rows"):
        results.value("made_up.first.at()")
    assert results.value("made_up.first.at(bits=16)['name']") == "b"
    assert results.value("made_up.first[16, None, 'name']") == "b"
    with pytest.raises(LookupError, match="0 rows have .*'codes a second': 5"):
        results.value("made_up.first[16, 5, 'name']")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("takes 0.41 s and `0.3`", ["0.41"]),
        ("79% of 2 GB, in 3 ms", ["79%", "2 GB", "3 ms"]),
        ("at 64 bits, seed 0, 60,000 rows of section 5.2 with torch 2.13", []),
        ("is 0.9<!--= a.b | .1f --> and\n```\n3.5 s\n```\n", []),
        ("<!-- table: a.b -->\n| 0.5 |\n<!-- end -->", []),
        (":measured:`a.b | .1f`, ``1.5``", []),
        (".. code-block:: python\n\n   3.5\n\n   4.5\n\nof 5.5", ["5.5"]),
        ("thus::\n\n    3.5 s\n\nin 4 s", ["4 s"]),
        ("within 2 9<!--= a.b | .0f --> times", []),
        ("* in 4 s,\n    then 2.5", ["4 s", "2.5"]),
    ],
)
def test_measured_numbers_are_found(text, found):
    assert unfounded(text) == found


def test_commands_name_no_folders_of_a_machine(monkeypatch, tmp_path):
    output = str(ROOT / "docs" / "results" / "a.json")
    words = [tmp_path, "--data-home", tmp_path, "--output", output, "--n", "1e6"]
    words += ["--show", tmp_path / "b.json", tmp_path / "c.json"]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "x.py"), *map(str, words)])
    for name in growing_results.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert growing_results.command() == (
        "OMP_NUM_THREADS=1 python x.py FOLDER --data-home DATA_HOME "
        "--output docs/results/a.json --n 1e6 --show b.json c.json"
    )


def test_what_was_not_known_is_left_out():
    content = {"commands": ["python a.py"], "machine": "", "cores": None, "seeds": []}
    content |= {"date": "2026-11-21", "data": "", "versions": {"numpy": "2.4.6"}}
    result = result_files.Result({**content, "tables": {}, "figures": {}})
    assert result.line() == "2026-11-21. numpy 2.4.6."


def test_what_is_printed_is_what_is_saved(capsys):
    table = result_files.Table({"n": ",", "s": ".2f"}).printed()
    table.add(1000, [1.234, 0.5])
    assert capsys.readouterr().out.strip() == table.markdown()
    assert table.markdown().endswith("| 1,000 | 1.23 ± 0.50 |")


def test_columns_are_named_by_a_text():
    table = result_files.Table({"a": "", "a, s": "", "s": ""}, [["x", 2, 3]])
    assert table.narrowed("a, s, a").markdown() == "| a, s | a |\n|---:|---|\n| 2 | x |"
    with pytest.raises(LookupError, match="'a, b' is not of"):
        table.narrowed("a, b")


def test_merged_results_keep_all_commands(monkeypatch, tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        monkeypatch.setattr(sys, "argv", ["x.py", path.stem])
        growing_results.Results(path).write()
    growing_results.Results(paths[0]).write()
    commands = growing_results.merged(paths)["head"]["commands"]
    found = [command.split("python ")[1] for command in commands]
    assert found == ["x.py a", "x.py b"]
