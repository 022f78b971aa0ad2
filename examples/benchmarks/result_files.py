"""Tables of a benchmark, and the file by which the documentation shows them.

A benchmark prints its tables, and with ``--output docs/results/NAME.md`` writes the
same ones with the command, the machine, the date and the seeds. A page includes it.
"""

import itertools
from pathlib import Path

import numpy as np
from growing_results import command, head

# Rows of a table that is not folded: of the first one, and of those behind it.
SHOWN_FIRST, SHOWN = 25, 12


class Table:
    """Rows of cells by column.

    Parameters
    ----------
    formats : dict of str
        By column, how a number is written, as of `format`; "" for text.
    rows : list of list, optional
        Cells: numbers, texts, None for an empty one, or a list of a number and its
        spread.
    """

    def __init__(self, formats, rows=()):
        self.formats, self.rows = formats, list(rows)

    @classmethod
    def of(cls, records, **formats):
        """Make a table of dictionaries, with formats for columns that have any."""
        columns = {name: formats.get(name, "") for name in records[0]}
        return cls(columns, [[one.get(name) for name in columns] for one in records])

    def printed(self):
        """Print the table, and return it; rows that are added then follow."""
        print(f"\n{self.markdown()}", flush=True)
        return self

    def add(self, *cells):
        """Add a row, and print it."""
        self.rows.append(list(cells))
        print(_line(self._cells(cells)), flush=True)

    def markdown(self):
        """Return the table as Markdown, numbers on the right."""
        columns = zip(self.formats.values(), zip(*self.rows, strict=True), strict=False)
        is_text = [
            form == "" and any(isinstance(cell, str) for cell in cells)
            for form, cells in columns
        ] or [form == "" for form in self.formats.values()]
        marks = "".join("---|" if text else "---:|" for text in is_text)
        lines = [_line(self.formats), "|" + marks]
        return "\n".join(lines + [_line(self._cells(row)) for row in self.rows])

    def _cells(self, row):
        return [_written(*it) for it in zip(row, self.formats.values(), strict=True)]


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _written(value, form):
    """Return a cell as text: a number in its format, with its spread if it has one."""
    if isinstance(value, list):
        number, spread = value
        return f"{format(number, form)} ± {format(spread, form.replace('+', ''))}"
    if value is None or isinstance(value, str):
        return value or ""
    return format(value, form)


def read_table(path, caption):
    """Return the rows of a table of a file of results, as dictionaries of texts."""
    lines = Path(path).read_text(encoding="utf-8").partition(caption)[2].splitlines()
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), lines)
    lines = itertools.takewhile(lambda line: line.startswith("|"), lines)
    names, _, *rows = ([cell.strip() for cell in it.split("|")[1:-1]] for it in lines)
    return [dict(zip(names, row, strict=True)) for row in rows]


def columns(text):
    """Return formats by column of a head such as "data | mAP :.3f | seeds"."""
    parts = (part.partition(" :") for part in text.split(" | "))
    return {name: form for name, _, form in parts}


def print_all(tables):
    for name, table in tables.items():
        print(f"\n{name}:")
        table.printed()


def with_spread(values, less=0.0):
    """Return the mean less a number, with half the range of several values."""
    if not len(values):
        return None
    mean = float(np.mean(values)) - less
    return [mean, float(np.ptp(values)) / 2] if len(values) > 1 else mean


def mean_of(values):
    """Return the mean, None of no values."""
    return float(np.mean(values)) if len(values) else None


def add_files(parser):
    """Give a benchmark of hours the options of where data and results are."""
    parser.add_argument("--data-home")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, help="a JSON file that grows")
    parser.add_argument("--show", type=Path, nargs="+", help="output files to print")
    parser.add_argument("--results", type=Path, help="a file of the tables")


def add_output(parser):
    """Give a benchmark the option of a file of its results."""
    what = "a file of the results for the documentation, docs/results/NAME.md"
    parser.add_argument("--output", type=Path, help=what)


def save(path, tables, figures=None, *, seeds=(), data="", measured=None):
    """Write what was measured to a file, or nothing where `path` is None.

    Parameters
    ----------
    path : path or None
    tables : dict of Table
        By their captions. Long ones are folded.
    figures : dict of float, optional
        Single figures, written as a table of one row.
    seeds : sequence of int, default=()
    data : str, default=""
        What was measured on, in a few words.
    measured : dict, optional
        The head of what was measured before, as of `growing_results.head`, with the
        commands that did it; by default it is now, by this command.
    """
    if path is None:
        return
    measured = measured or head()
    commands = [*measured.get("commands", []), command()]
    if figures:
        figures = dict(_flat(figures))
        forms = {k: "," if isinstance(v, int) else ",.4g" for k, v in figures.items()}
        row = Table(forms, [list(figures.values())])
        tables = {**tables, "Single figures": row}
    parts = [
        "```shell\n" + "\n".join(commands) + "\n```",
        _about(measured, seeds, data),
    ]
    shown = {it.replace("_", " "): table for it, table in tables.items() if table.rows}
    for place, (name, table) in enumerate(shown.items()):
        if len(table.rows) > (SHOWN if place else SHOWN_FIRST):
            parts += [f"<details>\n<summary>{name}</summary>", table.markdown()]
            parts += ["</details>"]
        else:
            parts += [f"**{name}**"] * (len(shown) > 1) + [table.markdown()]
    Path(path).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _flat(figures, start=""):
    """Yield figures by their names; those of a dictionary begin with its own."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{start}{name}, ")
        else:
            yield start + name, value


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
