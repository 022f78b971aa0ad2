"""A file of vectors that stays the user's: an index names it and copies nothing.

Vectors that are added later are in memory, behind those of the file.
"""

import hashlib
from pathlib import Path

import numpy as np

from skhash.datasets import open_vectors
from skhash.neighbors.store.rows import as_numbers, with_rows
from skhash.persistence.tensors import DamageError

# Of files that `open_vectors` maps, and no others are opened.
SUFFIXES = tuple(".npy .fvecs .bvecs .ivecs .fbin .u8bin .i8bin .safetensors".split())


class KeptFile:
    """Rows of a file, which are mapped, and added rows, as the column of a store.

    Saved and pickled are its absolute path, its SHA-256, the added rows, and which rows
    these are. A store compares the checksum before it reads rows of a file that was
    opened again: the one that is mapped, even if another one has its name meanwhile.

    Parameters
    ----------
    path : path-like
    sum : str, default=None
        The checksum that the file had.
    places : ndarray of shape (n,), int64, default=None
        The rows that are meant, in this order, those that were added behind those of
        the file; None stands for all.
    added : ndarray of shape (n_added, n_features), default=None
        The added rows.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no file of rows of numbers, or is without these rows.
    """

    def __init__(self, path, sum=None, places=None, added=None):
        self.path, self.places = str(Path(path).resolve()), places
        if not self.path.lower().endswith(SUFFIXES):  # a link to a file of no such name
            self.path = str(Path(path).absolute())
        self.sum, self._is_checked = sum, False
        if not Path(self.path).is_file():  # a pipe would be waited for
            raise FileNotFoundError(
                f"There is no file {self.path}, which the search reads vectors from."
            )
        rows = open_vectors(path) if self.path.lower().endswith(SUFFIXES) else None
        if not isinstance(rows, np.memmap) or rows.dtype.kind not in "biuf":
            raise ValueError(
                f"{self.path} is not a file of numbers that can be read in place; "
                "write one with np.save(path, skhash.datasets.open_vectors(file))."
            )
        self._content = np.frombuffer(rows._mmap, np.uint8)
        self.array = as_numbers(np.asarray(rows))
        # With room to grow into.
        self._added = self.array[:0].copy() if added is None else added
        self._n_added = len(self._added)
        if self._added.shape[1] != self.array.shape[1]:
            raise ValueError(f"{self.path} has {self.array.shape[1]} columns.")
        if places is not None and places.size:
            n = len(self.array) + self._n_added
            if not 0 <= places.min() <= places.max() < n:
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
            raise DamageError(  # not of the index
                f"{self.path} changed since it was indexed; restore it, or fit again."
            )
        self._is_checked = True

    def _sum(self):
        return hashlib.sha256(self._content).hexdigest()

    @property
    def added(self):
        """The rows that are not in the file, or None."""
        return self._added[: self._n_added] if self._n_added else None

    def extended(self, rows):
        """Return these rows, and more of them, in memory."""
        n = len(self.array) + self._n_added
        added, places = with_rows(self._added, self._n_added, rows), self.places
        if places is not None:
            places = np.concatenate([places, np.arange(n, n + len(rows))])
        return self._with(places, added, self._n_added + len(rows))

    def at(self, positions):
        """Return an array, and which rows of it are those at `positions`."""
        places = positions if self.places is None else self.places[positions]
        if not self._n_added:
            return self.array, places
        n, flat = len(self.array), places.ravel()
        rows = np.empty((flat.size, self.array.shape[1]), dtype=self.dtype)
        rows[flat < n] = self.array[flat[flat < n]]
        rows[flat >= n] = self._added[flat[flat >= n] - n]
        return rows, np.arange(flat.size).reshape(places.shape)

    def _with(self, places, added, n_added):
        other = object.__new__(KeptFile)
        vars(other).update(vars(self), places=places, _added=added, _n_added=n_added)
        return other

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
        kinds = self.array.dtype, self._added.dtype
        return np.result_type(*kinds) if self._n_added else kinds[0]

    @property
    def nbytes(self):
        """The bytes in memory, which are those of the file's rows only when read."""
        places = 0 if self.places is None else self.places.nbytes
        return self._added.nbytes + places

    def __len__(self):
        n = len(self.array) + self._n_added
        return n if self.places is None else len(self.places)

    def __getitem__(self, rows):
        """Return some of the rows, without room for more."""
        n, added = len(self.array), self._added[: self._n_added]
        if isinstance(rows, slice) and len(range(len(self))[rows]) == len(self):
            return self._with(self.places, added, len(added))
        places = np.arange(len(self)) if self.places is None else self.places
        places = places[rows]  # a copy or a part, not to be written
        are_added = places >= n
        added = added[places[are_added] - n]
        places = places.copy()
        places[are_added] = n + np.arange(len(added))
        return self._with(places, added, len(added))

    def __array__(self, dtype=None, copy=None):
        if self.places is None and not self._n_added:
            return np.array(self.array, dtype=dtype, copy=copy)
        rows, order = self.at(np.arange(len(self)))
        return np.array(rows[order], dtype=dtype, copy=copy)

    def __reduce__(self):
        return KeptFile, (self.path, self.sum, self.places, self.added)
