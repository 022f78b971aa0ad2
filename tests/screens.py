"""A terminal that understands what our progress writes, and no more."""

import re


class Screen:
    """Lines that a terminal shows, however often they are written over.

    `wrapped` are the beginnings of those that were too wide for it.
    """

    def __init__(self, text, width):
        self.lines, self._row, self._column = [""], 0, 0
        self._width = width
        self.wrapped = []
        for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|.", text, flags=re.DOTALL):
            self._take(part)

    def _take(self, part):
        if part == "\r":
            self._column = 0
        elif part == "\n":
            self._row += 1
            self.lines += [""] * (self._row == len(self.lines))
        elif part.startswith("\x1b"):
            self._obey(part)
        else:
            if self._column == self._width:
                self.wrapped.append(self.lines[self._row])
                self._take("\n")
                self._column = 0
            line = self.lines[self._row].ljust(self._column)
            rest = line[self._column + 1 :]
            self.lines[self._row] = line[: self._column] + part + rest
            self._column += 1

    def _obey(self, command):
        if command.endswith("K"):
            assert command == "\x1b[2K"
            self.lines[self._row] = ""
        elif command.endswith("A"):
            self._row -= int(command[2:-1] or 1)
        else:
            assert command.endswith(("m", "h", "l")), repr(command)
