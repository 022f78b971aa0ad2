"""Checks of where files are to be written, made beforehand."""

import os
import shutil
import tempfile
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
