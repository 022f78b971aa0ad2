"""``python -m skhash``: the same as the command ``skhash``."""

from skhash.cli._main import main

if __name__ == "__main__":
    raise SystemExit(main())
