"""What a benchmark measured, as the file that the documentation takes its figures from.

A benchmark prints its tables, and with ``--output docs/results/NAME.json`` saves the
same ones, with single figures, the command, the machine, the date and the seeds;
``pages.py`` writes them into the pages.
"""

import functools
import json
import operator
import os
import re
from pathlib import Path

from growing_results import command, head


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

    def printed(self):
        """Print the table, and return it; rows that are added then follow."""
        print(f"\n{self.markdown()}", flush=True)
        return self

    def add(self, *cells):
        """Add a row, and print it."""
        self.rows.append(list(cells))
        print(_line(self.cells(self.rows[-1])), flush=True)

    @classmethod
    def of(cls, records, **formats):
        """Make a table of dictionaries, with formats for columns that have any."""
        columns = {name: formats.get(name, "") for name in records[0]}
        return cls(columns, [[one.get(name) for name in columns] for one in records])

    def __getitem__(self, key):
        """Return the cells of a column that are not empty, or one of a row.

        ``table["PQ", 8, "recall"]`` is that of the only row that begins with "PQ", 8.
        """
        if isinstance(key, tuple):
            *start, column = key
            return self.at(zip(self.formats, start, strict=False))[column]
        position = list(self.formats).index(key)
        return [row[position] for row in self.rows if row[position] is not None]

    def where(self, named=(), **equal):
        """Return a table of the rows whose cells have the values given.

        Columns that are no Python names stand in the dictionary `named`.
        """
        columns, wanted = list(self.formats), {**dict(named), **equal}
        places = {columns.index(name): value for name, value in wanted.items()}
        rows = [
            row
            for row in self.rows
            if all(row[place] == value for place, value in places.items())
        ]
        return Table(self.formats, rows)

    def at(self, named=(), **equal):
        """Return the only row, as a dictionary, whose cells have the values given."""
        named = dict(named)
        rows = self.where(named, **equal).rows
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows have {named | equal}")
        return dict(zip(self.formats, rows[0], strict=True))

    def narrowed(self, text):
        """Return a table of the columns that a text names, separated by commas."""
        longest_first = sorted(self.formats, key=len, reverse=True)
        names = re.findall("|".join(map(re.escape, longest_first)), text)
        if ", ".join(names) != text:
            raise LookupError(f"{text!r} is not of the columns {[*self.formats]}")
        places = [list(self.formats).index(name) for name in names]
        formats = {name: self.formats[name] for name in names}
        return Table(formats, [[row[place] for place in places] for row in self.rows])

    def markdown(self):
        """Return the table as Markdown, numbers on the right."""
        marks = "".join(
            "---:|" if self._is_number(it) else "---|" for it in self.formats
        )
        lines = [_line(self.formats), "|" + marks]
        return "\n".join([*lines, *(_line(self.cells(row)) for row in self.rows)])

    def cells(self, row):
        """Return the cells of a row as texts."""
        return [written(*it) for it in zip(row, self.formats.values(), strict=True)]

    def _is_number(self, column):
        cells = self[column]
        return self.formats[column] != "" or (
            cells != [] and not any(isinstance(cell, str) for cell in cells)
        )


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def written(value, form=""):
    """Return a cell as text: a number in its format, with its spread if it has one."""
    if value is None:
        return ""
    if isinstance(value, list):
        number, spread = value
        return f"{format(number, form)} ± {format(spread, form.replace('+', ''))}"
    return value if isinstance(value, str) else format(value, form)


class Result:
    """A file of results: tables and single figures are attributes."""

    def __init__(self, content):
        self.content = content
        for name, table in content["tables"].items():
            setattr(self, name, Table(table["formats"], table["rows"]))
        vars(self).update(content["figures"])

    @classmethod
    def read(cls, path):
        return cls(json.loads(Path(path).read_text(encoding="utf-8")))

    def about(self):
        """Return the commands, and the line that says where, when and with what."""
        commands = "\n".join(self.content["commands"])
        return f"```shell\n{commands}\n```\n\n*{self.line()}*"

    def line(self):
        """Return where, when and with what it was measured, as far as it is known."""
        it = self.content
        seeds = ", ".join(map(str, it["seeds"]))
        place = [it["machine"], f"{it['cores']} cores" if it["cores"] else ""]
        parts = [
            it["data"],
            ", ".join(filter(None, [*place, it["date"]])),
            f"Seed{'s' if len(it['seeds']) > 1 else ''} {seeds}" if seeds else "",
            ", ".join(f"{name} {number}" for name, number in it["versions"].items()),
        ]
        return " ".join(f"{part.rstrip('.')}." for part in parts if part)


def add_output(parser):
    """Give a benchmark the option of a file of its results."""
    what = "a file of the results for the documentation, docs/results/NAME.json"
    parser.add_argument("--output", type=Path, help=what)


def save(path, tables, figures=None, *, seeds=(), data="", measured=None):
    """Write what was measured to a file, or nothing where `path` is None.

    Parameters
    ----------
    path : path or None
    tables : dict of Table
        By names that are Python names.
    figures : dict of float, optional
        Single figures, which texts quote.
    seeds : sequence of int, default=()
    data : str, default=""
        What was measured on, in a few words.
    measured : dict, optional
        The head of what was measured before, as of `growing_results.head`, with the
        commands that did it; by default it is now, by this command.
    """
    if path is None:
        return
    if not tables.keys().isdisjoint(figures or {}):
        raise ValueError(f"Tables {[*tables]} and figures {[*figures]} share a name.")
    measured = measured or head()
    content = {
        "commands": [*measured.get("commands", []), command()],
        **{name: measured[name] for name in ("date", "machine", "cores", "versions")},
        "seeds": list(seeds),
        "data": data,
        "figures": figures or {},
    }
    beside = Path(path).with_suffix(".new")
    beside.write_text(_text(content, tables), encoding="utf-8")
    os.replace(beside, path)


def _text(content, tables):
    """Return JSON with a line a row of each table, so that changes can be read."""
    dump = functools.partial(
        json.dumps, ensure_ascii=False, default=operator.methodcaller("item")
    )
    shown = [
        f'  {dump(name)}: {{"formats": {dump(table.formats)}, "rows": [\n   '
        + ",\n   ".join(map(dump, table.rows))
        + "\n  ]}"
        for name, table in tables.items()
    ]
    start = dump(content, indent=1).removesuffix("\n}")
    return start + ',\n "tables": {\n' + ",\n".join(shown) + "\n }\n}\n"
