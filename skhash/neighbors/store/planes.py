"""Codes as planes, bit by bit, in the order of their ones: a column of a store."""

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.search.chunks import read_only
from skhash.neighbors.store.clusters import position_type
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule

_kernels = LateModule("skhash.neighbors.kernels.planes")


class Planes:
    """Codes in blocks of 512, where a bit of all of them stands side by side.

    From outside, codes stand by their positions, whatever their order in the blocks.

    Parameters
    ----------
    array : ndarray of shape (n_blocks, n_planes + 1, 8), uint64
        See `skhash.neighbors.kernels.planes`. It may have room for more codes.
    counts : ndarray of shape (n_places,), uint16 or uint32
        The ones of the code at each place.
    positions : ndarray of shape (n_places,), int32 or int64
        Where it stands in the index.
    shape : tuple (n, n_bytes)
        Of the codes.
    may_grow : bool, default=False
        Whether others may be written behind these codes.
    """

    def __init__(self, array, counts, positions, shape, may_grow=False):
        self.array, self.counts, self.positions = array, counts, positions
        self.shape, self.may_grow = shape, may_grow

    @classmethod
    def of(cls, packed, room=0):
        """Return the planes of packed codes (n, n_bytes), with room for others."""
        n, n_bytes = packed.shape
        n_blocks = -(-(n + room) // _kernels.BLOCK)
        n_places = _kernels.BLOCK * n_blocks
        array = np.zeros((n_blocks, 8 * n_bytes + 1, _kernels.WORDS), dtype=np.uint64)
        kind = np.uint16 if 8 * n_bytes < 2**16 else np.uint32
        counts = np.zeros(n_places, dtype=kind)
        positions = np.zeros(n_places, dtype=position_type(n_places))
        empty = cls(array, counts, positions, (0, n_bytes), may_grow=True)
        return empty.extended(0, packed)

    @property
    def nbytes(self):
        """The bytes of the arrays, with room to grow."""
        return self.array.nbytes + self.counts.nbytes + self.positions.nbytes

    @property
    def packed(self):
        """The codes, (n, n_bytes), which are copied."""
        n, n_bytes = self.shape
        words = np.zeros((n, -(-n_bytes // 8)), dtype=np.uint64)
        _kernels.read(read_only(self.array), read_only(self.positions[:n]), words)
        return words.view(np.uint8)[:, :n_bytes]

    def extended(self, n, packed, levels=None):
        """Return the first `n` codes, and others behind them; see `Blocks.extended`.

        The added codes are ordered among themselves, unless all codes are copied.
        """
        needed, may_grow = n + len(packed), self.may_grow
        self.may_grow = False  # as the room passes on
        if needed > len(self.counts) or not may_grow:
            return Planes.of(np.concatenate([self.packed[:n], packed]), room=n // 2)
        words = packed_to_words(packed)
        counts = np.empty(len(words), dtype=self.counts.dtype)
        for rows in row_chunks(len(words), words[:1].nbytes):
            counts[rows] = np.bitwise_count(words[rows]).sum(axis=1)
        order = np.argsort(counts, kind="stable")
        _kernels.fill(read_only(words), order, n, self.array)
        self.counts[n:needed], self.positions[n:needed] = counts[order], n + order
        shape = needed, self.shape[1]
        return Planes(self.array, self.counts, self.positions, shape, may_grow=True)

    def arrays(self):
        """Return the arrays to save, by name, without room to grow."""
        n = len(self)
        order = self.positions[:n].astype(position_type(n), copy=False)
        array = self.array[: -(-n // _kernels.BLOCK)]
        return {"planes": array, "counts": self.counts[:n], "order": order}

    def __reduce__(self):
        return Planes, (*self.arrays().values(), self.shape)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, which):
        """Return all codes, by a slice, or a copy of those of a mask."""
        return self if isinstance(which, slice) else Planes.of(self.packed[which])
