"""Logits of a multi-layer perceptron, without torch on the CPU."""

from functools import partial
from numbers import Integral

import numpy as np
from scipy import sparse

from skhash.numerics._affine import affine
from skhash.utils.arrays import unit_rows
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import torch
from skhash.utils.torch import inference_device, own_stream

# Outputs of a hidden layer that are held at a time, so that they stay in the cache.
HIDDEN_BYTES = 4 * 2**20

# Inputs that `scaled_rows` makes of rows.
ENCODER_INPUTS = ("values", "unit", "frequency", "presence")


def mlp_forward(X, coefs, intercepts, mean=None, device="cpu") -> np.ndarray:
    """Run rows minus `mean` through linear layers with ReLU between them.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features)
        Numbers of any type. The mean is subtracted in the precision of dense rows, and
        moved to the other side of the first layer for sparse ones.
    coefs : list of ndarrays of shape (n_inputs, n_outputs), float32
    intercepts : list of ndarrays of shape (n_outputs,), float32
    mean : ndarray of shape (n_features,) or None
    device : str
        As the `device` of encoders; the CPU does without torch.

    Returns
    -------
    outputs : ndarray of shape (n_samples, n_outputs), float32
        Of a row that holds NaN or infinity none is finite.

    Raises
    ------
    ValueError
        If a layer does not fit the one before, or the mean is not that of the rows.
    """
    check_layers(X.shape[1], coefs, intercepts, mean)
    device = inference_device(device)
    run = _run if device == "cpu" else partial(run_on_device, device)
    layers = list(zip(coefs, intercepts, strict=True))
    outputs = np.empty((X.shape[0], coefs[-1].shape[1]), dtype=np.float32)
    widest = max([0, *(coef.shape[1] for coef in coefs[:-1])])
    for rows in row_chunks(X.shape[0], 4 * widest, HIDDEN_BYTES):
        values, others, subtrahend = _first(X[rows], layers, mean)
        outputs[rows] = run(values, others, subtrahend) if others else values
    return outputs


def check_layers(width, coefs, intercepts, mean):
    """Raise ``ValueError`` unless kernels find everything within the arrays."""
    if mean is not None and np.shape(mean) != (width,):
        raise ValueError(f"Rows of {width} features have no mean of {np.shape(mean)}.")
    for coef, intercept in zip(coefs, intercepts, strict=True):
        shapes = np.shape(coef), np.shape(intercept)
        n_outputs = shapes[0][-1] if coef.size else 0
        if not n_outputs or shapes != ((width, n_outputs), (n_outputs,)):
            raise ValueError(
                f"A layer of coefs and intercepts of the shapes {shapes} does not take "
                f"{width} features."
            )
        width = n_outputs


def _first(X, layers, mean):
    """Return dense rows, their layers, and the mean to subtract."""
    if not sparse.issparse(X):
        return X if X.dtype.kind == "f" else X.astype(np.float32), layers, mean
    # The wide first layer is done where the sparse rows are.
    (coef, intercept), *others = layers
    if mean is not None:
        intercept = intercept - mean @ coef
    values = (X @ coef + intercept).astype(np.float32)
    return values.clip(min=0) if others else values, others, None


def _run(values, layers, mean):
    for i, (coef, intercept) in enumerate(layers, 1):
        values = affine(values, coef, intercept, mean, relu=i < len(layers))
        mean = None
    return values


def run_on_device(device, values, layers, mean):
    """Run dense rows through layers with torch.

    The product of one thread runs beside the copies of another, on streams of their
    own; the rows are centred into memory that a GPU reads by itself.

    Parameters
    ----------
    device : torch.device
    values : ndarray of shape (n_samples, n_features), float16, float32 or float64
    layers : list of (coef, intercept)
    mean : ndarray of shape (n_features,) or None

    Returns
    -------
    outputs : ndarray of shape (n_samples, n_outputs), float32
    """
    with own_stream(device):
        rows = torch.empty(values.shape, pin_memory=device.type == "cuda")
        precision = np.float64 if values.dtype == np.float64 else np.float32
        subtrahend = np.zeros(1) if mean is None else mean
        subtrahend = subtrahend.astype(precision)
        np.subtract(values, subtrahend, out=rows.numpy(), casting="same_kind")
        outputs = rows.to(device, non_blocking=True)
        for i, (coef, intercept) in enumerate(layers):
            # Of infinity it makes NaN, which shows in the end.
            outputs = outputs.clip(min=0) + 0 * outputs if i else outputs
            weights = torch.as_tensor(coef, device=device)
            outputs = outputs @ weights + torch.as_tensor(intercept, device=device)
        return outputs.cpu().numpy()


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
    return unit_rows(X, norms[kind]) if kind in norms else X


def layers_of(values: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    """Return the arrays of a parameter list, in order."""
    n_layers = sum(key.startswith(f"{name}.") for key in values)
    return [values[f"{name}.{i}"] for i in range(n_layers)]


def split_columns(array, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first columns and the rest, each contiguous."""
    parts = array[..., :n_columns], array[..., n_columns:]
    return tuple(np.ascontiguousarray(part) for part in parts)
