"""A file of vectors that stays the user's: an index names it and copies nothing."""

import hashlib
import math
from pathlib import Path

import numpy as np

from skhash.datasets import open_vectors

# Of files that `open_vectors` maps, and no others are opened.
SUFFIXES = tuple(".npy .fvecs .bvecs .ivecs .fbin .u8bin .i8bin .safetensors".split())


class KeptFile:
    """Rows of a file, which are mapped, as the column of a store.

    Saved and pickled are its absolute path, its SHA-256, and which rows these are. A
    store compares the checksum before it reads rows of a file that was opened again:
    the one that is mapped, even if another one has its name meanwhile.

    Parameters
    ----------
    path : path-like
    sum : str, default=None
        The checksum that the file had.
    places : ndarray of shape (n,), int64, default=None
        The rows of the file that are meant, in this order; None stands for all.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no file of rows of numbers, or is without these rows.
    """

    def __init__(self, path, sum=None, places=None):
        self.path, self.places = str(Path(path).resolve()), places
        self.sum, self._is_checked = sum, False
        if not Path(self.path).is_file():  # a pipe would be waited for
            raise FileNotFoundError(
                f"There is no file {self.path}, which the search reads vectors from."
            )
        rows = open_vectors(path) if self.path.lower().endswith(SUFFIXES) else None
        if not isinstance(rows, np.memmap) or rows.dtype.kind not in "iuf":
            raise ValueError(
                f"{self.path} is not a file of numbers that can be read in place; "
                "write one with np.save(path, skhash.datasets.open_vectors(file))."
            )
        self._content, self.array = (
            np.frombuffer(rows._mmap, np.uint8),
            np.asarray(rows),
        )
        if places is not None and places.size:
            if not 0 <= places.min() <= places.max() < len(self.array):
                raise ValueError(
                    f"{self.path} has {len(self.array)} rows, fewer than when it was "
                    "indexed; restore the file, or fit again."
                )

    def summed(self):
        """Return the file with the checksum that it has now."""
        self.sum, self._is_checked = self._sum(), True
        return self

    def check(self) -> None:
        """Raise ``ValueError`` if the content is another than it was."""
        if not self._is_checked and self._sum() != self.sum:
            raise ValueError(
                f"{self.path} changed since it was indexed; restore it, or fit again."
            )
        self._is_checked = True

    def _sum(self):
        return hashlib.sha256(self._content).hexdigest()

    def in_file(self, positions):
        """Return which rows of the file are those at `positions`."""
        return positions if self.places is None else self.places[positions]

    @property
    def shape(self):
        """As of the array of these rows."""
        return len(self), self.array.shape[1]

    @property
    def ndim(self):
        """As of the array of these rows."""
        return 2

    @property
    def dtype(self):
        """As of the array of these rows."""
        return self.array.dtype

    @property
    def nbytes(self):
        """As of the array of these rows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self):
        return len(self.array if self.places is None else self.places)

    def __getitem__(self, rows):
        if isinstance(rows, slice) and len(range(len(self))[rows]) == len(self):
            return self
        other = object.__new__(KeptFile)
        places = self.in_file(np.arange(len(self)))[rows]
        vars(other).update(vars(self), places=places)
        return other

    def __array__(self, dtype=None, copy=None):
        rows = self.array if self.places is None else self.array[self.places]
        return np.array(rows, dtype=dtype, copy=copy)

    def __reduce__(self):
        return KeptFile, (self.path, self.sum, self.places)
