"""Tables: for people on a terminal, plain where the output is piped."""

import shutil
import sys
import textwrap

GAP = "  "


def print_table(rows: list[dict[str, str]], dispensable) -> list[str]:
    """Print a table, with the names of its columns in two lines.

    dispensable : columns that a narrow terminal drops, in this order; they are returned
    """
    names = {name: ("", *name.split(" ", 1))[-2:] for name in rows[0]}
    lines = [*zip(*names.values(), strict=True), *(row.values() for row in rows)]
    columns = dict(zip(names, zip(*lines, strict=True), strict=True))
    room, left_out = terminal_width(), []
    widths = {name: max(map(len, cells)) for name, cells in columns.items()}
    for name in dispensable:
        if room is None or sum(widths.values()) + len(GAP) * (len(widths) - 1) <= room:
            break
        if widths.pop(name, None):
            left_out.append(name)
    for cells in zip(*(columns[name] for name in widths), strict=True):
        first, *others = map(str.rjust, cells, widths.values())
        print(GAP.join([first.strip().ljust(len(first)), *others]).rstrip())
    return left_out


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
