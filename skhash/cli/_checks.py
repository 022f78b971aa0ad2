"""Checks before the work starts."""

import os
import tempfile
from pathlib import Path

from skhash.utils.lazy import torch
from skhash.utils.torch import resolve_device


def check_device(name: str) -> None:
    """Raise ``ValueError`` where torch cannot compute on the device."""
    device = resolve_device(name)
    try:
        torch.zeros(1, device=device).cpu()
    # A device that is missing something raises any exception.
    except Exception as error:
        raise ValueError(f"--device {name} cannot be used here: {error}") from error


def reading_options(arguments) -> dict:
    """Return what is given of the options of `open_vectors`."""
    given = {name: getattr(arguments, name) for name in ("column", "name", "keep_ids")}
    return {name: value for name, value in given.items() if value not in (None, False)}


def check_writable(folder: Path) -> None:
    """Raise ``ValueError`` unless files can be made in a folder, new ones in turn."""
    above = (path for path in (folder, *folder.parents) if os.path.lexists(path))
    nearest = next(above, None)
    if nearest is None:
        raise ValueError(f"{folder} is on a drive that does not exist; name another.")
    if not nearest.is_dir():
        raise ValueError(f"{nearest} is a file; name a directory.")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise ValueError(f"{nearest} cannot be written to: {error.strerror}.") from None
