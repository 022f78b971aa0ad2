"""The unit of the data: one scale for all columns."""

import numpy as np
from scipy import sparse

from skhash.numerics._projection import centered_chunks


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
