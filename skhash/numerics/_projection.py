"""Principal axes of dense or sparse data, one chunk of rows in memory at a time."""

import numpy as np
from scipy import sparse

from skhash.utils.chunks import dense_chunks

# Up to this width the covariance matrix is formed and decomposed exactly; beyond it,
# its d^2 entries and d^3 operations cost more than a few passes over the data.
MAX_COVARIANCE_WIDTH = 4096
SUBSPACE_PASSES = 7
OVERSAMPLING = 20


def column_means(X) -> np.ndarray:
    """Return the float64 mean of each column."""
    if sparse.issparse(X):  # whose sum adds up in float32, whatever dtype it is given
        return X.T @ np.ones(X.shape[0]) / X.shape[0]
    return X.mean(axis=0, dtype=np.float64)


def centered_chunks(X, mean: np.ndarray, device):
    """Yield ``(rows, X[rows] - mean)`` as float32 tensors on `device`."""
    import torch

    mean = mean.astype(X.dtype)
    for rows, chunk in dense_chunks(X):
        centered = np.subtract(chunk, mean).astype(np.float32, copy=False)
        yield rows, torch.from_numpy(centered).to(device)


def project(X, mean: np.ndarray, axes: np.ndarray, device):
    """Return ``(X - mean) axes^T`` as a float32 tensor on `device`."""
    import torch

    axes = torch.from_numpy(axes).to(device, torch.float32)
    result = torch.empty(X.shape[0], len(axes), device=device)
    for rows, chunk in centered_chunks(X, mean, device):
        result[rows] = chunk @ axes.T
    return result


def principal_axes(X, mean, n_axes: int, device, generator) -> np.ndarray:
    """Return the `n_axes` directions of largest variance, the largest first.

    Exact by the covariance matrix up to `MAX_COVARIANCE_WIDTH` columns, beyond it by
    subspace iteration with a random start (Halko, Martinsson and Tropp, 2011, algorithm
    4.4). The sign of an axis is fixed by its entry of largest magnitude, which is made
    positive.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    mean : ndarray of shape (n_features,), float64
    n_axes : int
    device : torch.device
    generator : torch.Generator
        On the CPU; used by the subspace iteration only.

    Returns
    -------
    axes : ndarray of shape (n_axes, n_features), float64
        Orthonormal rows.
    """
    n_features = X.shape[1]
    if n_features <= MAX_COVARIANCE_WIDTH:
        axes = _eigenvectors(_scatter(X, mean, device))[:, :n_axes].T
    else:
        axes = _subspace_iteration(X, mean, n_axes, device, generator)
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(len(axes)), largest])
    return np.ascontiguousarray(axes * signs[:, None])


def _scatter(X, mean, device) -> np.ndarray:
    """Return the sum over rows of (x - mean)^T (x - mean), summed in float64."""
    if sparse.issparse(X):
        X = X.astype(np.float64)  # rows are not centred, and the mean cancels below
        gram = (X.T @ X).toarray()
        return gram - X.shape[0] * np.outer(mean, mean)
    total = np.zeros((X.shape[1], X.shape[1]))
    for _, chunk in centered_chunks(X, mean, device):
        total += (chunk.T @ chunk).cpu().numpy()
    return total


def _subspace_iteration(X, mean, n_axes, device, generator) -> np.ndarray:
    import torch

    n_features = X.shape[1]
    width = min(n_axes + OVERSAMPLING, *X.shape)
    basis = torch.randn(n_features, width, generator=generator).to(device)
    for _ in range(SUBSPACE_PASSES):
        basis = torch.linalg.qr(basis)[0]
        product = torch.zeros_like(basis)
        for _, chunk in centered_chunks(X, mean, device):
            product += chunk.T @ (chunk @ basis)
        basis = product
    # The basis spans the leading space; its own axes come from the small scatter
    # matrix.
    basis = torch.linalg.qr(basis)[0].cpu().numpy().astype(np.float64)
    small = np.zeros((width, width))
    on_device = torch.from_numpy(basis).to(device, torch.float32)
    for _, chunk in centered_chunks(X, mean, device):
        inside = chunk @ on_device
        small += (inside.T @ inside).cpu().numpy()
    return (basis @ _eigenvectors(small)[:, :n_axes]).T


def _eigenvectors(symmetric) -> np.ndarray:
    """Return the eigenvectors as columns, that of the largest eigenvalue first.

    They are torch's: beside busy processes the threads of NumPy take ten times as long.
    """
    import torch

    return torch.linalg.eigh(torch.from_numpy(symmetric))[1].numpy()[:, ::-1]


def check_enough_columns(X, n_bits: int, method: str) -> None:
    """Raise ValueError where principal axes are fewer than the bits asked for."""
    limit = min(X.shape)
    if n_bits > limit:
        raise ValueError(
            f"{method} makes at most min(n_samples, n_features) bits, but n_bits="
            f"{n_bits} with n_samples={X.shape[0]}, n_features={X.shape[1]}. Use "
            f"n_bits<={limit}, or RandomHyperplaneHash or SGHEncoder, which have no "
            "such limit."
        )
