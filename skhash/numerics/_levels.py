"""A number of each code in few bytes: floats whose fraction is as short as serves.

A number of at least 0 is rounded to a float with few bits of fraction. The bit patterns
of such floats are integers in the order of the numbers, their *keys*. Codes keep
*levels*: how far their keys lie above the least one, in as few whole bytes as the
largest needs. Level 0 stands for 0. Zeros follow the bits of a level, so that the first
byte tells all levels apart as well as a byte can.

How long the fraction is belongs to the decoder, so that a code has the same number
beside any other codes. The bytes follow the codes that are there.
"""

from functools import partial

import numpy as np

# Bits of the fraction of float32, which are all.
FRACTION_BITS = 23
# That of the largest float32.
LARGEST_PATTERN = 0x7F7FFFFF
# Levels of a byte, and of two, that the rows of a fit may take: others reach further.
ROOM = 200, 50_000
# The recall that a byte, or two, may cost. It is that of N_NEIGHBORS for each of
# N_QUERIES queries, among N_ROWS rows.
MAX_COST, N_NEIGHBORS, N_QUERIES, N_ROWS = 0.002, 10, 500, 2000
# The share of the squared error of a code that is added to its squared distances.
# Without it, a code that approximates its vector badly looks nearer than the vector is.
ERROR_WEIGHT = 0.25


def keys_of(numbers, fraction_bits) -> np.ndarray:
    """Return the keys of numbers of at least 0, int64, that are rounded to the nearest.

    numbers : float32, at most half of the largest
    """
    shift = FRACTION_BITS - fraction_bits
    patterns = numbers.astype(np.float32).view(np.uint32).astype(np.int64)
    return (patterns + (1 << shift >> 1)) >> shift


def numbers_of(keys, fraction_bits) -> np.ndarray:
    """Return the numbers of keys, float32."""
    patterns = keys << (FRACTION_BITS - fraction_bits)
    return patterns.astype(np.uint32).view(np.float32)


def base_and_last(keys) -> tuple[int, int]:
    """Return what is taken from keys above 0, and the largest level."""
    above = keys[keys > 0]
    base = int(above.min()) - 1 if len(above) else 0
    return base, int(above.max()) - base if len(above) else 0


def n_level_bytes(last) -> int:
    """Return the bytes of levels of which `last` is the largest."""
    return max(1, -(-last.bit_length() // 8))


def spare_bits(last) -> int:
    """Return how many zeros follow the bits of such levels."""
    return 8 * n_level_bytes(last) - last.bit_length()


def has_same_bytes(last, other) -> bool:
    """Return whether levels up to `last` and to `other` have the same bytes."""
    return last.bit_length() == other.bit_length()


def keys_to_levels(keys, base, last) -> np.ndarray:
    """Return the bytes of levels, (n, n_level_bytes(last)), the highest first."""
    levels = np.where(keys > 0, keys - base, 0) << spare_bits(last)
    levels = levels.astype(">u4")[:, None].view(np.uint8)
    return np.ascontiguousarray(levels[:, 4 - n_level_bytes(last) :])


def levels_to_keys(levels, base, last) -> np.ndarray:
    keys = np.zeros(len(levels), dtype=np.int64)
    for byte in levels.T:
        keys = 256 * keys + byte
    keys >>= spare_bits(last)
    return np.where(keys > 0, keys + base, 0)


def choose_fractions(X, decoded, offset) -> tuple[int, int]:
    """Return how many bits the lengths and the squared distances of codes need.

    As many bits as fit into a byte are enough if rows lose hardly any of their
    neighbours by it, else those that fit into two bytes. Otherwise all are needed.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Rows, of which the first are the queries.
    decoded : ndarray of shape (n, n_features)
        What their codes decode to.
    offset : ndarray of shape (n_features,)
    """
    X, decoded = (rows.astype(np.float64) for rows in (X, decoded))
    queries, k = X[:N_QUERIES], min(N_NEIGHBORS, len(X) - 1)

    def nearest(scores):
        np.fill_diagonal(scores, np.inf)  # a row is not its own neighbour
        return first_columns(scores, k)

    def by_angle(lengths, rows):
        inverse = np.divide(1, lengths, where=lengths > 0, out=0 * lengths)
        return nearest(-queries @ rows.T * inverse)

    def by_distance(squares, rows):
        return nearest(squares - 2 * (queries - offset) @ (rows - offset).T)

    norms, lengths = (np.linalg.norm(rows, axis=1) for rows in (X, decoded))
    lengths[norms == 0] = 0  # as searches mark rows of zeros
    squares, beyond = (np.square(rows - offset).sum(axis=1) for rows in (X, decoded))
    beyond += ERROR_WEIGHT * np.square(X - decoded).sum(axis=1)
    return tuple(
        _shortest(numbers.astype(np.float32), partial(search, rows=decoded), true)
        for numbers, search, true in (
            (lengths, by_angle, by_angle(norms, X)),
            (beyond, by_distance, by_distance(squares, X)),
        )
    )


def first_columns(scores, k) -> np.ndarray:
    """Return the columns of the k smallest scores of a row; of equal ones, the first.

    They stand in their own order, not in that of the scores.
    """
    if not k:
        return np.empty((len(scores), 0), dtype=np.int64)
    last = np.partition(scores, k - 1, axis=1)[:, k - 1 : k]
    below, equal = scores < last, scores == last
    room = k - below.sum(axis=1, keepdims=True)
    chosen = below | equal & (np.cumsum(equal, axis=1) <= room)
    return np.nonzero(chosen)[1].reshape(len(scores), k)


def _shortest(numbers, search, true):
    """Return the least bits of the fraction by which a search finds nearly as many.

    search : returns the neighbours by numbers; true : those by the rows, (n, k)
    """
    fractions = range(FRACTION_BITS, 0, -1)

    def recall(bits):
        neighbors = search(numbers_of(keys_of(numbers, bits), bits))
        return np.mean(
            [np.isin(*pair).mean() for pair in zip(true, neighbors, strict=True)]
        )

    def n_levels(bits):
        keys = keys_of(numbers, bits)
        return np.ptp(keys[keys > 0]) if keys.any() else 0

    if not true.size:
        return FRACTION_BITS
    least = recall(FRACTION_BITS) - MAX_COST
    for room in ROOM:
        longest = next((bits for bits in fractions if n_levels(bits) <= room), 0)
        if longest and recall(longest) >= least:
            return longest
    return FRACTION_BITS
