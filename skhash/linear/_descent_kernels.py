"""The compiled part of `_descent`: one row at a time."""

import numpy as np

from skhash.utils.kernels import inner_kernel, kernel


@inner_kernel
def _flip(bit, signs, changes, gram):
    """Flip one bit; return by how much the value changes."""
    change, sign = changes[bit], signs[bit]
    for k in range(len(signs)):
        changes[k] += 2 * sign * signs[k] * gram[bit, k]
    signs[bit], changes[bit] = -sign, -change
    return change


@inner_kernel
def _descend(signs, changes, gram, tolerance):
    """Flip bits in turn as long as one helps; return by how much the value changes."""
    total, helped = 0.0, True
    while helped:
        helped = False
        for bit in range(len(signs)):
            if changes[bit] < -tolerance:
                total += _flip(bit, signs, changes, gram)
                helped = True
    return total


@kernel
def improve(products, gram, bits, kicks, tolerance, work):
    """Improve `bits` (n, n_bits), uint8, in place; `work` is (4, n_bits), float64."""
    n_bits = len(gram)
    signs, changes, best_signs, best_changes = work[0], work[1], work[2], work[3]
    for i in range(len(bits)):
        for k in range(n_bits):
            best_signs[k] = 1 - 2 * np.int64(bits[i, k])
            best_changes[k] = -2 * products[i, k]
        for bit in range(n_bits):
            if bits[i, bit]:
                for k in range(n_bits):
                    best_changes[k] += 2 * gram[bit, k]
        for k in range(n_bits):
            best_changes[k] = gram[k, k] + best_signs[k] * best_changes[k]
        _descend(best_signs, best_changes, gram, tolerance)
        for restart in range(len(kicks)):
            for k in range(n_bits):
                signs[k], changes[k] = best_signs[k], best_changes[k]
            change = 0.0
            for flip in range(kicks.shape[1]):
                change += _flip(kicks[restart, flip], signs, changes, gram)
            change += _descend(signs, changes, gram, tolerance)
            if change < -tolerance:
                for k in range(n_bits):
                    best_signs[k], best_changes[k] = signs[k], changes[k]
        for k in range(n_bits):
            bits[i, k] = best_signs[k] < 0
