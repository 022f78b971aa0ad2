"""The content of an index: codes, and columns beside them row by row."""

from threading import Lock

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.store.ids import IdLookup, check_same_kind, read_ids
from skhash.neighbors.store.kept_file import KeptFile
from skhash.numerics._levels import keys_to_levels


class CodesKey:
    """Identity of codes shared by stores, removed codes included.

    It caches what searches build from the codes, which outlives removals.

    Parameters
    ----------
    clusters : ClusterArrays, default=None
        Those of a file, if the index was saved with some.
    """

    def __init__(self, clusters=None):
        self.clusters, self._made, self._making = clusters, {}, Lock()

    def get(self, name):
        """Return the cached value of this name, or None."""
        return self._made.get(name)

    def once(self, name, make):
        """Return the cached value of this name; `make` it if there is none."""
        made = self._made.get(name)
        if made is None:
            with self._making:
                made = self._made.get(name)
                if made is None:
                    made = self._made[name] = make()
        return made


class Store:
    """Immutable columns of equal length, one row a code.

    Adding and removing make another store, which may share the memory: a reader that
    holds one store through a whole question is never disturbed by a writer.

    Parameters
    ----------
    packed : ndarray of shape (n, n_bytes), uint8
    decoder : Decoder, default=None
        The decoder of the codes.
    n_bytes : int, default=None
        How many bytes of `packed` are codes, if zeros follow.
    clusters : ClusterArrays, default=None
        Those of the codes, if they were made.
    **columns : ndarray of shape (n, ...), or None
        Further columns: "y", the label; "ids", of int64 or str; "live", a bool, False
        for a code that was removed; "vectors", the real vector that it was made of,
        which may be a `KeptFile`; "levels", as `Decoder.with_levels` returns them. None
        stands for a missing column.

    Raises
    ------
    ValueError
        If columns differ in length.
    """

    def __init__(
        self,
        packed,
        decoder=None,
        *,
        n_bytes=None,
        clusters=None,
        **columns,
    ):
        self.n, self.n_bytes = len(packed), n_bytes or packed.shape[1]
        self.decoder = decoder
        for name, column in columns.items():
            if column is not None and len(column) != self.n:
                name = getattr(column, "path", name)
                raise ValueError(
                    f"{name} has {len(column)} rows, and there are {self.n} codes."
                )
        # Rows from `n` on are room to grow into.
        self._rooms = {"words": packed_to_words(packed), "live": None, **columns}
        self.codes_key = CodesKey(clusters)
        self._lookup = None
        vectors = columns.get("vectors")
        self._check = vectors.check if isinstance(vectors, KeptFile) else None

    def check_first(self, check):
        """Call `check`, which may raise, before any column is read; None calls none."""
        self._check = check

    def __getitem__(self, name):
        """Return the column `name`, or None where it is missing."""
        check = self._check  # another thread may be done with it meanwhile
        if check is not None:
            check()
            self._check = None
        room = self._rooms.get(name)
        return None if room is None else room[: self.n]

    @property
    def packed(self):
        """The codes as packed bytes."""
        return self["words"].view(np.uint8)[:, : self.n_bytes]

    @property
    def n_live(self):
        """The number of codes that were not removed."""
        live = self["live"]
        return self.n if live is None else int(np.count_nonzero(live))

    @property
    def nbytes(self):
        """The bytes of columns with their room to grow, lookup and decoder."""
        held = *self._rooms.values(), self._lookup, self.decoder
        return sum(part.nbytes for part in held if part is not None)

    @property
    def bytes_beside(self):
        """The bytes of the number beside a code."""
        return 0 if self["levels"] is None else self["levels"].shape[1]

    def own_queries(self):
        """Return all codes, packed, as queries, or raise ``ValueError``."""
        if self["live"] is not None:
            raise ValueError(
                f"{self.n - self.n_live} codes were removed, so the neighbours of "
                "every fitted code cannot be asked for; call compact() before, or pass "
                "the codes as X."
            )
        return self.packed

    def columns(self):
        """Return all columns but the words, by name, without spare room."""
        return {name: self[name] for name in self._rooms if name != "words"}

    def append(self, packed, **columns):
        """Return a store with more rows appended.

        Its columns must be those of this store, but for "live".

        Raises
        ------
        ValueError
            If an id occurs twice, or is that of a live code.
        """
        n = self.n + len(packed)
        lookup = None
        if columns["ids"] is not None:
            added = np.arange(self.n, n)
            lookup = self.lookup().add(columns["ids"], added, self["live"])
        columns["words"] = packed_to_words(packed)
        removed_any = self["live"] is not None
        columns["live"] = np.ones(len(packed), dtype=bool) if removed_any else None
        rooms = {
            name: None if rows is None else _with_rows(self._rooms[name], self.n, rows)
            for name, rows in columns.items()
        }
        return self._with(rooms, n, lookup)

    def with_levels(self, keys):
        """Return a store whose levels reach these keys too, and the levels of these."""
        decoder, own = self.decoder, self["levels"]
        if keys is None:
            return self, None
        first, last = decoder.base, decoder.base + 256 ** own.shape[1]
        if ((keys > first) & (keys < last) | (keys == 0)).all():
            return self, keys_to_levels(keys, first, own.shape[1])
        n, keys = self.n, np.concatenate([decoder.keys_of_levels(own), keys])
        decoder, levels = decoder.with_levels(keys)
        return self._decoded_by(decoder, levels[:n]), levels[n:]

    def _decoded_by(self, decoder, levels):
        other = self._with({**self._rooms, "levels": levels}, self.n, self._lookup)
        other.decoder = decoder
        return other

    def remove(self, positions):
        """Return a store in which the codes at `positions` are no longer live."""
        if not len(positions):
            return self
        live = np.ones(self.n, dtype=bool) if self["live"] is None else self["live"]
        live = live.copy()
        live[positions] = False
        other = self._with({**self._rooms, "live": live}, self.n, self._lookup)
        other.codes_key = self.codes_key
        return other

    def compact(self):
        """Return a store of the live codes alone."""
        if self["live"] is None:
            return self
        rooms = {
            name: None if room is None else room[: self.n][self["live"]]
            for name, room in self._rooms.items()
        }
        other = self._with({**rooms, "live": None}, self.n_live, None)
        if other["levels"] is None:
            return other
        keys = self.decoder.keys_of_levels(other["levels"])
        return other._decoded_by(*self.decoder.with_levels(keys))

    def find(self, ids):
        """Return the positions of the live codes with these ids, or -1 for none.

        Of a store without ids, the ids are the positions.
        """
        ids, live = read_ids(ids), self["live"]
        if self["ids"] is not None:
            check_same_kind(self["ids"], ids)
            return self.lookup().find(ids, live)
        check_same_kind(np.arange(0), ids)
        found = (ids >= 0) & (ids < self.n)
        if live is not None:
            found[found] = live[ids[found]]
        return np.where(found, ids, -1)

    def ids_at(self, positions):
        """Return the ids of the codes at `positions`."""
        if self["ids"] is None:
            raise ValueError(
                "return_ids=True needs ids, and this index was fitted without any; fit "
                "it by fit(codes, ids=...)."
            )
        return self["ids"][positions]

    def lookup(self):
        """Return the lookup of ids, built at its first use.

        Raises
        ------
        ValueError
            If two codes that are live have the same id.
        """
        if self._lookup is None:
            positions = np.arange(self.n)
            if self["live"] is not None:
                positions = positions[self["live"]]
            self._lookup = IdLookup().add(self["ids"][positions], positions, None)
        return self._lookup

    def _with(self, rooms, n, lookup):
        other = object.__new__(Store)
        other._rooms, other.n, other.n_bytes = rooms, n, self.n_bytes
        other.decoder = self.decoder
        other.codes_key, other._lookup, other._check = CodesKey(), lookup, None
        # The room passes on: two stores must not grow into the same.
        self._rooms = {name: self[name] for name in self._rooms}
        return other

    def __getstate__(self):
        return {"packed": self.packed, "decoder": self.decoder, **self.columns()}

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
