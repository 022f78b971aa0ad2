"""Codes that minimise a quadratic function of their blocks, one row at a time.

For a row x and a code with values v_m, the squared error of a decoder of blocks (see
`skhash.numerics._decoder`) is, with the Gram matrix ``G = C C^T`` of all entries and
the products ``p = C (x - o)``,

    |x - o|^2 + sum_m (G[m v_m, m v_m] - 2 p[m v_m]) + 2 sum_{m<j} G[m v_m, j v_j] .

The table ``S[m k] = G[m k, m k] - 2 p[m k] + 2 sum_{j != m} G[j v_j, m k]`` tells what
each value of each block would cost. Another value of block m changes it by two rows of
`couplings`, which is 2 G without what entries of one block have to do with each other.

Single bits have a separate descent, which is three times as fast: for a code h,

    |x - o - h C|^2 = |x - o|^2 + h G h^T - 2 p h^T ,

so that a cost w_k of setting bit k is the same as p_k less half of it. Flipping bit k,
with sign ``s_k = 1 - 2 h_k``, changes the value by ``d_k = G_kk - 2 s_k (p - h G)_k``,
and each other d_j by ``2 s_k s_j G_kj``: one look is O(1), one flip O(n_bits).
"""

import numpy as np

from skhash.utils.chunks import row_chunks
from skhash.utils.late import LateModule
from skhash.utils.threads import count_threads, map_in_threads

_kernels = LateModule("skhash.linear._descent_kernels")

# A change has to lower the value by this share of the mean of the diagonal of G, so
# that rounding decides nothing but ties: for bits in float64, for blocks in float32.
BIT_TOLERANCE, BLOCK_TOLERANCE = 1e-9, 1e-6
# How many bits or blocks a restart changes. A bit that is drawn twice is flipped back.
BIT_KICK, BLOCK_KICK = 8, 2
# Rows that a thread takes at a time.
BIT_ROWS, BLOCK_ROWS = 1024, 64


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
            len(entries), size=(n_restarts, BLOCK_KICK)
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
        self.tolerance = BLOCK_TOLERANCE * float(self.diagonal.mean())
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
            The start, and then the result.
        anchor : ndarray of shape (n, n_blocks), uint8
            Values that shall be kept.
        bit_cost : float, default=0.0
            Cost of each bit that differs from `anchor`.
        """
        for rows, tables in self._tables(centered):
            if bit_cost:
                numbers = np.arange(self.n_values, dtype=np.uint8)
                other = np.bitwise_count(anchor[rows, :, None] ^ numbers)
                tables += bit_cost * other.reshape(tables.shape)
            options = self.kicks, self.tolerance
            self._map(_kernels.improve_blocks, tables, values[rows], *options)

    def start(self, centered) -> np.ndarray:
        """Return values to start from, found for one block after the other."""
        values = np.empty((len(centered), self.n_blocks), dtype=np.uint8)
        for rows, tables in self._tables(centered):
            self._map(_kernels.start_blocks, tables, values[rows])
        return values

    def _tables(self, centered):
        """Yield rows and the cost of each entry alone."""
        entries = 2 * self.entries.T.astype(np.float64)
        for rows in row_chunks(len(centered), 12 * len(self.entries)):
            # In float64, as the last digits of a float32 product depend on how many
            # rows are multiplied at once.
            tables = self.diagonal - centered[rows] @ entries
            yield rows, tables.astype(np.float32)

    def _map(self, function, tables, values, *options):
        def work(rows):
            function(tables[rows], self.couplings, values[rows], *options)

        _map_rows(work, len(values), BLOCK_ROWS, self.n_jobs)


class BitDescent:
    """Descent over single bits by `descend`, with the methods of `BlockDescent`."""

    def __init__(self, codebook, n_bits, **options):
        self.codewords, self.options = codebook.T.astype(np.float64), options
        self.gram = self.codewords.T @ self.codewords

    def products(self, centered, anchor=None, bit_cost=0.0) -> np.ndarray:
        """Return the products of rows for `descend`, with the cost of each bit."""
        products = centered @ self.codewords
        return products - bit_cost * (0.5 - anchor) if bit_cost else products

    def improve(self, centered, bits, anchor=None, bit_cost=0.0) -> None:
        """Improve `bits` in place."""
        products = self.products(centered, anchor, bit_cost)
        bits[:] = descend(products, self.gram, bits, **self.options)

    def start(self, centered) -> np.ndarray:
        """Return zeros to start from."""
        return np.zeros((len(centered), len(self.gram)), dtype=np.uint8)


def descend(products, gram, bits, *, n_restarts=0, n_jobs=None, seed=0) -> np.ndarray:
    """Minimise ``h G h^T - 2 c h^T`` over codes h of each row, from `bits` on.

    Bits are flipped in turn as long as a flip lowers the value (coordinate descent).
    Each restart flips some bits of the best code at random, descends again, and keeps
    what is better (iterated local search). All rows share the random flips, so that the
    code of a row does not depend on the rows beside it.

    Parameters
    ----------
    products : ndarray of shape (n, n_bits), float64
        c.
    gram : ndarray of shape (n_bits, n_bits), float64
        G, symmetric.
    bits : ndarray of shape (n, n_bits)
        Where to start, 0 and 1.
    n_restarts : int, default=0
    n_jobs : int, default=None
        Threads; see `count_threads`.
    seed : int, default=0
        Of the random flips.

    Returns
    -------
    bits : ndarray of shape (n, n_bits), uint8
        Codes of values that are not larger, and that no single flip lowers.
    """
    found = np.array(bits, dtype=np.uint8)
    random_state = np.random.RandomState(seed)
    kicks = random_state.randint(len(gram), size=(n_restarts, BIT_KICK))
    tolerance = BIT_TOLERANCE * np.diag(gram).mean()

    def improve(rows):
        parts = products[rows], gram, found[rows]
        _kernels.improve_bits(*parts, kicks, tolerance)

    _map_rows(improve, len(found), BIT_ROWS, n_jobs)
    return found


def enumerate_codes(products, gram) -> np.ndarray:
    """Minimise ``h G h^T - 2 c h^T`` over all codes h, for each row.

    Parameters
    ----------
    products : ndarray of shape (n, n_bits), float64
        c.
    gram : ndarray of shape (n_bits, n_bits), float64
        G.

    Returns
    -------
    bits : ndarray of shape (n, n_bits), uint8
        The best of the ``2**n_bits`` codes; of several, the first as a binary number.
    """
    n_bits = len(gram)
    numbers = np.arange(2**n_bits)[:, None]
    codes = (numbers >> np.arange(n_bits)[::-1] & 1).astype(np.float64)
    values = np.einsum("ij,ij->i", codes @ gram, codes)
    bits = np.empty((len(products), n_bits), dtype=np.uint8)
    for rows in row_chunks(len(products), 8 * len(codes)):
        bits[rows] = codes[np.argmin(values - 2 * products[rows] @ codes.T, axis=1)]
    return bits


def _map_rows(work, n_rows, size, n_jobs):
    parts = list(row_chunks(n_rows, 1, budget=size))
    map_in_threads(work, parts, min(count_threads(n_jobs), len(parts)))
