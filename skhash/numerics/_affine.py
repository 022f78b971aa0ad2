"""Products of rows with the weights of a layer, in float32: each row by itself."""

import numpy as np

from skhash.utils.lazy import LateModule

kernels = LateModule("skhash.numerics._affine_kernels")
GROUP = 16  # columns of weights that are copied together; it is fastest so


def affine(X, weights, intercept, mean=None, *, relu=False) -> np.ndarray:
    """Return ``(X - mean) weights + intercept``.

    The mean is subtracted in the precision of the rows, and then all is float32. An
    output is a sum over the features in their order: it is the same to the last bit
    whichever rows and outputs stand beside it, and wherever the rows are.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float16, float32 or float64
    weights : ndarray of shape (n_features, n_outputs), float32
        Or, for many calls, those `in_panels`.
    intercept : ndarray of shape (n_outputs,), float32
    mean : ndarray of shape (n_features,), or None
    relu : bool
        Whether to replace negative values by 0, and infinite ones by NaN.

    Returns
    -------
    outputs : ndarray of shape (n_samples, n_outputs), float32
        Where a row holds NaN or infinity, none of them is finite.
    """
    if X.dtype == np.float16 and not kernels.READS_HALF:
        X = X.astype(np.float32)
    n, n_features = X.shape
    n_outputs = len(intercept)
    panels = weights if weights.ndim == 3 else in_panels(weights)
    widths = kernels.LANES, kernels.HALF_PANEL, kernels.PANEL
    rest = n_outputs - (len(panels) - 1) * kernels.PANEL
    missing = min(width - rest for width in widths if width >= rest)
    shape = -(-n // kernels.TILE_ROWS) * kernels.TILE_ROWS, n_outputs + missing
    sums = np.zeros(shape, dtype=np.float32)
    mean = np.zeros(n_features) if mean is None else mean.astype(np.float64)
    rows = np.ascontiguousarray(X).view(np.uint8)
    # The same types in each call, so that there is one compiled function.
    rows.flags.writeable = False
    intercept = np.array(intercept, dtype=np.float32)
    block = np.zeros(kernels.ROOM, dtype=np.float32)  # numba compiles that slowly
    kernels.multiply(rows, mean, panels, intercept, bool(relu), block, sums)
    return sums[:n, :n_outputs]


def in_panels(weights) -> np.ndarray:
    """Return weights as (n_panels, n_features, `PANEL`), filled up with 0."""
    (n_features, n_outputs), width = weights.shape, kernels.PANEL
    panels = np.zeros((-(-n_outputs // width), n_features, width), dtype=np.float32)
    for first in range(0, n_outputs, GROUP):
        columns = weights[:, first : first + GROUP]
        panels[first // width, :, first % width :][:, : columns.shape[1]] = columns
    return panels
