"""What an attack is given: sizes, random numbers, a folder, and what it counts."""

from collections import Counter
from zlib import crc32

import numpy as np


class Case:
    """A problem while it is tried.

    Parameters
    ----------
    problem : Problem
    folder : Path
        An empty directory, which is removed afterwards.

    Attributes
    ----------
    counts : Counter
        How many queries were answered, processes killed, and so on.
    """

    def __init__(self, problem, folder):
        self.problem, self.folder, self.counts = problem, folder, Counter()
        self.n, self.n_bits = problem.n, problem.n_bits
        self.n_queries, self.n_steps = problem.n_queries, problem.n_steps

    def rng(self, *purpose):
        """Return random numbers for one purpose.

        Others do not shift them, so that a smaller problem is a part of a larger one.
        """
        words = [crc32(str(word).encode()) for word in purpose]
        return np.random.default_rng([self.problem.seed, *words])

    def bits(self, name, n):
        """Draw codes in clusters; in some problems many are equal, or nearly constant.

        Those of other names are in the same clusters.
        """
        rng = self.rng("clusters")
        density, noise = rng.choice([0.5, 0.5, 0.1, 0.95]), rng.choice([0, 0.03, 0.5])
        centers = rng.random((rng.integers(1, 50), self.n_bits)) < density
        owners = self.rng(name, "owners").integers(0, len(centers), n)
        flips = self.rng(name, "flips").random((n, self.n_bits)) < noise
        return (centers[owners] ^ flips).astype(np.uint8)

    def vectors(self, name, n, n_features):
        """Draw vectors of small whole numbers: scores are exact, and ties are many."""
        rng = self.rng(name, "vectors")
        return rng.integers(-4, 5, (n, n_features)).astype(np.float64)

    def queries(self, name):
        """Draw the codes of queries."""
        return self.bits((name, "queries"), self.n_queries)


def log_uniform(rng, low, high):
    """Draw a whole number, small ones as often as large ones, from `low` to `high`."""
    return int(np.floor(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))
