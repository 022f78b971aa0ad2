"""What a benchmark measured, as the file that the documentation takes its figures from.

A benchmark saves tables and single figures to ``docs/results/NAME.json``, with the
command, the machine, the date and the seeds; ``pages.py`` writes them into the pages.
"""

import functools
import json
import operator
import os
import shlex
import sys
from pathlib import Path

from growing_results import head


class Table:
    """Rows of cells by column.

    Parameters
    ----------
    formats : dict of str
        By column, how a number is written, as of `format`; "" for text.
    rows : list of list
        Cells: numbers, texts, None for an empty one, or a list of a number and its
        spread.
    """

    def __init__(self, formats, rows):
        self.formats, self.rows = formats, rows

    @classmethod
    def of(cls, records, **formats):
        """Make a table of dictionaries, with formats for columns that have any."""
        columns = {name: formats.get(name, "") for name in records[0]}
        return cls(columns, [[one.get(name) for name in columns] for one in records])

    def __getitem__(self, column):
        """Return the cells of a column that are not empty."""
        position = list(self.formats).index(column)
        return [row[position] for row in self.rows if row[position] is not None]

    def at(self, where=(), **equal):
        """Return the only row, as a dictionary, whose cells have the values given.

        Columns that are no Python names stand in the dictionary `where`.
        """
        equal = {**dict(where), **equal}
        records = [dict(zip(self.formats, row, strict=True)) for row in self.rows]
        found = [it for it in records if equal.items() <= it.items()]
        if len(found) != 1:
            raise LookupError(f"{len(found)} rows have {equal}")
        return found[0]

    def markdown(self, columns=None):
        """Return the table, or the named columns of it, as Markdown."""
        columns = list(columns or self.formats)
        lines = [columns, ["---"] * len(columns)]
        for row in self.rows:
            cells = dict(zip(self.formats, row, strict=True))
            lines.append([written(cells[it], self.formats[it]) for it in columns])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def written(value, form=""):
    """Return a cell as text: a number in its format, with its spread if it has one."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " ± ".join(format(it, form) for it in value)
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
        it = self.content
        seeds = it["seeds"]
        parts = [it["data"]] if it["data"] else []
        parts.append(f"{it['machine']}, {it['cores']} cores, {it['date']}")
        if seeds:
            names = ", ".join(map(str, seeds))
            parts.append(f"seed{'s' if len(seeds) > 1 else ''} {names}")
        parts.append(", ".join(f"{k} {v}" for k, v in it["versions"].items()))
        commands = "\n".join(it["commands"])
        return f"```shell\n{commands}\n```\n\n*{'. '.join(parts)}.*"


def save(path, tables, figures=None, *, seeds=(), data=""):
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
    """
    if path is None:
        return
    content = {
        "commands": [shlex.join(["python", *_relative(sys.argv)])],
        **head(),
        "seeds": list(seeds),
        "data": data,
        "figures": figures or {},
    }
    beside = Path(path).with_suffix(".new")
    beside.write_text(_text(content, tables), encoding="utf-8")
    os.replace(beside, path)


def _relative(arguments):
    script = Path(arguments[0]).resolve()
    root = Path(__file__).resolve().parents[2]
    name = script.relative_to(root) if script.is_relative_to(root) else script
    return [name.as_posix(), *arguments[1:]]


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
