"""The compiled part of `_block_descent`: one row at a time."""

from functools import partial

import numpy as np

from skhash.utils.kernels import inner_kernel, kernel

# Enough for a descent; rounding cannot make it endless.
MAX_SWEEPS = 50


# Sums and minima may be taken in any order, in vector registers; there are no NaN.
_ANY_ORDER = {"fastmath": {"nnan", "nsz", "reassoc", "contract"}}
_fast_inner_kernel = partial(inner_kernel, **_ANY_ORDER)
_fast_kernel = partial(kernel, **_ANY_ORDER)


@_fast_inner_kernel
def _change(block, value, values, table, couplings):
    """Give a block another value; return by how much the cost changes."""
    first = block * (len(table) // len(values))
    old, new = first + values[block], first + value
    change = np.float64(table[new]) - np.float64(table[old])
    out, into = couplings[old], couplings[new]
    for k in range(len(table)):
        table[k] += into[k] - out[k]
    values[block] = value
    return change


@_fast_inner_kernel
def _least(costs):
    """Return the smallest entry."""
    least = costs[0]
    for k in range(len(costs)):
        least = min(least, costs[k])
    return least


@_fast_inner_kernel
def _descend(values, table, couplings, tolerance):
    """Give blocks their best values in turn; return by how much the cost changes."""
    n_blocks = len(values)
    n_values = len(table) // n_blocks
    total, unchanged, block = 0.0, 0, 0
    for _ in range(MAX_SWEEPS * n_blocks):
        own = table[block * n_values : (block + 1) * n_values]
        least = _least(own)
        if least < own[values[block]] - tolerance:
            value = 0
            while own[value] > least:
                value += 1
            total += _change(block, value, values, table, couplings)
            unchanged = 0
        unchanged += 1
        if unchanged >= n_blocks:
            break
        block = block + 1 if block + 1 < n_blocks else 0
    return total


@_fast_kernel
def improve(tables, couplings, values, kicks, tolerance, work):
    """Improve `values` (n, n_blocks), uint8, in place."""
    best_table, table = work[0], work[1]
    n_blocks = values.shape[1]
    n_values = len(table) // n_blocks
    best, tried = np.empty(n_blocks, np.int64), np.empty(n_blocks, np.int64)
    for i in range(len(values)):
        for k in range(len(table)):
            best_table[k] = tables[i, k]
        for block in range(n_blocks):
            best[block] = values[i, block]
            row = couplings[block * n_values + best[block]]
            for k in range(len(table)):
                best_table[k] += row[k]
        _descend(best, best_table, couplings, tolerance)
        for restart in range(len(kicks)):
            for k in range(len(table)):
                table[k] = best_table[k]
            for block in range(n_blocks):
                tried[block] = best[block]
            change = 0.0
            for j in range(kicks.shape[1]):
                block, value = kicks[restart, j, 0], kicks[restart, j, 1]
                change += _change(block, value, tried, table, couplings)
            change += _descend(tried, table, couplings, tolerance)
            if change < -tolerance:
                for k in range(len(table)):
                    best_table[k] = table[k]
                for block in range(n_blocks):
                    best[block] = tried[block]
        for block in range(n_blocks):
            values[i, block] = best[block]


@kernel
def start(tables, couplings, values):
    """Give the blocks of each row, one after the other, their best values so far."""
    n_blocks = values.shape[1]
    n_values = tables.shape[1] // n_blocks
    table = np.empty(tables.shape[1], np.float32)
    for i in range(len(values)):
        for k in range(len(table)):
            table[k] = tables[i, k]
        for block in range(n_blocks):
            first = block * n_values
            value = np.argmin(table[first : first + n_values])
            values[i, block] = value
            row = couplings[first + value]
            for k in range(len(table)):
                table[k] += row[k]
