"""Where the files of data sets lie: a folder of the user, then well-known places."""

import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PathLike = str | os.PathLike[str]

DEFAULT_DATA_HOME = Path("~/skhash_data")


def resolve_data_home(data_home: PathLike | None) -> Path:
    """Return the folder that `data_home` names; ``None`` is ``~/skhash_data``."""
    return Path(DEFAULT_DATA_HOME if data_home is None else data_home).expanduser()


def first_file(candidates: Iterable[Path | None], remedy: str) -> Path:
    """Return the first candidate that is a file, or say where it was looked for.

    Parameters
    ----------
    candidates : iterable of Path or None
        Places in order of preference; ``None`` is a place that does not exist here.
    remedy : str
        What the reader of the error should do.

    Raises
    ------
    FileNotFoundError
        If none of the candidates is a file.
    """
    places = [path for path in candidates if path is not None]
    for path in places:
        if path.is_file():
            return path
    looked = ", ".join(str(path) for path in places)
    raise FileNotFoundError(f"None of these files is there: {looked}. {remedy}")


def package_file(package: str, path: str) -> Path | None:
    """Locate a file of an installed distribution, or return ``None``.

    The distribution is never imported: it is a carrier of data, and its own
    dependencies may well be missing.
    """
    try:
        return Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        return None
