"""Tables and progress: for people on a terminal, plain where the output is piped."""

import sys
import textwrap
from contextlib import contextmanager

from skhash.utils.progress import terminal_width

GAP = "  "


class Table:
    """A table of right-aligned columns, the first one left-aligned, a row at a time.

    On a terminal it is made to fit. Elsewhere columns are padded with spaces and
    nothing else is written, so that programs can read it.

    Parameters
    ----------
    widths : dict of int
        The columns, and how wide their cells are. A wider cell moves the rest of its
        row.
    dispensable : tuple of str, default=()
        Names of columns that may be left out where the terminal is too narrow, the
        first one first.

    Attributes
    ----------
    left_out : list of str
        The names of the columns that were left out.
    """

    def __init__(self, widths: dict[str, int], dispensable: tuple[str, ...] = ()):
        self._widths = {name: max(len(name), n) for name, n in widths.items()}
        self.left_out: list[str] = []
        terminal = terminal_width()
        for name in dispensable:
            if terminal is None or self._width <= terminal:
                break
            if self._widths.pop(name, None) is not None:
                self.left_out.append(name)

    def print_header(self) -> None:
        """Print the names of the columns, and on a terminal a line below."""
        self.print_row({name: name for name in self._widths})
        if terminal_width() is not None:
            print("-" * self._width, flush=True)

    def print_row(self, cells: dict[str, str]) -> None:
        """Print the cells that are in columns of the table."""
        (first, width), *others = self._widths.items()
        line = [cells[first].ljust(width)]
        line += [cells[name].rjust(width) for name, width in others]
        print(GAP.join(line).rstrip(), flush=True)

    @property
    def _width(self) -> int:
        return sum(self._widths.values()) + len(GAP) * (len(self._widths) - 1)


def print_text(text: str) -> None:
    """Print a paragraph: in lines that fit a terminal, in one line elsewhere."""
    width = terminal_width()
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

    The line replaces the one before and is gone at the end, and as long as an empty one
    is shown: before something else is printed. Where standard error is no terminal,
    nothing is shown.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        with nothing() as show:
            yield show
    elif _rich() is None:
        with _overwritten_line() as show:
            yield show
    else:
        with _spinner() as show:
            yield show


@contextmanager
def nothing():
    """Yield what `progress` does, and show nothing."""
    yield lambda line: None


def _rich():
    try:
        import rich
    except ImportError:
        return None
    return rich


@contextmanager
def _spinner():
    """Yield a function that shows a line beside something that turns, or hides both."""
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:

        def show(line):
            # Behind what turns and a space; longer, it would take two lines.
            status.update(Text(line[: terminal_width(sys.stderr) - 3]))
            (status.start if line else status.stop)()

        yield show


@contextmanager
def _overwritten_line():
    """Yield a function that writes a line over the one before; it ends blank.

    A line is cut to the terminal's width: only within one can it be written over.
    """
    length = 0

    def show(line):
        nonlocal length
        line = line[: terminal_width(sys.stderr) - 1]
        end = "" if line else "\r"
        print(f"\r{line:<{length}}", end=end, file=sys.stderr, flush=True)
        length = len(line)

    try:
        yield show
    finally:
        show("")
