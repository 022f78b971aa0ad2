"""How hard to search for codes: the cheapest search that finds nearly the best."""

from itertools import product

import numpy as np

from skhash.quantization._codebook import squared_errors
from skhash.quantization._descent import BEAM, BlockDescent

# Widths of the beam and restarts to choose from, the cost of a restart in those of a
# block and code of the beam, and by how much the least error may be missed: by about
# twice as much in the end, as codes are more difficult to find by the last codebook.
WIDTHS, RESTARTS, COST, SLACK = (1, 2, 4, BEAM), (0, 2, 4, 8), 6, 1.0025
# Rows that try them.
N_ROWS = 500


def choose_search(X, codebook, offset, n_jobs=None) -> tuple[int, int]:
    """Return the width of the beam and the number of restarts for a codebook.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows that the codebook was not fitted to.
    codebook : ndarray of shape (n_blocks, n_values, n_features), float32
    offset : ndarray of shape (n_features,)
    n_jobs : int or None
    """
    X, descent = X[:N_ROWS], BlockDescent(codebook, n_restarts=max(RESTARTS))
    descent.n_jobs, kicks = n_jobs, descent.kicks
    values = np.empty((len(X), len(codebook)), dtype=np.uint8)

    def error(search):
        descent.beam_width, n_restarts = search
        descent.kicks = kicks[:n_restarts]
        descent.improve(X - offset, values, begin=True)
        return squared_errors(X, values, codebook, offset).sum()

    def cost(search):
        width, n_restarts = search
        return width * len(codebook) + COST * n_restarts

    searches = sorted(product(WIDTHS, RESTARTS), key=cost)
    most = SLACK * error((max(WIDTHS), max(RESTARTS)))
    return next(one for one in searches if error(one) <= most)
