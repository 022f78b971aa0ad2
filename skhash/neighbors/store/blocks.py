"""Codes with the levels beside them, as scans read them: a column of a store."""

from functools import cached_property

import numpy as np

from skhash.neighbors.search.chunks import zeros_aligned
from skhash.neighbors.store.clusters import position_type
from skhash.utils.lazy import LateModule

_kernels = LateModule("skhash.neighbors.kernels.blocks")


class Order:
    """The positions of codes that stand in another order.

    Parameters
    ----------
    positions : ndarray of shape (n,), int32 or int64
        Of the code at each place.
    """

    def __init__(self, positions):
        self.positions = positions

    @cached_property
    def places(self):
        """The place of the code at each position."""
        places = np.empty_like(self.positions)
        places[self.positions] = np.arange(len(places), dtype=places.dtype)
        return places

    @property
    def nbytes(self):
        """The bytes of both arrays, of which the second is made at its first use."""
        return self.positions.nbytes + getattr(vars(self).get("places"), "nbytes", 0)


class Blocks:
    """Codes in blocks of 512, the bytes of a block side by side.

    From outside, codes stand by their positions, whatever their order in the blocks.

    Parameters
    ----------
    array : ndarray of shape (n_blocks, n_rows, 512), uint8
        See `skhash.neighbors.kernels.blocks`. It may have room for more codes.
    n : int
        The number of codes.
    n_bytes : int
        How many of the rows are codes; levels follow.
    may_grow : bool, default=False
        Whether others may be written behind these codes.
    order : Order, default=None
        None stands for the order of the positions.
    """

    def __init__(self, array, n, n_bytes, may_grow=False, order=None):
        self.array, self.n, self.n_bytes = array, n, n_bytes
        self.may_grow, self.order = may_grow, order

    @classmethod
    def of(cls, packed, levels=None):
        """Return the blocks of packed codes and levels, (n, n_bytes) each."""
        n, n_bytes = packed.shape
        width = 0 if levels is None else levels.shape[1]
        empty = cls(_zeros(0, n_bytes + width), 0, n_bytes)
        return empty.extended(0, packed, levels)

    @property
    def nbytes(self):
        """The bytes of the arrays, with room to grow."""
        return self.array.nbytes + (self.order.nbytes if self.order else 0)

    @property
    def packed(self):
        """The codes, (n, n_bytes), which are copied."""
        return self.bytes(slice(self.n_bytes))

    @property
    def levels(self):
        """Their levels, (n, width), which are copied, or None."""
        if self.array.shape[1] == self.n_bytes:
            return None
        return self.bytes(slice(self.n_bytes, None))

    @property
    def whole(self):
        """The blocks that hold codes, without room to grow."""
        return self.array[: -(-self.n // _kernels.BLOCK)]

    def bytes(self, which):
        """Return these bytes of all codes, (n, n_chosen)."""
        values = self.bytes_by_place(which)
        return values[self.order.places] if self.order else values

    def bytes_by_place(self, which):
        """Return these bytes of all codes in the order of the blocks."""
        values = self.whole[:, which].transpose(0, 2, 1)
        return values.reshape(-1, values.shape[2])[: self.n]

    def in_order(self, positions=None):
        """Return the codes in the order of these positions; None, of all."""
        if positions is None:
            return self[np.arange(self.n)] if self.order else self
        codes = self[positions]
        codes.order = Order(positions.astype(position_type(self.n)))
        return codes

    def extended(self, n, packed, levels=None):
        """Return the first `n` codes, and others behind them.

        It is the same array if they fit in, or a larger one, by half at least, so that
        many small additions copy each code a bounded number of times. The first `n`
        codes are never written.
        """
        if self.order:
            return self[np.arange(n)].extended(n, packed, levels)
        array, needed = self.array, n + len(packed)
        if needed > len(array) * _kernels.BLOCK or not self.may_grow:
            n_used = -(-n // _kernels.BLOCK)
            n_blocks = max(-(-needed // _kernels.BLOCK), n_used + n_used // 2 * (n > 0))
            array = _zeros(n_blocks, self.array.shape[1])
            array[:n_used] = self.array[:n_used]
        _kernels.fill(np.ascontiguousarray(packed), n, 0, array)
        if levels is not None:
            _kernels.fill(np.ascontiguousarray(levels), n, self.n_bytes, array)
        return Blocks(array, needed, self.n_bytes, may_grow=True)

    def __len__(self):
        return self.n

    def __getitem__(self, which):
        """Return all codes, by a slice, or a copy of those of a mask or at positions.

        Of codes in the order of their positions, a slice may be of the first.
        """
        if isinstance(which, slice):
            n = len(range(self.n)[which])
            return Blocks(self.array, n, self.n_bytes, order=self.order)
        if which.dtype == bool:
            which = np.flatnonzero(which)
        if self.order:
            which = self.order.places[which]
        chosen = _zeros(-(-len(which) // _kernels.BLOCK), self.array.shape[1])
        array = np.require(self.array, requirements=["C", "A"])
        _kernels.gather(array, np.ascontiguousarray(which, dtype=np.int64), chosen)
        return Blocks(chosen, len(which), self.n_bytes)


def _zeros(n_blocks, n_rows):
    return zeros_aligned((n_blocks, n_rows, _kernels.BLOCK))
