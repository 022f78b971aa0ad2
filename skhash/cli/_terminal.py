"""Tables: for people on a terminal, plain where the output is piped."""

import shutil
import sys
import textwrap

GAP = "  "


def print_table(rows: list[dict[str, str]]) -> list[str]:
    """Print a table, with the names of its columns in two lines.

    It returns the names of the last columns, which a narrow terminal has no room for.
    """
    names, room = list(rows[0]), terminal_width()
    heads = zip(*(("", *name.split(" ", 1))[-2:] for name in names), strict=True)
    lines = [*heads, *(list(row.values()) for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    while room is not None and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        widths.pop()
    for cells in lines:
        words = [cells[0].ljust(widths[0])]
        words += map(str.rjust, cells[1:], widths[1:])
        print(GAP.join(words).rstrip())
    return names[len(widths) :]


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
