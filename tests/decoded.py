"""Scores of what codes decode to, in float64, with the numbers that a byte holds."""

import math

import numpy as np


def in_a_byte(numbers, most=None):
    """Round to floats of eight bits, whose unit reaches the largest number.

    Below 128 units to whole ones, above to every second, and from 256 to every fourth;
    a half downwards.
    """
    numbers = np.float32(numbers).astype(float)
    most = numbers.max(initial=0) if most is None else most
    if most == 0:
        return numbers
    unit = 2.0 ** math.ceil(math.log2(most / 508))
    steps = np.where(numbers < 256 * unit, np.where(numbers < 128 * unit, 1, 2), 4)
    return np.ceil(numbers / unit / steps - 0.5) * steps * unit


def numbers_of(decoded, offset, by_angle, added=0):
    """Return what a byte holds: lengths, or squared distances from the offset."""
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
        numbers = in_a_byte(numbers_of(decoded, offset, by_angle, added))
    if not by_angle:
        away = queries - offset
        products = np.square(away).sum(axis=1)[:, None]
        products = products - 2 * away @ (decoded - offset).T
        return np.maximum(products + numbers, 0)
    norms = np.linalg.norm(queries, axis=1)[:, None] * numbers
    cosines = np.divide(queries @ decoded.T, norms, where=norms > 0, out=0 * norms)
    if metric == "inner_product":
        return -cosines
    return np.maximum(1 - cosines, 0) * (2 if metric == "euclidean" else 1)
