"""Layers of units with weights of -1 and +1 that read and write packed words."""

import numpy as np

from skhash.utils.late import LateModule

kernels = LateModule("skhash.algebra._binary_kernels")


def binary_units(words, weights, limits) -> np.ndarray:
    """Return which units are on: those that differ from a row in few bits.

    The product of n signs with n others is n less twice the bits that differ, so that
    a threshold of the product is a limit of those, and nothing is rounded.

    Parameters
    ----------
    words : ndarray of shape (n_rows, n_words), uint64
        Packed bits of rows, as `skhash.codes.packed_to_words` gives them.
    weights : ndarray of shape (n_units, n_words), uint64
        Those of the units.
    limits : ndarray of shape (n_units,), int64
        A unit is on where so many bits differ, or fewer; never where it is below 0.

    Returns
    -------
    on : ndarray of shape (n_rows, ceil(n_units / 64)), uint64
        Words again; bits behind those of the units are 0.

    Raises
    ------
    ValueError
        If rows and weights differ in their number of words.
    """
    if words.shape[1] != weights.shape[1]:
        raise ValueError(
            f"Weights of {weights.shape[1]} words cannot be compared with rows of "
            f"{words.shape[1]}."
        )
    n_units = 64 * -(-len(weights) // 64)
    panels = _filled(weights, n_units, 0).reshape(n_units // 8, 8, -1)
    limits = _filled(limits, n_units, -1).reshape(n_units // 8, 8)
    n = len(words)
    rows = _filled(words, -(-n // kernels.TILE_ROWS) * kernels.TILE_ROWS, 0)
    on = np.empty((len(rows), n_units // 8), dtype=np.uint8)
    panels = np.ascontiguousarray(panels[:, ::-1].transpose(0, 2, 1))
    kernels.compare(rows, panels, np.ascontiguousarray(limits[:, ::-1]), on)
    return on[:n].view(np.uint64)


def _filled(values, n, filling) -> np.ndarray:
    """Return a copy with so many rows, those that are missing filled."""
    filled = np.full((n, *values.shape[1:]), filling, dtype=values.dtype)
    filled[: len(values)] = values
    return filled
