"""Writing files whole or not at all, even when processes compete or are killed."""

import os
import re
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

# The suffix of a file that is being written, after its name and digits.
UNFINISHED = ".part"
# Seconds after which an unfinished file has no writer any more.
ABANDONED = 3600
# Seconds between tries to change a file that may be open elsewhere.
PAUSES = 0.01, 0.02, 0.05, 0.1, 0.2, 0.5


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
            _sync(file.fileno())
        _replace(temporary, path)
    except BaseException as error:
        with suppress(PermissionError):
            _patiently(partial(temporary.unlink, missing_ok=True))
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)
        raise
    _sync_names(path.parent)


def is_unfinished(path: Path, name: str) -> bool:
    """Return whether `path` is an unfinished file `name`, as `replacing` names it."""
    pattern = rf"{re.escape(name)}\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}"
    return re.fullmatch(pattern, path.name) is not None


def _patiently(change) -> None:
    """Call `change`, and again for a second while it lacks permission.

    On Windows nobody may replace or remove a file that is open, for instance for a
    moment to another process that loads it, or to a virus scanner.
    """
    for pause in PAUSES:
        with suppress(PermissionError):
            return change()
        time.sleep(pause)
    return change()


def _replace(temporary: Path, path: Path) -> None:
    try:
        _patiently(partial(os.replace, temporary, path))
    except PermissionError as error:
        reason = (
            "cannot be replaced: it is open or mapped, or you have no permission; "
            "close it, or save to another path"
        )
        raise PermissionError(error.errno, reason, str(path)) from error


def _remove_abandoned(path: Path) -> None:
    # Another writer was done, or removed it, or still has it open.
    with suppress(FileNotFoundError, PermissionError):
        if time.time() - path.lstat().st_mtime > ABANDONED:
            path.unlink()


def _sync(descriptor: int) -> None:
    """Sync a file to the disk; on macOS, where fsync does not, out of its cache too."""
    with suppress(AttributeError, OSError):  # unknown to the system, or the file system
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        return
    os.fsync(descriptor)


def _sync_names(folder: Path) -> None:
    """Sync a directory to the disk, where the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
