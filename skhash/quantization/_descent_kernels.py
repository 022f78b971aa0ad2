"""The compiled part of `_descent`: one row at a time."""

from functools import partial

import numpy as np

from skhash.utils.kernels import inner_kernel, kernel

# Enough for a descent over blocks; rounding cannot make it endless.
MAX_SWEEPS = 50


@inner_kernel
def _copy(source, target):
    for k in range(len(target)):
        target[k] = source[k]


# Sums and minima may be taken in any order, in vector registers; there are no NaN.
_ANY_ORDER = {"fastmath": {"nnan", "nsz", "reassoc", "contract"}}
_fast_inner_kernel = partial(inner_kernel, **_ANY_ORDER)
_fast_kernel = partial(kernel, **_ANY_ORDER)


@_fast_inner_kernel
def _add(row, table):
    for k in range(len(table)):
        table[k] += row[k]


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
def _descend_blocks(values, table, couplings, tolerance):
    """Give blocks their best values in turn; return by how much the cost changes."""
    n_blocks = len(values)
    n_values = len(table) // n_blocks
    total, unchanged, block = 0.0, 0, 0
    for _ in range(MAX_SWEEPS * n_blocks):
        costs = table[block * n_values : (block + 1) * n_values]
        least = _least(costs)
        if least < costs[values[block]] - tolerance:
            value = 0
            while costs[value] > least:
                value += 1
            total += _change(block, value, values, table, couplings)
            unchanged = 0
        unchanged += 1
        if unchanged >= n_blocks:
            break
        block = block + 1 if block + 1 < n_blocks else 0
    return total


@_fast_kernel
def improve_blocks(tables, couplings, values, kicks, tolerance):
    """Improve `values` (n, n_blocks), uint8, in place."""
    n_blocks, n_entries = values.shape[1], tables.shape[1]
    n_values = n_entries // n_blocks
    best_table, table = np.empty(n_entries, np.float32), np.empty(n_entries, np.float32)
    best, tried = np.empty(n_blocks, np.uint8), np.empty(n_blocks, np.uint8)
    for i in range(len(values)):
        _copy(tables[i], best_table)
        _copy(values[i], best)
        for block in range(n_blocks):
            _add(couplings[block * n_values + best[block]], best_table)
        _descend_blocks(best, best_table, couplings, tolerance)
        for restart in range(len(kicks)):
            _copy(best_table, table)
            _copy(best, tried)
            change = 0.0
            for j in range(kicks.shape[1]):
                block, value = kicks[restart, j, 0], kicks[restart, j, 1]
                change += _change(block, value, tried, table, couplings)
            change += _descend_blocks(tried, table, couplings, tolerance)
            if change < -tolerance:
                _copy(table, best_table)
                _copy(tried, best)
        _copy(best, values[i])
