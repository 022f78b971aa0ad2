"""Files that are whole or absent, and what is known before they are written."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path


def check_writable(folder: Path) -> None:
    """Raise ``ValueError`` unless files can be made in a folder, new ones in turn."""
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise ValueError(f"{nearest} is a file; name a directory.")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise ValueError(f"{nearest} cannot be written to: {error.strerror}.") from None


def check_space(path: Path, n_bytes: int) -> None:
    """Raise ``ValueError`` where the disk cannot take so many bytes."""
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        raise ValueError(
            f"{path} takes {n_bytes:,} bytes, and its disk has {free:,} left."
        )


@contextmanager
def replacing(path: Path):
    """Yield a file to write, which takes the place of `path` once it is complete.

    Write it and do not map it: on a full disk a write raises, but the first touch of
    a mapped page ends the process.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)
        raise
