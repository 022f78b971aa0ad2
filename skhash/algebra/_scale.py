"""The unit of the data: one scale for all columns, or one for each."""

import numpy as np
from scipy import sparse

from skhash.algebra._projection import centered_chunks

# The least first scale of a column, in units of the root mean standard deviation.
MIN_COLUMN_SCALE = 1e-3


def total_scale(X, mean: np.ndarray) -> float:
    """Return the root of the mean variance of the columns, 1 for constant data."""
    import torch

    if sparse.issparse(X):
        second = X.power(2).sum(dtype=np.float64) / X.shape[0]
        variance = (second - mean @ mean) / X.shape[1]
    else:
        total = sum(
            float(chunk.square().sum(dtype=torch.float64))
            for _, chunk in centered_chunks(X, mean, "cpu")
        )
        variance = total / X.size
    return float(np.sqrt(variance)) if variance > 0 else 1.0


def column_scales(X, mean, scale) -> np.ndarray:
    """Return the standard deviation of each standardised column, none close to 0."""
    square = np.zeros(X.shape[1])
    for _, chunk in centered_chunks(X, mean, "cpu"):
        square += np.einsum("ij,ij->j", chunk, chunk, dtype=np.float64)
    deviation = np.sqrt(square / X.shape[0]) / scale
    return np.maximum(deviation, MIN_COLUMN_SCALE)
