"""A codebook in whole numbers of few bits, where its rows do not notice."""

import numpy as np

from skhash.numerics._decoder import LEAST_SCALE, scaled
from skhash.quantization._codebook import squared_errors

# By how much the mean and the median of the squared errors of rows may grow.
MAX_ADDED = 0.005


def round_codebook(X, values, codebook, offset):
    """Return a codebook in the fewest bits by which rows are decoded nearly as well.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    values : ndarray of shape (n_samples, n_blocks), uint8
        The codes of the rows.
    codebook : ndarray of shape (n_blocks, n_values, n_features), float32
    offset : ndarray of shape (n_features,)

    Returns
    -------
    entries : ndarray, int8 or int16, or the codebook as it is
    scales : ndarray of shape (n_blocks,), float32, or None
        Powers of two that the whole numbers of blocks are multiplied by.
    """
    exact = squared_errors(X, values, codebook, offset)
    for kind in (np.int8, np.int16):
        entries, scales = in_whole_numbers(codebook, kind)
        errors = squared_errors(X, values, scaled(entries, scales), offset)
        # The median is that of most rows, where the mean is that of a far one.
        if all(f(errors) <= (1 + MAX_ADDED) * f(exact) for f in (np.mean, np.median)):
            return entries, scales
    return codebook, None


def in_whole_numbers(codebook, kind):
    """Return the nearest whole numbers of a type, and the scales of the blocks.

    Scales are powers of two: so sums of products are those of the floats, exactly.
    """
    steps = np.abs(codebook).max(axis=(1, 2)) / np.float32(np.iinfo(kind).max)
    scales = np.ldexp(np.float32(1), np.frexp(steps)[1])
    scales = np.maximum(scales, LEAST_SCALE)
    return np.rint(codebook / scales[:, None, None]).astype(kind), scales
