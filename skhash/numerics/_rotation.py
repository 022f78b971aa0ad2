"""Rotations that bring projected data near the corners of a cube."""

from itertools import pairwise

import numpy as np

from skhash.utils.lazy import torch
from skhash.utils.torch import threads_that_pay, widest_float

# A rotation that training only starts from needs fewer rows and steps.
ROTATION_ROWS, ROTATION_STEPS = 4_000, 10


def gaussian(n_rows, n_columns, generator):
    """Draw a (n_rows, n_columns) float64 tensor from the standard normal law."""
    return torch.randn(n_rows, n_columns, generator=generator, dtype=torch.float64)


def random_rotation(size: int, generator):
    """Draw a (size, size) float64 orthogonal tensor from the uniform distribution."""
    q, r = torch.linalg.qr(gaussian(size, size, generator))
    return q * torch.sign(torch.diagonal(r))


def fit_itq_rotation(projected, rotation, max_iter: int):
    """Minimize ``|B - V R|_F^2 / n`` over signs `B` and rotations `R`, in turns.

    Both half-steps are exact minimizers, so the objective never increases (Gong and
    Lazebnik, 2011, equation 2).

    Parameters
    ----------
    projected : tensor of shape (n_samples, n_bits), float32
        `V`, the centred data on its principal axes.
    rotation : tensor of shape (n_bits, n_bits), float64
        The start of `R`.
    max_iter : int
        It ends before where the correlation of `B` and `V R`, which is what the
        rotation changes in the objective, falls by rounding.

    Returns
    -------
    rotation : tensor of shape (n_bits, n_bits), float64
    objective : ndarray of shape (n_iter,), float64
        The mean squared quantization error of a row, once per iteration.
    """
    n_samples, n_bits = projected.shape
    dtype, correlations = widest_float(projected.device), []
    with threads_that_pay(projected.numel() * n_bits):
        energy = projected.square().sum(dtype=dtype).item() / n_samples
        for _ in range(max_iter):
            rotated = projected @ rotation.to(projected)
            # |B|^2 = n_bits, and sum(B * VR) is the 1-norm of VR: it needs no B.
            correlations.append(rotated.abs().sum(dtype=dtype).item() / n_samples)
            signs = (rotated > 0).to(projected.dtype).mul_(2).sub_(1)
            cross = (signs.T @ projected).cpu().double()
            left, _, right = torch.linalg.svd(cross)
            rotation = right.T @ left.T
            if len(correlations) > 1 and correlations[-1] < correlations[-2]:
                break
    return rotation, n_bits + energy - 2 * np.array(correlations)


def rotated_axes(projected, lengths, generator):
    """Return first directions for codes whose prefixes are codes too.

    The bits that a prefix has beyond the one before are some of the directions of an
    ITQ rotation of as many leading axes as the prefix has bits, or of all axes.

    Parameters
    ----------
    projected : Tensor of shape (n_samples, n_axes), float32
        Rows on their principal axes. At most 4000 of them, at equal steps, are used.
    lengths : sequence of int, ascending
        The prefixes.
    generator : torch.Generator

    Returns
    -------
    directions : ndarray of shape (n_axes, n_bits), float64
        Orthonormal columns in a block.
    """
    sample = projected[:: -(-len(projected) // ROTATION_ROWS)]
    n_axes = projected.shape[1]
    directions = np.zeros((n_axes, lengths[-1]))
    for start, stop in pairwise([0, *lengths]):
        while start < stop:
            axes = slice(min(stop, n_axes))
            inside = sample[:, axes]
            rotation = random_rotation(inside.shape[1], generator)
            rotation, _ = fit_itq_rotation(inside, rotation, ROTATION_STEPS)
            bits = slice(start, min(start + inside.shape[1], stop))
            directions[axes, bits] = rotation[:, : bits.stop - bits.start].numpy()
            start = bits.stop
    return directions
