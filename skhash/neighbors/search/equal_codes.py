"""Equal codes: each distinct code, and its positions."""

import numpy as np

from skhash.utils.chunks import row_chunks


class EqualCodes:
    """The distinct codes, and their positions.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint64
        The codes.

    Attributes
    ----------
    firsts : ndarray of shape (n_different,), int64
        The first position of each different code, ascending.
    starts : ndarray of shape (n_different + 1,), int64
    positions : ndarray of shape (n,), int32, or int64 for 2^31 codes or more
        Those of the different code i are ``positions[starts[i] : starts[i + 1]]``,
        ascending.
    """

    def __init__(self, words):
        order = np.lexsort(words.T)
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
        """Return the number of the distinct code at each position."""
        numbers = np.empty(len(self.positions), dtype=np.int64)
        numbers[self.positions] = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return numbers

    def pair_blocks(self, block_rows):
        """Yield pairs i < j of positions of equal codes, for chunks of i."""
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
