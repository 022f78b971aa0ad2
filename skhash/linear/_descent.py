"""Codes that minimise a quadratic function of their bits, one row at a time.

The squared error of a linear decoder is such a function. For a row x, a code h, offset
o and codebook U, with the Gram matrix ``G = U U^T`` and products ``c = (x - o) U^T``,

    |x - o - h U|^2 = |x - o|^2 + h G h^T - 2 c h^T ,

so that a cost w_k of setting bit k is the same as c_k less half of it. Flipping bit k,
with sign ``s_k = 1 - 2 h_k``, changes the value by ``d_k = G_kk - 2 s_k (c - h G)_k``,
and each other d_j by ``2 s_k s_j G_kj``: one look is O(1), one flip O(n_bits).
"""

import numpy as np

from skhash.utils.chunks import row_chunks
from skhash.utils.late import LateModule
from skhash.utils.threads import count_threads, map_in_threads

_kernels = LateModule("skhash.linear._descent_kernels")

# A flip has to lower the value by this share of the mean of the diagonal of G, so that
# rounding decides nothing but ties.
TOLERANCE = 1e-9
# How many bits a restart flips; a bit that is drawn twice is flipped back.
KICK = 8
BLOCK_ROWS = 1024


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
    kicks = random_state.randint(len(gram), size=(n_restarts, KICK))
    tolerance = TOLERANCE * np.diag(gram).mean()

    def improve(rows):
        work = np.empty((4, len(gram)))
        _kernels.improve(products[rows], gram, found[rows], kicks, tolerance, work)

    blocks = list(row_chunks(len(found), 1, budget=BLOCK_ROWS))
    map_in_threads(improve, blocks, min(count_threads(n_jobs), len(blocks)))
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
