"""Codes that minimize a quadratic function of their blocks, one row at a time.

For a row x and a code with values v_m, the squared error of a decoder of blocks (see
`skhash.numerics._decoder`) is, with the Gram matrix ``G = C C^T`` of all entries and
the products ``p = C (x - o)``,

    |x - o|^2 + sum_m (G[m v_m, m v_m] - 2 p[m v_m]) + 2 sum_{m<j} G[m v_m, j v_j] .

The table ``S[m k] = G[m k, m k] - 2 p[m k] + 2 sum_{j != m} G[j v_j, m k]`` tells what
each value of each block would cost. Another value of block m changes it by two rows of
`couplings`, which is 2 G without what entries of one block have to do with each other.
A block of one bit has two values, of which the first is zero.
"""

import numpy as np

from skhash.numerics._affine import affine, in_panels
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.threads import count_threads, map_chunks

_kernels = LateModule("skhash.quantization._descent_kernels")

# A change has to lower the value by this share of the mean of the diagonal of G, so
# that rounding of float32 decides nothing but ties.
TOLERANCE = 1e-6
# How many blocks a restart changes, of single bits and of more: half of the values that
# are drawn for bits are the old ones.
BIT_KICK, BLOCK_KICK = 16, 2
# Rows that a thread takes at a time.
ROWS = 48


class BlockDescent:
    """Coordinate descent over blocks, and again from the best code with some changed.

    Blocks are given their best values in turn as long as that lowers the cost. Each
    restart changes some blocks of the best code at random, descends again, and keeps
    what is better (iterated local search). All rows share the random changes, so that
    the code of a row does not depend on the rows beside it.

    Parameters
    ----------
    codebook : ndarray of shape (n_blocks, n_values, n_features), float32
        Or of shape (n_bits, n_features), of bits.
    n_bits : int, default=None
        The last block has values for these only. None is whole blocks.
    n_restarts : int, default=0
    n_jobs : int, default=None
        Threads; see `count_threads`.
    seed : int, default=0
        Of the random changes.
    """

    def __init__(self, codebook, n_bits=None, *, n_restarts=0, n_jobs=None, seed=0):
        kick = BLOCK_KICK
        if codebook.ndim == 2:
            codebook = np.stack([np.zeros_like(codebook), codebook], axis=1)
            kick = BIT_KICK
        self.n_blocks, self.n_values, _ = codebook.shape
        self.entries = codebook.reshape(self.n_blocks * self.n_values, -1)
        self.n_jobs = n_jobs
        self._set_couplings()
        self.panels = in_panels(-2 * self.entries.T)
        allowed = self._allowed(n_bits)
        # Beyond any sum that float32 can hold to the digits of a code's cost.
        self.diagonal[~allowed.ravel()] = np.finfo(np.float32).max / 4
        entries = np.flatnonzero(allowed)
        random_state = np.random.RandomState(seed)
        drawn = random_state.randint(len(entries), size=(n_restarts, kick))
        self.kicks = np.stack(np.divmod(entries[drawn], self.n_values), axis=2)

    def _allowed(self, n_bits):
        allowed = np.ones((self.n_blocks, self.n_values), dtype=bool)
        if n_bits is not None:
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
            span = slice(first, first + self.n_values)
            self.couplings[span, span] = 0

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
        numbers = np.arange(self.n_values, dtype=np.uint8)

        def work(rows):
            tables = affine(centered[rows], self.panels, self.diagonal)
            tables = np.ascontiguousarray(tables)
            if bit_cost:
                other = np.bitwise_count(anchor[rows, :, None] ^ numbers)
                tables += bit_cost * other.reshape(tables.shape)
            options = self.kicks, self.tolerance
            _kernels.improve_blocks(tables, self.couplings, values[rows], *options)

        map_chunks(work, len(values), ROWS, count_threads(self.n_jobs))


def enumerate_codes(products, gram) -> np.ndarray:
    """Minimize ``h G h^T - 2 c h^T`` over all codes h, for each row.

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
