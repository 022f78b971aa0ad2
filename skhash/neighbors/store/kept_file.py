"""A file of vectors that stays the user's: an index names it and copies nothing."""

import hashlib
import math
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy

READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class KeptFile:
    """Rows of a ``.npy`` file, which are mapped, as the column of a store.

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
                f"There is no file {self.path}, of vectors that are kept."
            )
        try:
            self._content, self.array = _map_rows(self.path)
        except (RecursionError, TokenError, ValueError) as error:
            raise ValueError(
                f"{self.path} is no .npy file of rows of numbers: {error}"
            ) from error
        if places is not None and places.size:
            if not 0 <= places.min() <= places.max() < len(self.array):
                raise ValueError(
                    f"{self.path} has {len(self.array)} rows, fewer than when it was "
                    "indexed; fit again."
                )

    def summed(self):
        """Return the file with the checksum that it has now."""
        self.sum, self._is_checked = self._sum(), True
        return self

    def check(self) -> None:
        """Raise ``ValueError`` if the content is another than it was."""
        if not self._is_checked and self._sum() != self.sum:
            raise ValueError(
                f"{self.path} is not what it was when it was indexed; fit again."
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


def _map_rows(path):
    """Return the bytes of a file, mapped, and the array that they hold."""
    with open(path, "rb") as file:
        read_header = READERS.get(npy.read_magic(file))
        if read_header is None:
            raise ValueError("it is of a version that NumPy writes for no numbers.")
        shape, is_fortran, dtype = read_header(file)
        if dtype.kind not in "iuf" or len(shape) != 2 or min(shape) < 0:
            raise ValueError(f"it holds shape {shape} and dtype {dtype}.")
        start, n_bytes = file.tell(), math.prod(shape) * dtype.itemsize
        content = np.memmap(file, np.uint8, mode="r")
    if len(content) < start + n_bytes:
        raise ValueError(f"it is cut, as shape {shape} needs {n_bytes} bytes.")
    rows = content[start : start + n_bytes].view(dtype)
    rows = rows.reshape(shape, order="F" if is_fortran else "C")
    return content, np.asarray(rows)
