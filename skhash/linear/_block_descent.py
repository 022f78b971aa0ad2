"""Codes of blocks that minimise a quadratic function, one row at a time.

For a row x and a code with values v_m, the squared error of a decoder of blocks (see
`_blocks`) is, with the Gram matrix ``G = C C^T`` of all entries and the products
``p = C (x - o)``,

    |x - o|^2 + sum_m (G[m v_m, m v_m] - 2 p[m v_m]) + 2 sum_{m<j} G[m v_m, j v_j] .

The table ``S[m k] = G[m k, m k] - 2 p[m k] + 2 sum_{j != m} G[j v_j, m k]`` tells what
each value of each block would cost. Another value of block m changes it by two rows of
`couplings`, which is 2 G without what entries of one block have to do with each other.
"""

import numpy as np

from skhash.utils.chunks import row_chunks
from skhash.utils.late import LateModule
from skhash.utils.threads import count_threads, map_in_threads

_kernels = LateModule("skhash.linear._block_kernels")

# A change has to lower the cost by this share of the mean of the diagonal of G, so that
# rounding decides nothing but ties.
TOLERANCE = 1e-6
# How many blocks a restart changes.
KICK = 2
BLOCK_ROWS = 64


class BlockDescent:
    """Coordinate descent over blocks, and again from the best code with some changed.

    Blocks are given their best values in turn as long as that lowers the cost. Each
    restart changes some blocks of the best code at random, descends again, and keeps
    what is better (iterated local search). All rows share the random changes, so that
    the code of a row does not depend on the rows beside it.

    Parameters
    ----------
    codebook : ndarray of shape (n_blocks, n_values, n_features), float32
    n_bits : int
        The last block has values for these only.
    n_restarts : int, default=0
    n_jobs : int, default=None
        Threads; see `count_threads`.
    seed : int, default=0
        Of the random changes.
    """

    def __init__(self, codebook, n_bits, *, n_restarts=0, n_jobs=None, seed=0):
        self.n_blocks, self.n_values, _ = codebook.shape
        self.entries = codebook.reshape(self.n_blocks * self.n_values, -1)
        self.n_jobs = n_jobs
        self._set_couplings()
        allowed = self._allowed(n_bits)
        # Beyond any sum that float32 can hold to the digits of a code's cost.
        self.diagonal[~allowed.ravel()] = np.finfo(np.float32).max / 4
        entries = np.flatnonzero(allowed)
        drawn = np.random.RandomState(seed).randint(
            len(entries), size=(n_restarts, KICK)
        )
        self.kicks = np.stack(np.divmod(entries[drawn], self.n_values), axis=2)

    def _allowed(self, n_bits):
        allowed = np.ones((self.n_blocks, self.n_values), dtype=bool)
        missing = self.n_blocks * (self.n_values.bit_length() - 1) - n_bits
        allowed[-1] = np.arange(self.n_values) % 2**missing == 0
        return allowed

    def _set_couplings(self):
        n_entries = len(self.entries)
        entries = self.entries.astype(np.float64)
        self.diagonal = np.einsum("ij,ij->i", entries, entries).astype(np.float32)
        self.tolerance = TOLERANCE * float(self.diagonal.mean())
        self.couplings = np.empty((n_entries, n_entries), dtype=np.float32)
        for rows in row_chunks(n_entries, 8 * n_entries):
            self.couplings[rows] = 2 * entries[rows] @ entries.T
        for first in range(0, n_entries, self.n_values):
            own = slice(first, first + self.n_values)
            self.couplings[own, own] = 0

    def improve(self, centered, values, anchor=None, bit_cost=0.0) -> None:
        """Improve `values` in place.

        Parameters
        ----------
        centered : ndarray of shape (n, n_features), float64
            Rows less the offset.
        values : ndarray of shape (n, n_blocks), uint8
            Where to start, and what is found.
        anchor : ndarray of shape (n, n_blocks), uint8
            Values that shall be kept.
        bit_cost : float, default=0.0
            What each bit costs that is not as in `anchor`.
        """
        for rows, tables in self._tables(centered):
            if bit_cost:
                numbers = np.arange(self.n_values, dtype=np.uint8)
                other = np.bitwise_count(anchor[rows, :, None] ^ numbers)
                tables += bit_cost * other.reshape(tables.shape)
            self._map(self._improve, tables, values[rows])

    def start(self, centered) -> np.ndarray:
        """Return values to start from, found for one block after the other."""
        values = np.empty((len(centered), self.n_blocks), dtype=np.uint8)
        for rows, tables in self._tables(centered):
            self._map(_kernels.start, tables, values[rows])
        return values

    def _tables(self, centered):
        """Yield rows and what each entry costs on its own."""
        entries = 2 * self.entries.T.astype(np.float64)
        for rows in row_chunks(len(centered), 12 * len(self.entries)):
            # In float64, as the last digits of a float32 product depend on how many
            # rows are multiplied at once.
            tables = self.diagonal - centered[rows] @ entries
            yield rows, tables.astype(np.float32)

    def _improve(self, tables, couplings, values):
        work = np.empty((2, len(couplings)), dtype=np.float32)
        _kernels.improve(tables, couplings, values, self.kicks, self.tolerance, work)

    def _map(self, function, tables, values):
        def work(rows):
            function(tables[rows], self.couplings, values[rows])

        parts = list(row_chunks(len(values), 1, budget=BLOCK_ROWS))
        map_in_threads(work, parts, min(count_threads(self.n_jobs), len(parts)))
