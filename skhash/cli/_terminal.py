"""Tables: for people on a terminal, plain where the output is piped."""

import shutil
import sys
import textwrap

GAP = "  "
# Widths: of the first column, whose cells are aligned left, and the least of others.
FIRST_WIDTH, LEAST_WIDTH = 8, 5


def widths_of(names, dispensable) -> dict[str, int]:
    """Return the columns of a table that fit a terminal, with their widths.

    dispensable : columns that a narrow terminal drops, in this order
    """
    first, *others = names
    widths = {first: FIRST_WIDTH} | {one: max(len(one), LEAST_WIDTH) for one in others}
    room = terminal_width()
    for name in dispensable:
        if room is None or len(GAP.join("x" * n for n in widths.values())) <= room:
            break
        widths.pop(name, None)
    return widths


def print_row(cells: dict[str, str], widths: dict[str, int]) -> None:
    """Print the cells of the columns that have a width; a wide one moves the rest."""
    (first, width), *others = widths.items()
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


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None if the output is not one."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, 20)
