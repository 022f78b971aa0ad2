"""Tables and progress: for people on a terminal, plain where the output is piped."""

import sys
from contextlib import contextmanager


def print_table(header: list[str], rows: list[list[str]], marked: int | None = None):
    """Print a table of right-aligned columns, the first one left-aligned.

    On a terminal `rich` draws it, where it is installed, with row `marked` in bold.
    Elsewhere the columns are padded with spaces and nothing else is written.
    """
    if sys.stdout.isatty() and _rich() is not None:
        _print_rich_table(header, rows, marked)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        print("  ".join(cells).rstrip())


@contextmanager
def progress():
    """Yield a function that shows a line of progress on the terminal's standard error.

    The line replaces the one before and is gone at the end. Where standard error is no
    terminal, nothing is shown.
    """
    if not sys.stderr.isatty():
        yield lambda line: None
    elif _rich() is None:
        yield lambda line: print(line, file=sys.stderr)
    else:
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield lambda line: status.update(line)


def _rich():
    try:
        import rich
    except ImportError:
        return None
    return rich


def _print_rich_table(header, rows, marked):
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for number, row in enumerate(rows):
        table.add_row(*row, style="bold green" if number == marked else None)
    Console().print(table)
