"""The command ``skhash``: arguments in, tables out; the work is done elsewhere."""
