"""Logits of a multi-layer perceptron, without torch on the CPU."""

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from skhash.utils.torch import inference_device

# What `scaled_rows` can make of rows.
ENCODER_INPUTS = ("values", "unit", "frequency", "presence")


def mlp_forward(X, coefs, intercepts, mean=None, device="cpu") -> np.ndarray:
    """Run rows minus `mean` through linear layers with ReLU between them.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features)
    coefs : list of ndarrays of shape (n_inputs, n_outputs), float32
    intercepts : list of ndarrays of shape (n_outputs,), float32
    mean : ndarray of shape (n_features,) or None
    device : str
        As the `device` of encoders; the CPU does without torch.

    Returns
    -------
    outputs : ndarray of shape (n_samples, n_outputs), float32
    """
    device = inference_device(device)
    if device == "cpu":
        convert = np.asarray
    else:
        import torch

        def convert(array):
            return torch.as_tensor(array, device=device)

    first, intercept = coefs[0], intercepts[0]
    if sparse.issparse(X):
        # The wide first layer is done where the sparse rows are.
        if mean is not None:
            intercept = intercept - mean @ first
        values = convert((X @ first + intercept).astype(np.float32))
    else:
        if mean is not None:
            X = X - mean.astype(X.dtype)
        X = convert(X.astype(np.float32, copy=False))
        values = X @ convert(first) + convert(intercept)
    for coef, intercept in zip(coefs[1:], intercepts[1:], strict=True):
        values = values.clip(min=0) @ convert(coef) + convert(intercept)
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


def check_layer_sizes(sizes, name: str) -> list[int]:
    """Return the sizes of hidden layers as integers; `name` is their parameter."""
    if not all(isinstance(size, Integral) and size >= 1 for size in sizes):
        raise ValueError(f"{name}={sizes!r} must hold whole numbers of at least 1.")
    return [int(size) for size in sizes]


def scaled_rows(X, kind):
    """Return rows as `skhash.utils._torch_sparse.scale_rows` does, in NumPy."""
    if kind == "presence":
        return (X > 0).astype(np.float32)
    norms = {"unit": "l2", "frequency": "l1"}
    return normalize(X, norm=norms[kind]) if kind in norms else X


def layers_of(values: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    """Return the arrays of a parameter list, in order."""
    n_layers = sum(key.startswith(f"{name}.") for key in values)
    return [values[f"{name}.{i}"] for i in range(n_layers)]


def split_columns(array, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first columns and the rest, each contiguous."""
    parts = array[..., :n_columns], array[..., n_columns:]
    return tuple(np.ascontiguousarray(part) for part in parts)
