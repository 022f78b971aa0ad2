"""Scores of what codes decode to, in float64, with the numbers beside codes."""

import numpy as np


def rounded(numbers, fraction_bits=23):
    """Round numbers to a fraction of `fraction_bits` bits, a half upwards."""
    numbers = np.float32(numbers).astype(float)
    _, exponents = np.frexp(numbers)
    steps = 2.0 ** (exponents - 1 - fraction_bits)
    return np.floor(numbers / steps + 0.5) * steps


def numbers_of(decoded, offset, by_angle, added=0):
    """Return the numbers: lengths, or squared distances from the offset."""
    if by_angle:
        return np.linalg.norm(decoded, axis=1)
    return np.square(decoded - offset).sum(axis=1) + added


def scores_of_decoded(
    queries, decoded, offset, metric, *, numbers=None, added=0, unit_rows=False
):
    """Return the scores of all pairs, (n_queries, n_codes).

    numbers : of the codes, rounded; unit_rows : whether all vectors, the decoded ones
    too, are scaled to unit length
    """
    queries, by_angle = np.asarray(queries, float), unit_rows or metric == "cosine"
    if not by_angle and metric == "inner_product":
        return -queries @ decoded.T
    if numbers is None:
        numbers = rounded(numbers_of(decoded, offset, by_angle, added))
    if not by_angle:
        away = queries - offset
        products = np.square(away).sum(axis=1)[:, None]
        products = products - 2 * away @ (decoded - offset).T
        return np.sqrt(np.maximum(products + numbers, 0))
    norms = np.linalg.norm(queries, axis=1)[:, None] * numbers
    cosines = np.divide(queries @ decoded.T, norms, where=norms > 0, out=0 * norms)
    if metric == "inner_product":
        return -cosines
    if metric == "euclidean":  # of vectors of length 1, or 0
        squares = [(np.linalg.norm(queries, axis=1) > 0)[:, None] * 1.0, numbers > 0]
        return np.sqrt(np.maximum(squares[0] + squares[1] - 2 * cosines, 0))
    return np.maximum(1 - cosines, 0)
