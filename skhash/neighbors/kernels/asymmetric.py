"""The kernels of asymmetric search: real-valued queries against packed codes.

The score of code i for query q is ``max(floor, factor_i * sum_q(i) + term_i)``, where
the sum is that of one table entry per byte of the code, see `lanes`, and `law` makes
term and factor of its level.
Every kernel adds in the same order, so a pair has one score, to the last bit.

Arguments of all of them, floats being float32:

* queries (n_queries, n_bytes, 256): their tables;
* codes: blocks, with the bytes of levels behind those of codes, n, their number, law;
* work, buffers: tables (n_bytes, 256, LANES), lanes (2, LANES).
"""

import numpy as np

from skhash.neighbors.kernels.blocks import level_at
from skhash.neighbors.kernels.heap import replace_top
from skhash.neighbors.kernels.lanes import LANES, score_lanes
from skhash.neighbors.kernels.law import factor_and_term
from skhash.utils.kernels import inner_kernel, kernel


@inner_kernel
def _stand_side_by_side(queries, first, tables):
    """Put the tables of up to LANES queries from `first` on side by side.

    Return their number. Places of missing ones are not used.
    """
    present = min(LANES, len(queries) - first)
    for byte in range(tables.shape[0]):
        for value in range(256):
            for lane in range(present):
                tables[byte, value, lane] = queries[first + lane, byte, value]
    return present


@inner_kernel
def _of_code(blocks, n_bytes, law, position):
    """Return the factor and the term of a code."""
    return factor_and_term(law, level_at(blocks, n_bytes, position))


@kernel
def score_all(queries, codes, work, scores):
    """Write scores (n_queries, n)."""
    blocks, n, law = codes
    tables, lanes = work
    for first in range(0, len(queries), LANES):
        present = _stand_side_by_side(queries, first, tables)
        for row in range(n):
            factor, term = _of_code(blocks, queries.shape[1], law, row)
            score_lanes(tables, blocks, row, factor, term, law.floor, lanes)
            for lane in range(present):
                scores[first + lane, row] = lanes[1, lane]


@kernel
def nearest(queries, codes, work, scores, positions):
    """Write the k codes of smallest (score, position) of each query, in no order.

    scores (n_queries, k) : infinity, and positions (n_queries, k) : int64, written.
    """
    blocks, n, law = codes
    tables, lanes = work
    for first in range(0, len(queries), LANES):
        present = _stand_side_by_side(queries, first, tables)
        lanes[0] = -np.inf
        lanes[0, :present] = np.inf
        for row in range(n):
            factor, term = _of_code(blocks, queries.shape[1], law, row)
            # Positions grow: a code that only equals the worst so far comes too late.
            if score_lanes(tables, blocks, row, factor, term, law.floor, lanes):
                for lane in range(present):
                    if lanes[1, lane] < lanes[0, lane]:
                        q = first + lane
                        replace_top(scores[q], positions[q], lanes[1, lane], row)
                        lanes[0, lane] = scores[q, 0]
