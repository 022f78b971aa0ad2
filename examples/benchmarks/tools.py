"""Shared tools of benchmarks: files of results, data, times and pictures.

A benchmark prints its tables, and writes them with the command, the machine, the date
and the seeds to a file that a page includes. One that takes hours keeps what it
measures in a JSON file that grows; an interrupted run loses nothing: started again with
the same file, it resumes.
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import re
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from skhash import SGHEncoder
from skhash.datasets import RetrievalData, load_digits_retrieval

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

from data import (  # noqa: E402, F401
    images,
    load_20newsgroups,
    load_fashion_mnist,
    load_glove,
    load_passages,
    load_sift,
    read_cifar_binary,
)

# Tables


class Table:
    """Rows of cells by column.

    Parameters
    ----------
    formats : dict of str or str
        By column, how a number is written, as of `format`; "" for text. Or a head such
        as "data | mAP :.3f | seeds".
    rows : list of list, optional
        Cells: numbers, texts, None for an empty one, or a list of a number and its
        spread.
    """

    def __init__(self, formats, rows=()):
        self.formats = columns(formats) if isinstance(formats, str) else formats
        self.rows = list(rows)

    def printed(self):
        """Print the table, and return it; rows that are added then follow."""
        print(f"\n{self.markdown()}", flush=True)
        return self

    def add(self, *cells):
        """Add a row, and print it."""
        self.rows.append(list(cells))
        print(self._line(cells), flush=True)

    def markdown(self):
        """Return the table as Markdown, numbers on the right."""
        cells = list(zip(*self.rows, strict=True)) or [[""]] * len(self.formats)
        is_text = [
            form == "" and any(isinstance(cell, str) for cell in own)
            for form, own in zip(self.formats.values(), cells, strict=True)
        ]
        marks = "|" + "".join("---|" if text else "---:|" for text in is_text)
        return "\n".join([self._line(self.formats), marks, *map(self._line, self.rows)])

    def _line(self, cells):
        forms = self.formats.values()
        return f"| {' | '.join(map(_written, cells, forms))} |"


def _written(value, form):
    """Return a cell as text: a number in its format, with its spread if it has one."""
    if isinstance(value, list):
        number, spread = value
        return f"{format(number, form)} ± {format(spread, form.replace('+', ''))}"
    if value is None or isinstance(value, str):
        return value or ""
    return format(value, form)


def columns(text):
    """Return formats by column of a head such as "data | mAP :.3f | seeds"."""
    parts = (part.partition(" :") for part in text.split(" | "))
    return {name: form for name, _, form in parts}


def read_table(path, caption):
    """Return the rows of a table of a file of results, as dictionaries of texts."""
    lines = Path(path).read_text(encoding="utf-8").partition(caption)[2].splitlines()
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), lines)
    lines = itertools.takewhile(lambda line: line.startswith("|"), lines)
    names, _, *rows = ([cell.strip() for cell in it.split("|")[1:-1]] for it in lines)
    return [dict(zip(names, row, strict=True)) for row in rows]


def keep_rows(tables, content, path, n_names):
    """Add the rows of a file of results that were not measured again, and its commands.

    tables : dict of Table, by caption; content : as of `merged`; n_names : the first
    columns, which name what is measured
    """
    text, head = Path(path).read_text(encoding="utf-8"), content["head"]
    for caption, table in tables.items():
        measured = {tuple(map(str, row[:n_names])) for row in table.rows}
        for row in read_table(path, caption) if caption in text else []:
            cells = [row.get(name, "") for name in table.formats]
            if tuple(cells[:n_names]) not in measured:
                cells = [int(cell) if cell.isdigit() else cell for cell in cells]
                table.rows.append(cells)
    kept = re.search("```shell\n(.*?)\n```", text, re.DOTALL)[1].splitlines()
    day = re.search(r"\d{4}-\d\d-\d\d", text)[0]
    kept = [f"# {day}, rows that were not measured again", *kept, f"# {head['date']}"]
    head["commands"] = [*kept, *head["commands"]]


def with_spread(values, less=0.0):
    """Return the mean less a number, with half the range of several values."""
    if not len(values):
        return None
    mean = float(np.mean(values)) - less
    return [mean, float(np.ptp(values)) / 2] if len(values) > 1 else mean


def mean_of(values):
    """Return the mean, None of no values."""
    return float(np.mean(values)) if len(values) else None


# Files of results

# Rows of a table that is not folded: of the first one, and of those behind it.
SHOWN_FIRST, SHOWN = 30, 12
# Those that may take part, and the modules that they are loaded as.
PACKAGES = {"scikit-hash": "skhash", "scikit-learn": "sklearn", "faiss-cpu": "faiss"}
PACKAGES |= {
    name: name
    for name in ("numpy", "numba", "torch", "usearch", "pynear", "rdkit", "FPSim2")
}
# Environment variables that belong to a command.
SETTINGS = (
    *("OMP_NUM_THREADS", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "OPENBLAS_CORETYPE"),
    *("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
)


def options(doc, grows=False, **defaults):
    """Return a parser of the options of a benchmark, by their defaults.

    A list stands for several words of the type of its first, and a dictionary for some
    of its names, all by default; False is a switch, and None a word. `grows` is for
    those with `add_files`; others have `add_output`.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=form)
    for name, default in defaults.items():
        known = default if isinstance(default, dict) else None
        first, *_ = default if isinstance(default, list | dict) else [default]
        kind = {"type": str if first is None else type(first), "choices": known}
        if isinstance(default, list | dict):
            kind["nargs"], default = "+", list(default)
        elif default is False:
            kind = {"action": "store_true"}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **kind)
    (add_files if grows else add_output)(parser)
    return parser


def add_output(parser):
    """Give a benchmark the option of a file of its results."""
    what = "a file of the results for the documentation, docs/results/NAME.md"
    parser.add_argument("--output", type=Path, help=what)


def add_files(parser):
    """Give a benchmark of hours the options of where data and results are."""
    parser.add_argument("--data-home")
    parser.add_argument("--output", type=Path, help="a JSON file that grows")
    parser.add_argument("--show", type=Path, nargs="+", help="such files, for tables")
    parser.add_argument("--results", type=Path, help="a file of the tables")


class Results:
    """Measurements by their names, in a JSON file that grows by each.

    `summary` returns what is printed of a measurement when it is made.
    """

    def __init__(self, path, summary=lambda cell: cell["recalls"]):
        self.path, self.content = path, {"cells": {}, "left_out": {}}
        self.summary = summary
        if path and path.exists():
            self.content = json.loads(path.read_text(encoding="utf-8"))
        before = self.content.get("head", {}).get("commands", [])
        commands = dict.fromkeys([*before, command()])
        self.content["head"] = {**head(), "commands": list(commands)}

    def get(self, name, make):
        """Return the measurement of that name, made now unless it is there.

        Returns None, with the reason printed, where it fails.
        """
        cells, left_out = self.content["cells"], self.content["left_out"]
        if name in cells:
            return cells[name]
        try:
            cells[name] = make()
        except (RuntimeError, ValueError, MemoryError) as error:
            left_out[name] = f"{type(error).__name__}: {error}".split("\n")[0]
            print(f"left out: {name}: {left_out[name]}", file=sys.stderr)
            return None
        left_out.pop(name, None)
        print(f"{name}: {self.summary(cells[name])}", file=sys.stderr, flush=True)
        self.write()
        return cells[name]

    def write(self):
        self.content["head"] |= head()  # of what is loaded by now
        if self.path:
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(self.content, indent=1), encoding="utf-8")
            os.replace(beside, self.path)


def content_of(arguments, sets, run):
    """Return the measurements of `--show`, or of data sets that are there.

    run : callable (name, arguments, results), which measures one set
    """
    if arguments.show:
        return merged(arguments.show)
    results = Results(arguments.output)
    for name in sets:
        try:
            run(name, arguments, results)
        except FileNotFoundError as error:
            print(f"{name} is left out. {error}", file=sys.stderr)
    return results.content


def merged(paths):
    """Return the results of several files as one, with the head of the last.

    Its commands are those of all of them.
    """
    content, commands = {}, []
    for path in paths:
        for name, part in json.loads(path.read_text(encoding="utf-8")).items():
            if isinstance(part, list):
                content[name] = content.get(name, []) + part
            else:
                content[name] = {**content.get(name, {}), **part}
        commands += content.setdefault("head", {}).get("commands", [])
    content["head"]["commands"] = list(dict.fromkeys(commands))
    return content


def save(path, tables, figures=None, *, seeds=(), data="", measured=None):
    """Write what was measured to a file, or print the line above it.

    Parameters
    ----------
    path : path or None
    tables : dict of Table
        By their captions. Long ones are folded.
    figures : dict of float, optional
        Single figures, written as a table of one row.
    seeds : sequence of int, default=()
    data : str, default=""
        The data set, in a few words.
    measured : dict, optional
        The head of what was measured before, as of `head`, with the commands that did
        it; by default it is now, by this command.
    """
    measured = measured or head()
    about = _about(measured, seeds, data)
    if path is None:
        return print(f"\n{about}")
    if figures:
        forms = {k: "," if isinstance(v, int) else ",.4g" for k, v in figures.items()}
        tables = {**tables, "Single figures": Table(forms, [list(figures.values())])}
    commands = "\n".join(dict.fromkeys([*measured.get("commands", []), command()]))
    parts = [f"```shell\n{commands}\n```", about]
    shown = {it.replace("_", " "): table for it, table in tables.items() if table.rows}
    for place, (name, table) in enumerate(shown.items()):
        if len(table.rows) > (SHOWN if place else SHOWN_FIRST):
            parts += [f"<details>\n<summary>{name}</summary>", table.markdown()]
            parts += ["</details>"]
        else:
            parts += [f"**{name}**"] * (len(shown) > 1) + [table.markdown()]
    Path(path).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def print_and_save(tables, content, path, **about):
    """Print tables of measurements that a file keeps, and save them."""
    for name, table in tables.items():
        if table.rows:
            print(f"\n{name}:")
            table.printed()
    save(path, tables, measured=content["head"], **about)


def _about(measured, seeds, data):
    """Return the line that says where, when and with what it was measured."""
    cores = f"{measured['cores']} cores" if measured["cores"] else ""
    parts = [
        data,
        ", ".join(filter(None, [measured["machine"], cores, measured["date"]])),
        f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else "",
        ", ".join(f"{name} {number}" for name, number in measured["versions"].items()),
    ]
    return "*" + " ".join(f"{part.rstrip('.')}." for part in parts if part) + "*"


def head():
    """Return the machine, the date and the versions of what is loaded."""
    loaded = {name: sys.modules.get(module) for name, module in PACKAGES.items()}
    versions = {"Python": platform.python_version()} | {
        name: module.__version__
        for name, module in loaded.items()
        if hasattr(module, "__version__")
    }
    torch = sys.modules.get("torch")
    used = torch and torch.cuda.is_initialized()
    gpu = [torch.cuda.get_device_name()] if used else []
    return {
        "date": str(datetime.date.today()),
        "machine": " and ".join([processor_name(), *gpu]),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def processor_name():
    """Return the name that the system has for the processor."""
    info = Path("/proc/cpuinfo")
    names = re.findall("model name.*: (.*)", info.read_text() if info.exists() else "")
    return names[0] if names else platform.processor() or platform.machine()


def command():
    """Return the command that runs here, without names of folders outside."""
    script, *words = sys.argv
    words = [Path(word).name if Path(word).is_absolute() else word for word in words]
    settings = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    return shlex.join([*settings, "python", os.path.relpath(script, ROOT), *words])


# Times


def seconds_of(call, *arguments, clock=time.perf_counter, **options):
    """Return the seconds that a call takes, and its answer."""
    start = clock()
    answer = call(*arguments, **options)
    return clock() - start, answer


# The same of the processor, in all threads.
cpu_seconds_of = partial(seconds_of, clock=time.process_time)


def turns(calls, rounds, most_seconds=float("inf")):
    """Return the sorted seconds of each call; they take turns, after a first call each.

    Turns in one process let a busy machine harm all alike. A call that has taken
    `most_seconds` is left out of the rounds behind the second.
    """
    seconds = {name: [] for name in calls}
    for call in calls.values():
        call()
    for number in range(rounds):
        for name, call in calls.items():
            if number < 2 or sum(seconds[name]) < most_seconds:
                # Threads of the turn before may spin on for a while.
                time.sleep(0.02)
                seconds[name].append(seconds_of(call)[0])
    return {name: sorted(times) for name, times in seconds.items()}


def medians(calls, rounds):
    """Return the median seconds of each call; they take turns."""
    return {name: median(times) for name, times in turns(calls, rounds).items()}


# Data


def tfidf_axes(texts, other_texts, **words):
    """Return 256 axes of tf-idf of texts and of others, rows of unit length."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    words = TfidfVectorizer(stop_words="english", sublinear_tf=True, **words)
    axes = make_pipeline(words, TruncatedSVD(256, random_state=0), Normalizer())
    rows = axes.fit_transform(texts), axes.transform(other_texts)
    return tuple(map(np.float32, rows))


def load_tfidf(data_home=None):
    """Load 20 Newsgroups as 256 components of tf-idf, rows of unit length."""
    texts = load_20newsgroups("texts", data_home=data_home)
    database, query = tfidf_axes(texts.database, texts.query, max_features=10_000)
    return RetrievalData("20newsgroups-tfidf", "cosine", database, database, query)


SETS = {
    "digits": ("digits, 8 x 8", lambda data_home=None: load_digits_retrieval()),
    "tfidf": ("20 Newsgroups, tf-idf", load_tfidf),
    "minilm": ("MiniLM sentence embeddings", partial(load_20newsgroups, "minilm")),
    "fashion_mnist": ("Fashion-MNIST images", load_fashion_mnist),
    "passages": ("MiniLM embeddings of passages", load_passages),
    "sift": ("SIFT, wallpapers", load_sift),
    "glove": ("GloVe word vectors", load_glove),
    "glove_100k": ("GloVe word vectors, 100 000", partial(load_glove, 100_000)),
}
TITLES = {name: title for name, (title, _) in SETS.items()}
LOADERS = {name: load for name, (_, load) in SETS.items()}
# Rows that the encoder of words is fitted to, and rows that are mixed at a time.
N_TRAIN, BLOCK = 20_000, 100_000


class WordCodes:
    """SGH codes of GloVe words, and of sums of two random words where they are too few.

    Queries are words that are held out.
    """

    def __init__(self, n_bits, seed=0, n_queries=1000, data_home=None):
        self.words = load_glove(n_queries=n_queries, data_home=data_home)
        self.encoder = SGHEncoder(n_bits, random_state=seed)
        self.encoder.fit(self.words.train[:N_TRAIN])
        self.queries = self.encoder.transform_packed(self.words.query)

    def sums(self, n, rng):
        """Yield packed codes of sums of two words, block by block."""
        words = self.words.database
        for start in range(0, n, BLOCK):
            first, second = rng.integers(0, len(words), (2, min(BLOCK, n - start)))
            rows = words[first] + words[second]
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
            yield self.encoder.transform_packed(rows)

    def codes(self, n, rng):
        """Return n packed codes."""
        words = self.encoder.transform_packed(self.words.database[:n])
        return np.concatenate([words, *self.sums(n - len(words), rng)])


# Pictures

# Lines and letters on dark pages.
ON_DARK = "#ced6dd"


def panels(titles, n_columns=3, size=(3.8, 3.8), **options):
    """Return a figure and an axes for each title, with room for a legend.

    The room is a panel that is left over, or beside all of them.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"font.size": 12, "svg.hashsalt": "skhash"}
    n_columns = min(n_columns, len(titles))
    n_rows = -(-len(titles) // n_columns)
    beside = 1.8 * (len(titles) == n_rows * n_columns)
    options |= {"figsize": (size[0] * n_columns + beside, size[1] * n_rows)}
    options |= {"squeeze": False, "layout": "constrained"}
    figure, axes = plt.subplots(n_rows, n_columns, **options)
    for ax in axes.flat[len(titles) :]:
        ax.set_axis_off()
    for ax, title in zip(axes.flat, titles, strict=False):
        ax.set_title(title)
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes.flat[: len(titles)]


def powers_of_two(ax, ticks):
    """Let an axis of sizes double from tick to tick."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()


def finish(figure, path):
    """Write the figure with a legend of the labels of all panels, each once.

    Of an SVG there are two, for light pages and, as NAME-dark.svg, for dark ones.
    """
    named = {}
    for ax in figure.axes:
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    if named:
        free = [ax for ax in figure.axes if not ax.axison]
        place = free[0].legend if free else figure.legend
        where = "center" if free else "outside right center"
        place(named.values(), named, loc=where, frameon=False)
    path = Path(path)
    if path.suffix != ".svg":
        figure.savefig(path, dpi=130)
    else:
        options = {"transparent": True, "metadata": {"Date": None}}
        figure.savefig(path, **options)
        for part in figure.findobj(lambda it: getattr(it, "_color", 0) == "black"):
            part.set_color(ON_DARK)
        for ax in figure.axes:
            ax.spines[:].set_color(ON_DARK)
        figure.savefig(path.with_stem(f"{path.stem}-dark"), **options)
