"""``skhash check``: say whether saved files are whole."""

from pathlib import Path

from skhash.persistence import load
from skhash.persistence.estimators import FILE


def run_check(arguments) -> None:
    """Load what was saved at a directory or below it, and say what it is.

    Raises
    ------
    FileNotFoundError
        If there is nothing that was saved.
    ValueError
        If a file is not whole.
    """
    folder = Path(arguments.folder)
    found = sorted(file.parent for file in folder.rglob(FILE))
    for path in found or [folder]:
        estimator = load(path)
        if not arguments.quiet:
            print(f"{path}: a {type(estimator).__name__}, whole")
