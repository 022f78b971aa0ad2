"""Codes as planes, bit by bit, in the order of their ones: a column of a store."""

import numpy as np

from skhash.codes import packed_to_words
from skhash.neighbors.search.chunks import read_only
from skhash.neighbors.store.clusters import position_type
from skhash.utils.chunks import row_chunks
from skhash.utils.late import LateModule

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
    n : int
        The number of codes.
    n_bytes : int
    may_grow : bool, default=False
        Whether others may be written behind these codes.
    """

    def __init__(self, array, counts, positions, n, n_bytes, may_grow=False):
        self.array, self.may_grow = array, may_grow
        self.counts, self.positions = counts, positions
        self.n, self.shape = n, (n, n_bytes)

    @classmethod
    def of(cls, packed, room=0):
        """Return the planes of packed codes (n, n_bytes), with room for others."""
        n, n_bytes = packed.shape
        n_blocks = -(-(n + room) // _kernels.BLOCK)
        n_places = _kernels.BLOCK * n_blocks
        kind = np.uint16 if 8 * n_bytes < 2**16 else np.uint32
        rooms = (
            np.zeros((n_blocks, 8 * n_bytes + 1, _kernels.WORDS), dtype=np.uint64),
            np.zeros(n_places, dtype=kind),
            np.zeros(n_places, dtype=position_type(n_places)),
        )
        return cls(*rooms, 0, n_bytes, may_grow=True).extended(0, packed)

    @property
    def nbytes(self):
        """The bytes of the arrays, with room to grow."""
        return self.array.nbytes + self.counts.nbytes + self.positions.nbytes

    @property
    def packed(self):
        """The codes, (n, n_bytes), which are copied."""
        n, n_bytes = self.shape
        words = np.empty((n, -(-n_bytes // 8)), dtype=np.uint64)
        _kernels.read(read_only(self.array), words, _square())
        codes = np.empty((n, n_bytes), dtype=np.uint8)
        codes[self.positions[:n]] = words.view(np.uint8)[:, :n_bytes]
        return codes

    def extended(self, n, packed, levels=None):
        """Return the first `n` codes, and others behind them; see `Blocks.extended`.

        The others stand in an order of their own, unless all codes are copied.
        """
        needed, n_bytes = n + len(packed), self.shape[1]
        if needed > len(self.counts) or not self.may_grow:
            return Planes.of(np.concatenate([self.packed[:n], packed]), room=n // 2)
        self.may_grow = False  # the room passes on
        words = packed_to_words(packed)
        counts = np.empty(len(words), dtype=self.counts.dtype)
        for rows in row_chunks(len(words), words[:1].nbytes):
            counts[rows] = np.bitwise_count(words[rows]).sum(axis=1)
        order = np.argsort(counts, kind="stable")
        _kernels.fill(read_only(words), order, n, self.array, _square())
        self.counts[n:needed], self.positions[n:needed] = counts[order], order + n
        rooms = self.array, self.counts, self.positions
        return Planes(*rooms, needed, n_bytes, may_grow=True)

    def __len__(self):
        return self.n

    def __getitem__(self, which):
        """Return all codes, by a slice, or a copy of those of a mask."""
        return self if isinstance(which, slice) else Planes.of(self.packed[which])


def _square():
    """Return room for the kernels."""
    return np.empty((65, _kernels.LANES), dtype=np.uint64)
