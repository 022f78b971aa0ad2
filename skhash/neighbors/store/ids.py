"""Ids of codes, and their positions."""

import numpy as np
from sklearn.utils import check_consistent_length

from skhash.utils.arrays import as_array

LAST_ASCII = 127


def to_bytes(ids):
    """Return strings in UTF-8, which sort as they do, and integers as they are."""
    if ids.dtype.kind != "U":
        return ids
    ids = np.ascontiguousarray(ids, dtype=ids.dtype.newbyteorder("="))
    codes = ids[..., None].view(np.uint32)
    if codes.max(initial=0) > LAST_ASCII:
        return np.char.encode(ids, "utf-8", "surrogatepass")
    return codes.astype(np.uint8).view(f"S{codes.shape[-1]}")[..., 0]


def to_strings(ids):
    """Return the strings of `to_bytes`, and integers as they are."""
    if ids.dtype.kind != "S":
        return ids
    codes = np.ascontiguousarray(ids)[..., None].view(np.uint8)
    if codes.max(initial=0) > LAST_ASCII:
        return np.char.decode(ids, "utf-8", "surrogatepass")
    return codes.astype(np.uint32).view(f"U{codes.shape[-1]}")[..., 0]


def read_ids(ids, X=None):
    """Return ids as int64 or as strings in UTF-8, one a row of `X`; None is None.

    Raises
    ------
    ValueError
        If they are neither all integers of 64 bits nor all strings without NUL, or are
        not as many as rows.
    """
    if ids is None:
        return None
    array = as_array(ids)
    if array.ndim == 1 and array.dtype.kind in "OTU":
        # Of a list of numbers and strings NumPy makes strings, without a word, and of
        # strings it drops NUL at the end.
        for one in array.tolist() if isinstance(ids, np.ndarray) else ids:
            if not isinstance(one, str) or "\0" in one:
                raise ValueError(
                    f"Ids must be all integers or all strings, got {one!r} among them; "
                    "integers must fit into 64 bits, and strings must not hold NUL."
                )
        if array.dtype.kind != "U":
            array = array.astype(object).astype(str)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(
            "Ids must be a list of integers or strings, got an array of shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"Ids must fit into int64, got {array.max()}.")
    if X is not None:
        check_consistent_length(X, array)
    return to_bytes(array) if array.dtype.kind == "U" else array.astype(np.int64)


def check_same_kind(known, ids):
    """Raise ``ValueError`` if some ids are strings and the others integers."""
    if len(ids) and known.dtype.kind != ids.dtype.kind:
        names = {"S": "strings", "i": "integers"}
        raise ValueError(
            f"The ids of the index are {names[known.dtype.kind]}, but these are "
            f"{names[ids.dtype.kind]}, such as {first_of(ids)!r}; give ids of the same "
            "kind."
        )


def first_of(ids):
    """Return the first id, for messages."""
    return to_strings(ids[:1])[0].item()


class IdLookup:
    """An immutable map from ids to positions.

    It holds sorted runs, each at least twice as long as the next: a new run is merged
    with those that are too short, so that an id is sorted in some log2(n) times at
    most, however few are added at a time. Codes that were removed stay in their runs
    until those are merged; of the codes that are live, no two have the same id.
    """

    def __init__(self, runs=()):
        self._runs = runs

    @property
    def nbytes(self):
        """The bytes of all runs."""
        return sum(part.nbytes for run in self._runs for part in run)

    def add(self, ids, positions, live):
        """Return a lookup that also knows the `ids` of codes at new `positions`.

        live : ndarray of bool over the positions of before, or None for all

        Raises
        ------
        ValueError
            If an id occurs twice, or one of a live code once more.
        """
        order = np.argsort(ids, kind="stable")
        run = ids[order], positions[order]
        twice = run[0][1:] == run[0][:-1]
        if twice.any():
            raise ValueError(
                f"Ids must be unique, but {first_of(run[0][1:][twice])!r} occurs twice."
            )
        known = self.find(ids, live) >= 0
        if known.any():
            raise ValueError(
                f"A code with the id {first_of(ids[known])!r} is already in the index; "
                "to replace it, call replace."
            )
        runs = list(self._runs)
        while runs and len(runs[-1][0]) < 2 * len(run[0]):
            run = _merged(runs.pop(), run, live)
        return IdLookup((*runs, run))

    def find(self, ids, live):
        """Return the position of each id, or -1 where no live code has it."""
        positions = np.full(len(ids), -1, dtype=np.int64)
        for known, places in self._runs:
            if len(known):
                # In the type of the known ones, which would be copied for longer ids:
                # what is cut of these differs from all that are known.
                slots = np.searchsorted(known, ids.astype(known.dtype))
                slots = np.minimum(slots, len(known) - 1)
                hits = np.flatnonzero(known[slots] == ids)
                matches = places[slots[hits]]
                if live is not None:
                    hits, matches = hits[live[matches]], matches[live[matches]]
                positions[hits] = matches
        return positions


def _merged(run, newer, live):
    """Merge two sorted runs, without the codes that were removed from the first."""
    ids, places = run
    if live is not None:
        ids, places = ids[live[places]], places[live[places]]
    ids = np.concatenate([ids, newer[0]])
    order = np.argsort(ids, kind="stable")
    return ids[order], np.concatenate([places, newer[1]])[order]
