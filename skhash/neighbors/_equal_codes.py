"""Equal codes, stored once: each different code, and the positions where it stands."""

import numpy as np

from skhash.utils.chunks import row_chunks


class EqualCodes:
    """The different codes, and their positions.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.
    live : ndarray of shape (n,), bool, default=None
        Which of them count. None is all.

    Attributes
    ----------
    firsts : ndarray of shape (n_different,), int64
        The first position of each different code, ascending.
    starts : ndarray of shape (n_different + 1,), int64
    positions : ndarray of shape (n_live,), int32, or int64 from 2^31 codes on
        Those of the different code i are ``positions[starts[i] : starts[i + 1]]``,
        ascending.
    """

    def __init__(self, words, live=None):
        order = np.lexsort(words.T if live is None else words[live].T)
        if live is not None:
            order = np.flatnonzero(live)[order]
        in_order = words[order]
        is_new = np.ones(len(order), dtype=bool)
        np.any(in_order[1:] != in_order[:-1], axis=1, out=is_new[1:])
        # Where each code begins, and how many are equal: first as sorted, then by the
        # first positions.
        begins = np.flatnonzero(is_new)
        counts = np.diff(begins, append=len(order))
        by_first = np.argsort(order[begins])
        begins, counts = begins[by_first], counts[by_first]
        self.firsts = order[begins]
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        order = order.astype(np.int32 if len(words) < 2**31 else np.int64)
        places = np.arange(len(order)) + np.repeat(begins - self.starts[:-1], counts)
        self.positions = order[places]

    def __len__(self):
        return len(self.firsts)

    def numbers(self):
        """Return the number of the different code that each position has."""
        numbers = np.empty(len(self.positions), dtype=np.int64)
        numbers[self.positions] = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return numbers

    def pair_blocks(self, block_rows):
        """Yield pairs i < j of positions of equal codes, for so many i at a time."""
        n = len(self.positions)
        places, stops = np.empty((2, n), dtype=np.int64)
        places[self.positions] = np.arange(n)
        stops[self.positions] = np.repeat(self.starts[1:], np.diff(self.starts))
        for rows in row_chunks(n, 1, block_rows):
            behind = places[rows] + 1
            counts = stops[rows] - behind
            shifts = behind - (np.cumsum(counts) - counts)
            second = self.positions[np.arange(counts.sum()) + np.repeat(shifts, counts)]
            first = np.repeat(np.arange(rows.start, rows.stop), counts)
            yield np.stack([first, second], axis=1)
