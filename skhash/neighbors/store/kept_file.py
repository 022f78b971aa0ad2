"""A file of vectors that stays the user's: an index names it and copies nothing."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class KeptFile:
    """A ``.npy`` file, by its absolute path, and the SHA-256 that it had."""

    path: str
    sum: str

    @classmethod
    def of(cls, path):
        """Return the file at `path` as it is now."""
        path = str(Path(path).resolve())
        return cls(path, _sum_of(path))

    def open(self):
        """Return its rows as a memory map."""
        _check_is_file(self.path)
        rows = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if not isinstance(rows, np.memmap):
            raise ValueError(f"{self.path} is no .npy file of one array.")
        return rows

    def check(self) -> None:
        """Raise ``ValueError`` if the content changed."""
        if _sum_of(self.path) != self.sum:
            raise ValueError(
                f"{self.path} is not what it was when it was indexed; fit again."
            )


def _sum_of(path) -> str:
    _check_is_file(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_is_file(path):
    if not Path(path).is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"There is no file {path}, of vectors that are kept.")
