"""Selection of the codes to search: all live ones, or those that pass a filter."""

from typing import NamedTuple

import numpy as np

from skhash.neighbors.store.ids import read_ids
from skhash.utils.arrays import as_array

# A scan passes over filtered codes at the cost of the others. Where fewer than this
# share pass the filter, copying them out is cheaper: of decoded codes, whose scan also
# compares many at a time, and others do not, a smaller one.
SCAN_SHARE, DECODED_SCAN_SHARE = 0.5, 0.05


class Selection(NamedTuple):
    """The codes among which to search.

    Attributes
    ----------
    n : int
        How many codes may be found.
    positions : ndarray of int64, or None
        Where they stand, ascending, if it pays to copy them out.
    live : ndarray of shape (store.n,), bool, or None
        Else, whether each code may be found; None is all.
    """

    n: int
    positions: np.ndarray | None = None
    live: np.ndarray | None = None


def select(store, mask=None, ids=None, exclude=None):
    """Return the codes of the store that may be found.

    Parameters
    ----------
    store : Store
    mask : array-like of shape (store.n,), bool, default=None
        Whether each position may be found.
    ids : array-like of shape (n_ids,), default=None
        The ids, or positions where the store has no ids, that may be found. Those that
        are not there are passed over.
    exclude : array-like of shape (n_ids,), default=None
        Those that may not be found. The same holds.
    """
    least = (SCAN_SHARE if store.decoder is None else DECODED_SCAN_SHARE) * store.n
    if mask is not None:
        mask = _read_mask(mask, store.n)
    if exclude is not None:
        excluded = store.find(read_ids(exclude))
        mask = np.ones(store.n, dtype=bool) if mask is None else mask.copy()
        mask[excluded[excluded >= 0]] = False
    if ids is not None:
        positions = np.sort(store.find(read_ids(ids)))
        # Each once, without -1.
        positions = positions[np.diff(positions, prepend=-1) > 0]
        if mask is not None:
            positions = positions[mask[positions]]
        if len(positions) < least:
            return Selection(len(positions), positions)
        mask = np.zeros(store.n, dtype=bool)
        mask[positions] = True
    live = store["live"]
    if mask is not None:
        live = mask if live is None else live & mask
    if live is None:
        return Selection(store.n)
    n = np.count_nonzero(live)
    if n >= least:
        return Selection(n, live=live)
    return Selection(n, np.flatnonzero(live))


def _read_mask(mask, n):
    mask = as_array(mask)
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(
            f"mask must be {n} booleans, one per position, got an array of shape "
            f"{mask.shape} and dtype {mask.dtype}; to name single codes, use ids=."
        )
    return mask
