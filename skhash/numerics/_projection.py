"""Principal axes of dense or sparse data, one chunk of rows in memory at a time."""

import numpy as np
from scipy import sparse

from skhash.utils.chunks import dense_chunks
from skhash.utils.lazy import torch
from skhash.utils.torch import resolve_device, seeded_generator

# Up to this width the covariance matrix is formed and decomposed exactly; beyond it,
# its d^2 entries and d^3 operations cost more than a few passes over the data.
MAX_COVARIANCE_WIDTH = 4096
SUBSPACE_PASSES = 7
OVERSAMPLING = 20
# This number of rows gives as good a start of directions as all rows do.
START_ROWS = 20_000


def column_means(X) -> np.ndarray:
    """Return the float64 mean of each column."""
    if sparse.issparse(X):  # whose sum adds up in float32, whatever dtype it is given
        return X.T @ np.ones(X.shape[0]) / X.shape[0]
    return X.mean(axis=0, dtype=np.float64)


def mean_and_scale(X) -> tuple[np.ndarray, float]:
    """Return the mean of each column, and one scale for all: the unit of the data.

    That is the root of the mean variance of the columns, 1 for constant data.
    """
    mean = column_means(X)
    if sparse.issparse(X):
        second = X.power(2).sum(dtype=np.float64) / X.shape[0]
        variance = (second - mean @ mean) / X.shape[1]
    else:
        total = sum(
            float(chunk.square().sum(dtype=torch.float64))
            for _, chunk in centered_chunks(X, mean, "cpu")
        )
        variance = total / X.size
    return mean, float(np.sqrt(variance)) if variance > 0 else 1.0


def sample_rows(X, generator):
    """Return at most `START_ROWS` rows, drawn where there are more."""
    if X.shape[0] <= START_ROWS:
        return X
    order = torch.randperm(X.shape[0], generator=generator)
    return X[order[:START_ROWS].numpy()]


def centered_chunks(X, mean: np.ndarray, device):
    """Yield ``(rows, X[rows] - mean)`` as float32 tensors on `device`."""
    mean = mean.astype(X.dtype)
    for rows, chunk in dense_chunks(X):
        centered = np.subtract(chunk, mean).astype(np.float32, copy=False)
        yield rows, torch.from_numpy(centered).to(device)


def project(X, mean: np.ndarray, axes: np.ndarray | None, device):
    """Return ``(X - mean) axes^T`` as a float32 tensor, ``X - mean`` without axes."""
    width = X.shape[1]
    if axes is not None:
        width, axes = len(axes), torch.from_numpy(axes).to(device, torch.float32)
    result = torch.empty(X.shape[0], width, device=device)
    for rows, chunk in centered_chunks(X, mean, device):
        result[rows] = chunk if axes is None else chunk @ axes.T
    return result


def principal_axes(X, mean, n_axes: int, device, generator) -> np.ndarray:
    """Return the `n_axes` directions of largest variance, the largest first.

    Exact by the covariance matrix up to `MAX_COVARIANCE_WIDTH` columns, or in the span
    of the rows if they are few, beyond it by subspace iteration with a random start
    (Halko, Martinsson and Tropp, 2011, algorithm 4.4). The sign of an axis is fixed by
    its entry of largest magnitude, which is made positive.

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
    if X.shape[1] > MAX_COVARIANCE_WIDTH:
        axes = _subspace_iteration(X, mean, n_axes, device, generator)
    elif are_few(X):
        rows = project(X, mean, None, "cpu").numpy().astype(np.float64)
        axes = axes_of_few(rows)[:, :n_axes].T
    else:
        axes = _eigenvectors(_scatter(X, mean, device))[:, :n_axes].T
    largest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(len(axes)), largest])
    return np.ascontiguousarray(axes * signs[:, None])


def are_few(X) -> bool:
    """Return whether rows are so few that `axes_of_few` is the faster way."""
    return 2 * X.shape[0] <= X.shape[1]


def axes_of_few(rows) -> np.ndarray:
    """Return the principal axes in the span of centred rows, as columns.

    A scatter matrix would cost the cube of the number of columns.
    """
    basis, triangle = np.linalg.qr(rows.T)
    return basis @ _eigenvectors(triangle @ triangle.T)


class PrincipalAxes:
    """The mean and the principal axes of rows, and rows on these axes.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    n_axes : int
    device : str
        As the `device` of encoders.
    random_state : RandomState
        Seeds `generator`, from which `principal_axes` draws.
    """

    def __init__(self, X, n_axes, device, random_state):
        self.X, self.device = X, resolve_device(device)
        self.generator = seeded_generator(random_state)
        self.mean = column_means(X)
        self.axes = principal_axes(X, self.mean, n_axes, self.device, self.generator)

    def projected(self):
        """Return all rows on the axes, a float32 tensor."""
        return project(self.X, self.mean, self.axes, self.device)


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
