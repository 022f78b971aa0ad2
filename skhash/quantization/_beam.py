"""Codes near vectors, block by block: a beam search.

For a row x and a code with values v_m, the squared error is, with the Gram matrix
``G = C C^T`` of all entries and the products ``p = C (x - o)``,

    |x - o|^2 + sum_m (G[m v_m, m v_m] - 2 p[m v_m]) + 2 sum_{j<m} G[j v_j, m v_m] .

Blocks get their values one after the other. After each, the `width` codes of the least
error so far are kept, and each of these is tried with all values of the next block.
"""

import numpy as np

from skhash.numerics._affine import affine, in_panels
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.threads import count_threads, map_chunks

_kernels = LateModule("skhash.quantization._beam_kernels")

# Codes that may be kept; rows that a thread takes at a time, which share the couplings
# of a block.
MAX_WIDTH, ROWS = 64, 96


class BeamSearch:
    """Beam search for the codes of rows.

    Parameters
    ----------
    codebook : ndarray of shape (n_blocks, 16 or 256, n_features), float32
    width : int
        How many codes are kept, at most `MAX_WIDTH`.
    n_jobs : int, default=None
        Threads; see `count_threads`.
    """

    def __init__(self, codebook, width, n_jobs=None):
        self.n_blocks, n_values, n_features = codebook.shape
        self.width, self.n_jobs = width, n_jobs
        entries = codebook.reshape(-1, n_features)
        self.panels = in_panels(-2 * entries.T)
        entries = entries.astype(np.float64)
        self.squares = np.einsum("ij,ij->i", entries, entries).astype(np.float32)
        firsts = range(n_values, len(entries), n_values)
        self.couplings = np.empty((sum(firsts), n_values), dtype=np.float32)
        panels = np.split(self.couplings, np.cumsum(firsts)[:-1])
        for first, panel in zip(firsts, panels, strict=self.n_blocks > 1):
            block_entries = 2 * entries[first : first + n_values].T
            for rows in row_chunks(first, 8 * n_values):
                panel[rows] = entries[rows] @ block_entries

    def search(self, centered, values) -> None:
        """Write the codes of rows.

        Parameters
        ----------
        centered : ndarray of shape (n, n_features), float64
            Rows less the offset.
        values : ndarray of shape (n, n_blocks), uint8
        """

        def work(rows):
            tables = affine(centered[rows], self.panels, self.squares)
            tables = np.ascontiguousarray(tables)
            _kernels.search_beam(tables, self.couplings, self.width, values[rows])

        map_chunks(work, len(values), ROWS, count_threads(self.n_jobs))
