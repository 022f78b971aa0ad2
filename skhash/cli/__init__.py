"""The command ``skhash``: arguments in, tables out; the work is done elsewhere."""

from skhash.cli._main import main

__all__ = ["main"]
