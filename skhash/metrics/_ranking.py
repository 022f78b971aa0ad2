"""Closed forms of ranking metrics from counts per distance, one value a query.

In all of them ``n`` and ``r`` are integer arrays of shape (n_queries, n_distances):
the codes, and the relevant codes, at each distance. Ranks count from 1. Within a
distance the order is random, or by relevance; across distances it is known.
"""

import numpy as np
from scipy.special import digamma


def below(counts: np.ndarray) -> np.ndarray:
    """Count the codes strictly nearer than each distance."""
    return np.cumsum(counts, axis=1) - counts


def expected_hits(n, r, k: int) -> np.ndarray:
    """Return the expected number of relevant codes among the best `k`.

    The distance at which the list is cut gives its share: `s` free places in a block of
    `n` codes, `r` of them relevant, are worth ``s r / n``.
    """
    places = np.clip(k - below(n), 0, n)
    return (places * r / np.maximum(n, 1)).sum(axis=1)


def expected_precision_sum(n, r, k: int) -> np.ndarray:
    """Return the expectation of ``sum_{t <= k} P(t) rel(t)`` over the order of ties.

    A place t in a block is relevant with probability r/n, and given that, each of the
    places before it in the block with probability s = (r-1)/(n-1). With N and R the
    codes and relevant codes that are nearer, the block contributes ::

        (r/n) sum_t [R + 1 + (t - N - 1) s] / t

    which is a difference of harmonic numbers, H(t) = digamma(t + 1) + const.
    """
    n_below, r_below = below(n), below(r)
    first, last = np.minimum(n_below, k), np.minimum(n_below + n, k)
    slope = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    harmonic = digamma(last + 1.0) - digamma(first + 1.0)
    constant = (r_below + 1 - (n_below + 1) * slope) * harmonic
    blocks = r / np.maximum(n, 1) * (constant + slope * (last - first))
    return blocks.sum(axis=1)


def sorted_sums(n, r, k: int, best: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return hits and ``sum P(t) rel(t)`` with relevant codes first (or last) in ties.

    The i-th of them stands at rank N + o + i, with o = 0 or n - r codes of its block
    before it, so the sum of (R + i) / (N + o + i) is again a difference of harmonic
    numbers.
    """
    n_before = below(n) if best else below(n) + n - r
    hits = np.clip(k - n_before, 0, r)
    harmonic = digamma(n_before + hits + 1.0) - digamma(n_before + 1.0)
    precisions = hits + (below(r) - n_before) * harmonic
    return hits.sum(axis=1).astype(np.float64), precisions.sum(axis=1)


def sums_within(n, r, k: int, ties: str) -> tuple[np.ndarray, np.ndarray]:
    """Return hits and ``sum P(t) rel(t)`` for ties "expected", "best" or "worst"."""
    if ties == "expected":
        return expected_hits(n, r, k), expected_precision_sum(n, r, k)
    return sorted_sums(n, r, k, best=ties == "best")


def discounted_gain(n, gain_sums, discount: np.ndarray) -> np.ndarray:
    """Return the DCG in which each code of a block has the block's mean gain.

    `gain_sums` has the shape of `n` and holds the sum of gains of each block.
    """
    k = len(discount)
    cumulative = np.concatenate([[0.0], np.cumsum(discount)])
    n_below = below(n)
    first, last = np.minimum(n_below, k), np.minimum(n_below + n, k)
    weight = cumulative[last] - cumulative[first]
    return (gain_sums / np.maximum(n, 1) * weight).sum(axis=1)


def ratio(numerator, denominator, empty: float) -> np.ndarray:
    """Divide, with `empty` where the denominator is 0."""
    denominator = np.asarray(denominator, dtype=np.float64)
    result = np.full(np.shape(numerator), empty, dtype=np.float64)
    return np.divide(numerator, denominator, out=result, where=denominator > 0)
