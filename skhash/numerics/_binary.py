"""Layers of units with weights of -1 and +1 that read and write packed words."""

import numpy as np

from skhash.utils.lazy import LateModule

kernels = LateModule("skhash.numerics._binary_kernels")


class BinaryUnits:
    """Units that are on where a row differs from their weights in few bits.

    The product of n signs with n others is n less twice the bits that differ, so that
    a threshold of the product is a limit of those, and nothing is rounded.

    Parameters
    ----------
    weights : ndarray of shape (n_units, n_words), uint64
        Packed bits, as `skhash.codes.packed_to_words` gives them. They are put into the
        kernel's order here, once, for rows that come one by one.
    limits : ndarray of shape (n_units,), int64
        A unit is on where at most its limit of bits differ; never if that is below 0.
    """

    def __init__(self, weights, limits):
        self.n_words = weights.shape[1]
        n_units = 64 * -(-len(weights) // 64)
        panels = _filled(weights, n_units, 0).reshape(n_units // 8, 8, -1)
        limits = _filled(limits, n_units, -1).reshape(n_units // 8, 8)
        self._panels = np.ascontiguousarray(panels[:, ::-1].transpose(0, 2, 1))
        self._limits = np.ascontiguousarray(limits[:, ::-1])

    def __call__(self, words) -> np.ndarray:
        """Return which units are on for each row.

        Parameters
        ----------
        words : ndarray of shape (n_rows, n_words), uint64

        Returns
        -------
        on : ndarray of shape (n_rows, ceil(n_units / 64)), uint64
            Words again; bits behind those of the units are 0.

        Raises
        ------
        ValueError
            If rows and weights differ in their number of words.
        """
        if words.shape[1] != self.n_words:
            raise ValueError(
                f"Weights of {self.n_words} words cannot be compared with rows of "
                f"{words.shape[1]}."
            )
        n = len(words)
        rows = _filled(words, -(-n // kernels.TILE_ROWS) * kernels.TILE_ROWS, 0)
        on = np.empty((len(rows), len(self._panels)), dtype=np.uint8)
        kernels.compare(rows, self._panels, self._limits, on)
        return on[:n].view(np.uint64)


def _filled(values, n, filling) -> np.ndarray:
    """Return a copy with `n` rows, those that are missing filled."""
    filled = np.full((n, *values.shape[1:]), filling, dtype=values.dtype)
    filled[: len(values)] = values
    return filled
