"""Writing files whole or not at all, even when processes compete or are killed."""

import os
import re
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

# The suffix of a file that is being written, after its name and digits.
UNFINISHED = ".part"
# An unfinished file not written to for so many seconds has no writer any more.
ABANDONED = 3600


@contextmanager
def replacing(path: Path):
    """Yield a file to write, which replaces `path` once it is complete.

    Each writer writes another file, so that the last one to finish wins, whole. Where
    one fails, its file is removed; where one was killed, the next one removes it after
    an hour.

    Write it and do not map it: on a full disk a write raises, but the first touch of
    a mapped page ends the process.
    """
    for other in path.parent.iterdir():
        if is_unfinished(other, path.name):
            _remove_abandoned(other)
    temporary = path.with_name(f"{path.name}.{token_hex(8)}{UNFINISHED}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)
        raise
    _sync_names(path.parent)


def is_unfinished(path: Path, name: str) -> bool:
    """Return whether `path` is an unfinished file `name`, as `replacing` names it."""
    pattern = rf"{re.escape(name)}\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}"
    return re.fullmatch(pattern, path.name) is not None


def _remove_abandoned(path: Path) -> None:
    with suppress(FileNotFoundError):  # another writer was done, or removed it
        if time.time() - path.lstat().st_mtime > ABANDONED:
            path.unlink()


def _sync_names(folder: Path) -> None:
    """Sync a directory to the disk, where the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
