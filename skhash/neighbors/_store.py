"""What an index holds: codes, and what goes along with them row by row."""

import numpy as np

from skhash.codes import packed_to_words


class Store:
    """Columns of equal length, one row a code. A store never changes.

    Adding rows makes another store, which may share the memory: a reader that holds one
    store through a whole question is never disturbed by a writer.

    Parameters
    ----------
    packed : ndarray of shape (n, n_bytes), uint8
    **columns : ndarray of shape (n, ...), or None
        What else a code has, such as labels. None stands for a column that is missing.
    """

    def __init__(self, packed, **columns):
        self.n, self.n_bytes = packed.shape
        # Rows from `n` on are room to grow into.
        self._rooms = {"words": packed_to_words(packed), **columns}

    def __getitem__(self, name):
        """Return the column `name`, or None where it is missing."""
        room = self._rooms[name]
        return None if room is None else room[: self.n]

    @property
    def packed(self):
        """The codes as packed bytes."""
        return self["words"].view(np.uint8)[:, : self.n_bytes]

    def append(self, packed, **columns):
        """Return a store with more rows behind those of this one.

        The columns must be those of this store.
        """
        columns["words"] = packed_to_words(packed)
        larger = object.__new__(Store)
        larger.n, larger.n_bytes = self.n + len(packed), self.n_bytes
        larger._rooms = {
            name: None if rows is None else _with_rows(self._rooms[name], self.n, rows)
            for name, rows in columns.items()
        }
        return larger

    def __getstate__(self):
        # Room to grow into stays behind.
        columns = {name: self[name] for name in self._rooms if name != "words"}
        return {"packed": self.packed, **columns}

    def __setstate__(self, state):
        self.__init__(**state)


def _with_rows(room, n, rows):
    """Return an array whose first rows are ``room[:n]`` and then `rows`.

    It is `room` itself if `rows` fit in, and else a larger one, by half at least, so
    that many small additions copy each row a bounded number of times. ``room[:n]`` is
    never written.
    """
    needed = n + len(rows)
    dtype = np.result_type(room, rows)
    if needed > len(room) or dtype != room.dtype:
        larger = np.zeros((max(needed, n + n // 2), *room.shape[1:]), dtype=dtype)
        larger[:n] = room[:n]
        room = larger
    room[n:needed] = rows
    return room
