"""A number of each code in few bytes: floats whose fraction is as short as serves.

A number of at least 0 is rounded to a float with few bits of fraction. The bit patterns
of such floats are integers in the order of the numbers, their *keys*. Codes keep
*levels*: how far their keys lie above the least one, in as few whole bytes as the
largest needs. Level 0 stands for 0.

How long the fraction is belongs to the decoder, so that a code has the same number
beside any other codes. The bytes follow the codes that are there.
"""

import numpy as np

# Bits of the fraction of float32, which are all.
FRACTION_BITS = 23
# That of the largest float32.
LARGEST_PATTERN = 0x7F7FFFFF
# Levels of a byte, and of two, that the rows of a fit may take: others reach further.
ROOM = 200, 50_000
# The recall that a byte, or two, may cost, among so many neighbours of queries, found
# among so many rows.
MAX_COST, N_NEIGHBORS, N_QUERIES, N_ROWS = 0.005, 10, 500, 2000


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


def base_and_width(keys) -> tuple[int, int]:
    """Return what is taken from keys above 0, and the bytes of the largest level."""
    above = keys[keys > 0]
    base = int(above.min()) - 1 if len(above) else 0
    most = int(above.max()) - base if len(above) else 0
    return base, max(1, -(-most.bit_length() // 8))


def keys_to_levels(keys, base, width) -> np.ndarray:
    """Return the bytes of levels, (n, width), the highest first."""
    levels = np.where(keys > 0, keys - base, 0).astype(">u4")
    return np.ascontiguousarray(levels[:, None].view(np.uint8)[:, 4 - width :])


def levels_to_keys(levels, base) -> np.ndarray:
    keys = np.zeros(len(levels), dtype=np.int64)
    for byte in levels.T:
        keys = 256 * keys + byte
    return np.where(keys > 0, keys + base, 0)


def choose_fractions(X, decoded, offset, share) -> tuple[int, int]:
    """Return how many bits lengths and squared distances of decoded vectors need.

    That are as many as fit into a byte, if rows lose hardly any of their neighbours by
    it, else as many as fit into two, or all.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Rows, of which the first are the queries.
    decoded : ndarray of shape (n, n_features)
        What their codes decode to.
    offset : ndarray of shape (n_features,)
    share : float
        That of the squared error of a row, which is added to its distance.
    """
    X, decoded = (rows.astype(np.float64) for rows in (X, decoded))
    n_queries = min(len(X), N_QUERIES)
    beyond, X = decoded - offset, X - offset
    squares = np.square(beyond).sum(axis=1)
    squares += share * np.square(X - beyond).sum(axis=1)
    lengths = np.linalg.norm(decoded, axis=1)

    def nearest(scores):
        scores[np.arange(n_queries), np.arange(n_queries)] = np.inf
        k = min(N_NEIGHBORS, len(X) - 1)
        return np.argsort(scores, axis=1, kind="stable")[:, :k]

    def by_distance(numbers, rows=beyond):
        return nearest(numbers - 2 * X[:n_queries] @ rows.T)

    def by_angle(numbers, rows=decoded):
        inverse = np.divide(1, numbers, where=numbers > 0, out=0 * numbers)
        return nearest(-(X[:n_queries] + offset) @ rows.T * inverse)

    rows = X + offset
    true = by_angle(np.linalg.norm(rows, axis=1), rows)
    length = _shortest(lengths, by_angle, true)
    true = by_distance(np.square(X).sum(axis=1), X)
    return length, _shortest(squares, by_distance, true)


def _shortest(numbers, search, true):
    """Return the bits of the fraction with which a search finds nearly as many."""
    if not len(true) or not true.shape[1]:
        return FRACTION_BITS
    numbers = numbers.astype(np.float32)
    fractions = range(FRACTION_BITS, 0, -1)

    def recall(fraction_bits):
        found = search(numbers_of(keys_of(numbers, fraction_bits), fraction_bits))
        both = np.sort(np.hstack([found, true]), axis=1)
        return (both[:, 1:] == both[:, :-1]).mean() * both.shape[1]

    def n_levels(fraction_bits):
        keys = keys_of(numbers, fraction_bits)
        return np.ptp(keys[keys > 0]) if keys.any() else 0

    most = recall(FRACTION_BITS)
    for room in ROOM:
        longest = next((bits for bits in fractions if n_levels(bits) <= room), 0)
        if longest and most - recall(longest) <= MAX_COST * true.shape[1]:
            return longest
    return FRACTION_BITS
