"""Tables and progress: for people on a terminal, plain where the output is piped."""

import shutil
import sys
import textwrap
from contextlib import contextmanager

GAP = "  "


def print_table(
    header: list[str],
    rows: list[list[str]],
    marked: int | None = None,
    dispensable: tuple[str, ...] = (),
) -> list[str]:
    """Print a table of right-aligned columns, the first one left-aligned.

    On a terminal it is made to fit, and `rich`, where it is installed, shows row
    `marked` in bold. Elsewhere columns are padded with spaces and nothing else is
    written, so that programs can read it.

    Parameters
    ----------
    header : list of str
    rows : list of list of str
    marked : int, default=None
        The row to show in bold.
    dispensable : tuple of str, default=()
        Names of columns that may be left out where the terminal is too narrow, the
        first one first.

    Returns
    -------
    left_out : list of str
        The names of the columns that were left out.
    """
    columns = dict(zip(header, zip(header, *rows, strict=True), strict=True))
    left_out = []
    width = _width()
    if width is not None:
        for name in dispensable:
            if _table_width(columns.values()) <= width:
                break
            if columns.pop(name, None) is not None:
                left_out.append(name)
    lines = _table_lines(list(columns.values()))
    if sys.stdout.isatty() and _rich() is not None:
        _print_styled(lines, marked)
    else:
        print("\n".join(lines))
    return left_out


def print_text(text: str) -> None:
    """Print a paragraph: in lines that fit a terminal, in one line elsewhere."""
    width = _width()
    if width is None:
        print(text)
    else:
        # Paths and option names stay whole, so that they can be copied.
        print(
            textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
        )


@contextmanager
def progress():
    """Yield a function that shows a line of progress on the terminal's standard error.

    The line replaces the one before and is gone at the end. Where standard error is no
    terminal, nothing is shown.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda line: None
    elif _rich() is None:
        with _overwritten_line() as show:
            yield show
    else:
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield status.update


def _rich():
    try:
        import rich
    except ImportError:
        return None
    return rich


def _width() -> int | None:
    """Return the columns of the terminal, or None where standard output is none."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, 20)


def _table_width(columns) -> int:
    widths = [max(map(len, cells)) for cells in columns]
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _table_lines(columns: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in columns]
    padded = [[cell.ljust(widths[0]) for cell in columns[0]]]
    for cells, width in zip(columns[1:], widths[1:], strict=True):
        padded.append([cell.rjust(width) for cell in cells])
    return [GAP.join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _print_styled(lines: list[str], marked: int | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    header, *rows = lines
    console.print(Text(header, "bold"))
    dash = "─" if console.encoding.startswith("utf") else "-"
    console.print(dash * max(map(len, lines)))
    for number, line in enumerate(rows):
        console.print(Text(line, "bold green" if number == marked else ""))


@contextmanager
def _overwritten_line():
    """Yield a function that writes a line over the one before; it ends blank."""
    length = 0

    def show(line):
        nonlocal length
        print(f"\r{line:<{length}}", end="", file=sys.stderr, flush=True)
        length = len(line)

    try:
        yield show
    finally:
        show("")
        print("\r", end="", file=sys.stderr, flush=True)
