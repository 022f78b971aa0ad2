"""A problem: one attack, of some size, drawn from one seed."""

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from skhash.soak import crowds, directories, searches
from skhash.soak.case import Case, log_uniform

# Attacks, and how often each is drawn.
ATTACKS = {
    "hamming": (searches.hamming, 12),
    "asymmetric": (searches.asymmetric, 6),
    "prefix": (searches.prefix, 1),
    "hashed": (searches.hashed, 1),
    "pairs": (searches.pairs, 1),
    "merge": (searches.merge, 1),
    "kills": (directories.kills, 2),
    "savers": (directories.savers, 1),
    "damage": (directories.damage, 2),
    "forgery": (directories.forgery, 2),
    "threads": (crowds.threads, 1),
    "forks": (crowds.forks, 1),
}
# Lengths of codes around those of bytes, words and vectors.
LENGTHS = (1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 192, 256, 512, 513, 1024)


@dataclass(frozen=True)
class Problem:
    """What one seed says to try.

    Parameters
    ----------
    attack : str
        One of `ATTACKS`.
    seed : int
        Where all random numbers come from.
    n, n_bits, n_queries : int
        Codes, their bits, and queries of a question.
    n_steps : int
        Questions, changes or kills.

    Examples
    --------
    >>> from skhash.soak import Problem
    >>> problem = Problem("merge", seed=0, n=50, n_bits=8, n_queries=3, n_steps=2)
    >>> problem.run()
    Counter({'queries': 6})
    """

    attack: str
    seed: int
    n: int
    n_bits: int
    n_queries: int
    n_steps: int

    @classmethod
    def drawn(cls, seed, attacks=tuple(ATTACKS)):
        """Return the problem of a seed, one of the `attacks`."""
        rng = np.random.default_rng(seed)
        weights = np.array([ATTACKS[name][1] for name in attacks], dtype=float)
        attack = str(rng.choice(attacks, p=weights / weights.sum()))
        is_even = rng.random() < 0.5
        n_bits = rng.integers(1, 300) if is_even else rng.choice(LENGTHS)
        return cls(
            attack,
            seed,
            n=log_uniform(rng, 1, 3000),
            n_bits=int(n_bits),
            n_queries=log_uniform(rng, 1, 400),
            n_steps=int(rng.integers(1, 13)),
        )

    def run(self):
        """Try it; return what was counted, or raise."""
        # Where a problem fails, its processes may go on to write for a moment.
        with tempfile.TemporaryDirectory(
            prefix="skhash-soak-", ignore_cleanup_errors=True
        ) as folder:
            case = Case(self, Path(folder))
            ATTACKS[self.attack][0](case)
        return case.counts

    def smaller(self):
        """Yield problems that are smaller in one way, the smallest first."""
        for name, size in asdict(self).items():
            if name not in ("attack", "seed"):
                for less in sorted({1, size // 2, size - 1} - {0, size}):
                    yield replace(self, **{name: less})
