"""Tables and progress: for people on a terminal, plain where the output is piped."""

import sys
import textwrap
from contextlib import contextmanager

from skhash.utils.progress import terminal_width

GAP = "  "
# Of the first column, whose cells begin at the left, and the least one of the others.
FIRST_WIDTH, LEAST_WIDTH = 8, 5


class Table:
    """A table that is printed a row at a time; a wide cell moves the rest of its row.

    Parameters
    ----------
    names : iterable of str
        Those of the columns, from left to right.
    dispensable : tuple of str
        Columns that a terminal too narrow for all does without, the first one first.

    Attributes
    ----------
    left_out : list of str
        The names of the columns that were left out.
    """

    def __init__(self, names, dispensable=()):
        self._widths = {name: max(len(name), LEAST_WIDTH) for name in names}
        self._widths[next(iter(self._widths))] = FIRST_WIDTH
        self.left_out: list[str] = []
        for name in dispensable:
            width = sum(self._widths.values()) + len(GAP) * (len(self._widths) - 1)
            if terminal_width() is None or width <= terminal_width():
                break
            if self._widths.pop(name, None) is not None:
                self.left_out.append(name)

    def print_header(self) -> None:
        """Print the names of the columns."""
        self.print_row({name: name for name in self._widths})

    def print_row(self, cells: dict[str, str]) -> None:
        """Print the cells that are in columns of the table."""
        (first, width), *others = self._widths.items()
        line = [cells[first].ljust(width)]
        line += [cells[name].rjust(width) for name, width in others]
        print(GAP.join(line).rstrip(), flush=True)


def print_text(text: str) -> None:
    """Print a paragraph: in lines that fit a terminal, in one line elsewhere."""
    width = terminal_width()
    if width is not None:
        # Paths and option names stay whole, so that they can be copied.
        options = {"break_long_words": False, "break_on_hyphens": False}
        text = textwrap.fill(text, width, **options)
    print(text)


@contextmanager
def progress():
    """Yield a function that shows a line of progress on the terminal's standard error.

    By rich the line replaces the one before, and an empty one shows nothing: before
    something else is printed. Without rich lines are printed. Where standard error is
    no terminal, nothing is shown.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda line: None
        return
    try:
        from rich import progress as bars
        from rich.console import Console
    except ImportError:
        yield lambda line: print(line, file=sys.stderr) if line else None
        return
    line = bars.TextColumn("{task.description}", markup=False)
    columns = bars.SpinnerColumn(), line, bars.TimeElapsedColumn()
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def show(line):
            (bar.start if line else bar.stop)()
            bar.update(task, description=line, refresh=bool(line))

        yield show


@contextmanager
def nothing():
    """Yield a function as `progress` does, which shows nothing."""
    yield lambda line: None
