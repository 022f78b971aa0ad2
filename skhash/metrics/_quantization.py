"""The error of replacing real outputs by their signs."""

from typing import Literal

import numpy as np

from skhash.metrics._inputs import Average
from skhash.utils.arrays import check_array
from skhash.utils.parameters import checked


@checked
def quantization_error(
    outputs,
    *,
    kind: Literal["absolute", "squared", "cosine"] = "absolute",
    average: Average = "mean",
):
    r"""Quantization error: how far outputs of a model are from their signs.

    With h the outputs for one row and l their number, it is

    .. math::

        \text{absolute} = \frac{1}{l} \sum_k \bigl||h_k| - 1\bigr| \qquad
        \text{squared} = \frac{1}{l} \sum_k (|h_k| - 1)^2 \qquad
        \text{cosine} = 1 - \frac{\sum_k |h_k|}{\sqrt{l} \, \|h\|}

    Smaller is better. Papers report one of the three, often without saying which.

    Parameters
    ----------
    outputs : array-like of shape (n_samples, n_bits)
        Outputs of a model after an activation whose targets are -1 and +1, such as the
        tanh of logits.
    kind : {"absolute", "squared", "cosine"}, default="absolute"
        Which of the three. The first two depend on the scale of the outputs, the last
        does not.
    average : {"mean"} or None, default="mean"
        "mean" averages over rows. None returns one value per row.

    Returns
    -------
    error : float or ndarray of shape (n_samples,), float64
        The error, or one per row with ``average=None``.

    Raises
    ------
    ValueError
        If `outputs` is not a matrix of finite numbers.

    Notes
    -----
    For a row that is not zero, the cosine form is at most :math:`1 - 1 / \sqrt{l}`,
    which it reaches if only one output is not 0, so a larger published number must be
    of another form. For Gaussian outputs it is about 0.20. A row of zeros has error 1
    in every form.

    Examples
    --------
    >>> from skhash.metrics import quantization_error
    >>> quantization_error([[1.0, -0.5], [0.0, 1.0]])
    0.375
    >>> quantization_error([[0.5, -0.5], [2.0, 2.0]], kind="cosine", average=None)
    array([0., 0.])
    """
    magnitudes = np.abs(check_array(outputs, dtype=np.float64))
    if kind == "cosine":  # of rows whose squares are neither 0 nor infinite
        magnitudes /= magnitudes.max(axis=1, keepdims=True).clip(np.finfo(float).tiny)
        lengths = np.sqrt(np.square(magnitudes).mean(axis=1))
        values = 1 - magnitudes.mean(axis=1) / np.where(lengths > 0, lengths, 1)
    else:
        errors = np.abs(magnitudes - 1)
        values = (errors if kind == "absolute" else errors**2).mean(axis=1)
    return values if average is None else float(values.mean())
