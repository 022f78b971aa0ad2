"""The content of an index: codes, and columns beside them row by row."""

from dataclasses import replace

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.store.blocks import Blocks
from skhash.neighbors.store.ids import IdLookup, check_same_kind, to_strings
from skhash.neighbors.store.kept_file import KeptFile
from skhash.neighbors.store.planes import Planes
from skhash.neighbors.store.rows import with_rows
from skhash.numerics._levels import has_same_bytes, keys_to_levels
from skhash.utils.threads import ProcessLock


class CodesKey:
    """Identity of codes shared by stores, removed codes included.

    It caches what searches build from the codes, which outlives removals.

    Parameters
    ----------
    clusters : ClusterArrays, default=None
        Those of a file, if the index was saved with some.
    """

    def __init__(self, clusters=None):
        self.clusters, self._made, self.making = clusters, {}, ProcessLock()

    def get(self, name):
        """Return the cached value of this name, or None."""
        return self._made.get(name)

    def once(self, name, make):
        """Return the cached value of this name; `make` it if there is none."""
        made = self._made.get(name)
        if made is None:
            with self.making.lock:
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
    packed : ndarray of shape (n, n_bytes), uint8, Blocks or Planes
        The codes. With a decoder, they are kept in blocks, as searches read them, and
        else in words, or as planes where these are given.
    decoder : Decoder, default=None
        The decoder of the codes.
    n_bytes : int, default=None
        How many bytes of `packed` are codes, if zeros follow.
    clusters : ClusterArrays, default=None
        Those of the codes, if they were made.
    **columns : ndarray of shape (n, ...), or None
        Further columns: "y", the label; "ids", of int64 or str; "live", a bool, False
        for a code that was removed; "vectors", the real vector that it was made of,
        which may be a `KeptFile`; "levels", as `Decoder.with_levels` returns them, with
        a decoder. None stands for a missing column.

    Raises
    ------
    ValueError
        If columns differ in length.
    """

    def __init__(self, packed, decoder=None, *, n_bytes=None, clusters=None, **columns):
        if n_bytes is None:
            n_bytes = packed.shape[1]
        self.n, self.n_bytes = len(packed), n_bytes
        self.decoder = decoder
        for name, column in columns.items():
            if column is not None and len(column) != self.n:
                name = getattr(column, "path", name)
                raise ValueError(
                    f"{name} has {len(column)} rows, but there are {self.n} codes."
                )
        # Rows from `n` on are room to grow into.
        if isinstance(packed, Blocks | Planes):
            codes = {"blocks": packed}
        elif decoder is None:
            codes = {"words": packed_to_words(packed)}
        else:
            codes = {"blocks": Blocks.of(packed, columns.pop("levels", None))}
        self._rooms = {**codes, "live": None, **columns}
        self.codes_key = CodesKey(clusters)
        self._lookup = None
        vectors = columns.get("vectors")
        self._check = vectors.check if isinstance(vectors, KeptFile) else None

    def check_first(self, check):
        """Call `check`, which may raise, before any column is read; None calls none."""
        self._check = check

    def has(self, name):
        """Return whether there is a column `name`; none is read."""
        return self._rooms.get(name) is not None

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
        if self.has("blocks"):
            return self["blocks"].packed
        return self["words"].view(np.uint8)[:, : self.n_bytes]

    @property
    def levels(self):
        """The levels of the codes, (n, bytes_beside), or None without any."""
        return self["blocks"].levels

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
        return self["blocks"].array.shape[1] - self.n_bytes

    def check_all_live(self, X=None):
        """Raise ``ValueError`` if codes were removed, or `X` lacks a row for each."""
        if X is not None and np.shape(X)[0] != self.n:
            raise ValueError(
                f"exclude_self=True means that X holds the {self.n} fitted rows, in "
                f"order; got {np.shape(X)[0]} rows."
            )
        if self["live"] is not None:
            raise ValueError(
                f"{self.n - self.n_live} codes were removed, so the neighbours of "
                "every fitted code cannot be found; call compact() first, or pass the "
                "queries as X."
            )

    def columns(self):
        """Return all columns but the words, by name, without spare room."""
        codes = "words", "blocks"
        return {name: self[name] for name in self._rooms if name not in codes}

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
        levels = columns.pop("levels", None)
        if self.has("words"):
            columns["words"] = packed_to_words(packed)
        removed_any = self["live"] is not None
        columns["live"] = np.ones(len(packed), dtype=bool) if removed_any else None
        rooms = {
            name: None if rows is None else self._with_rows(name, rows)
            for name, rows in columns.items()
        }
        if self.has("blocks"):
            rooms["blocks"] = self._rooms["blocks"].extended(self.n, packed, levels)
        return self._with(rooms, n, lookup)

    def _with_rows(self, name, rows):
        room = self._rooms[name]
        if isinstance(room, KeptFile):
            return room.extended(rows)
        return with_rows(room, self.n, rows)

    def with_levels(self, keys):
        """Return a store whose levels reach these keys too, and the levels of these."""
        decoder = self.decoder
        if keys is None:
            return self, None
        levels = keys[keys > 0] - decoder.base
        last = max(decoder.last, int(levels.max(initial=0)))
        if levels.min(initial=1) > 0 and has_same_bytes(last, decoder.last):
            other = self._decoded_by(replace(decoder, last=last), self._rooms["blocks"])
            return other, keys_to_levels(keys, decoder.base, last)
        n, keys = self.n, np.concatenate([decoder.keys_of_levels(self.levels), keys])
        decoder, levels = decoder.with_levels(keys)
        blocks = Blocks.of(self.packed, levels[:n])
        return self._decoded_by(decoder, blocks), levels[n:]

    def reorder(self, make_order):
        """Keep the codes in another order; their positions stay.

        make_order : callable
            Returns the positions in this order.
        """
        key = self.codes_key
        ordered = key.once("ordered", lambda: self["blocks"].in_order(make_order()))
        self._rooms = {**self._rooms, "blocks": ordered}
        self.codes_key = CodesKey()  # what was built before holds the former blocks

    def _decoded_by(self, decoder, blocks):
        other = self._with({**self._rooms, "blocks": blocks}, self.n, self._lookup)
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
        if self.decoder is None or not self.bytes_beside:
            return other
        keys = self.decoder.keys_of_levels(other.levels)
        decoder, levels = self.decoder.with_levels(keys)
        same_bytes = has_same_bytes(decoder.last, self.decoder.last)
        if decoder.base == self.decoder.base and same_bytes:
            return other._decoded_by(decoder, other["blocks"])
        return other._decoded_by(decoder, Blocks.of(other.packed, levels))

    def find(self, ids):
        """Return the positions of the live codes with these ids, or -1 for none.

        Of a store without ids, the ids are the positions.

        ids : as `read_ids` returns them
        """
        live = self["live"]
        if self["ids"] is not None:
            check_same_kind(self["ids"], ids)
            return self.lookup().find(ids, live)
        check_same_kind(np.arange(0), ids)
        is_there = (ids >= 0) & (ids < self.n)
        if live is not None:
            is_there[is_there] = live[ids[is_there]]
        return np.where(is_there, ids, -1)

    def ids_at(self, positions):
        """Return the ids of the codes at `positions`."""
        if self["ids"] is None:
            raise ValueError(
                "return_ids=True needs ids, but this index was fitted without any; "
                "call fit(codes, ids=...)."
            )
        return to_strings(self["ids"][positions])

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
        levels = {} if self.decoder is None else {"levels": self.levels}
        blocks = self["blocks"]
        packed = blocks if isinstance(blocks, Planes) else self.packed
        codes = {"packed": packed, "decoder": self.decoder}
        return {**codes, **levels, **self.columns()}

    def __setstate__(self, state):
        self.__init__(**state)
