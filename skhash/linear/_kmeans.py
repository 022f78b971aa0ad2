"""K-means hashing."""

from numbers import Integral
from typing import Annotated

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skhash.base import BaseHasher, LinearLogitsMixin
from skhash.numerics._projection import PrincipalAxes, check_enough_columns
from skhash.persistence.schema import Plain, reals, wholes
from skhash.utils._sklearn import Interval
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import torch
from skhash.utils.parameters import Count, NotNegative, with_parameters
from skhash.utils.torch import widest_float

# Steps of the centres after each assignment. More of them lower the objective faster,
# but its value after 50 assignments by less than a thousandth.
CENTER_STEPS = 10
MAX_SUBSPACE_BITS = 12  # 4096 centres
SubspaceBits = Annotated[int, Interval(Integral, 1, MAX_SUBSPACE_BITS, closed="both")]


@with_parameters(kw_only=True)
class KMeansHash(LinearLogitsMixin, BaseHasher):
    r"""K-means hashing: quantization to centres whose distances match those of codes.

    The principal axes are divided among subspaces, each of which is quantized to 2^b
    centres. The index of a centre is its code, so training moves centres not only
    towards their rows, but also so that their distances match those of their codes (He,
    Wen and Sun, 2013, equations 4 to 8). In each subspace it minimizes ::

        1/n sum_x |x - c_{i(x)}|^2 + lambda sum_ij w_ij (|c_i - c_j| - 2 s sqrt(h_ij))^2

    with i(x) the index of the centre of x, w_ij the product of the shares of rows at
    centres i and j, h_ij the Hamming distance of i and j, and s half the edge of the
    cube that fits the rows best, at whose corners the centres start.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code, at most ``min(n_samples, n_features)``. The same number
        of principal axes is used.
    subspace_bits : int, default=4
        Number of bits b per subspace, at most 12; the last subspace has the remaining
        bits. Time grows with 2^b. With 1, each axis is divided between two centres.
    affinity_weight : float, default=10.0
        Weight lambda of the distances between centres. 0 is plain k-means that starts
        at the corners of a cube.
    max_iter : int, default=50
        Maximum number of iterations, each of which assigns rows to centres and moves
        the centres. A subspace stops earlier when no row changes its centre.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the iterative solver that finds the principal axes of data with more
        than 4096 columns. Otherwise not used.

    Attributes
    ----------
    components_ : ndarray of shape (n_centers, n_features), float32
        Centres of all subspaces in turn, as vectors minus `mean_`. The centres of a
        row, one from each subspace, add up to its reconstruction. Within a subspace,
        the first bit of a centre's code is the lowest bit of its position.
    intercept_ : ndarray of shape (n_centers,), float32
        Minus half the squared length of each centre: the nearest centre of a row has
        the largest ``(x - mean_) components_^T + intercept_``.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    subspace_bits_ : ndarray of shape (n_subspaces,), int64
        Number of bits of each subspace.
    objective_ : ndarray of shape (n_iter_, 2), float64
        The two terms of the objective without lambda, summed over the subspaces, after
        each iteration.
    n_iter_ : int
        Largest number of iterations that a subspace took.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    Raises
    ------
    ValueError
        If `n_bits` is more than the rows or columns passed to `fit`, or if all rows are
        equal.

    See Also
    --------
    skhash.ITQHash : Uses the corners of a rotated cube as centres.

    Notes
    -----
    The code of a vector is that of the nearest centre in each subspace. The logit of a
    bit is half the difference of two squared distances: to the nearest centre whose bit
    is 0, and to the nearest one whose bit is 1. Its sign is thus the bit of the nearest
    centre.

    Axes are divided so that the products of their variances are as equal as possible,
    as in optimized product quantization (Ge et al., 2013). Only as many axes as bits
    are used; using all of them was no better on validation queries of Fashion-MNIST.

    The paper moves one centre at a time with a quasi-Newton method. Here all centres
    move at once, to the minimum of a quadratic function that lies above the objective
    and touches it at the current centres (majorization, as in multidimensional
    scaling). This never increases the objective. When rows change centres, however, the
    weights w_ij change too, and the second term may grow.

    References
    ----------
    K. He, F. Wen and J. Sun, "K-means hashing: an affinity-preserving quantization
    method for learning binary compact codes", CVPR 2013.

    T. Ge, K. He, Q. Ke and J. Sun, "Optimized product quantization for approximate
    nearest neighbor search", CVPR 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.linear import KMeansHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = KMeansHash(n_bits=16).fit(X)
    >>> encoder.transform_packed(X).shape
    (1797, 2)
    >>> encoder.components_.shape
    (64, 64)
    """

    subspace_bits: SubspaceBits = 4
    affinity_weight: NotNegative = 10.0
    max_iter: Count = 50

    _saved = {
        "components_": reals("n_centers", "n_features"),
        "intercept_": reals("n_centers"),
        "subspace_bits_": wholes("n_subspaces", low=1, high=MAX_SUBSPACE_BITS),
        "objective_": Plain(np.ndarray),
        "n_iter_": wholes(low=0),
    }

    def _fit_codes(self, X, y, random_state):
        check_enough_columns(X, self.n_bits, "KMeansHash")
        principal = PrincipalAxes(X, self.n_bits, self.device, random_state)
        self.mean_, projected = principal.mean, principal.projected()
        starts = np.arange(0, self.n_bits, self.subspace_bits)
        self.subspace_bits_ = np.minimum(self.n_bits - starts, self.subspace_bits)
        variances = projected.square().mean(dim=0).cpu().numpy()
        centers, objectives = [], []
        for columns in balanced_subspaces(variances, self.subspace_bits_):
            cells, objective = affinity_kmeans(
                projected[:, columns], self.affinity_weight, self.max_iter
            )
            centers.append(cells @ principal.axes[columns])
            objectives.append(objective)
        self.components_ = np.concatenate(centers).astype(np.float32)
        sizes = np.square(self.components_.astype(np.float64)).sum(axis=1)
        self.intercept_ = (-sizes / 2).astype(np.float32)
        self.n_iter_ = max(map(len, objectives))
        self.objective_ = sum(
            np.pad(values, [(0, self.n_iter_ - len(values)), (0, 0)], mode="edge")
            for values in objectives
        )

    def _check_saved(self):
        n_centers = int((2**self.subspace_bits_).sum())
        if n_centers != len(self.components_):
            raise ValueError(f"subspace_bits_ takes {n_centers} centers.")

    def _logits(self, X):
        logits = np.empty((X.shape[0], self._n_features_out), dtype=np.float32)
        for rows in row_chunks(X.shape[0], 12 * len(self.components_)):
            scores = super()._logits(X[rows])
            bit = center = 0
            for n_bits in self.subspace_bits_:
                similarities = scores[:, center : center + 2**n_bits]
                for lower in range(n_bits):
                    # All codes by (higher bits, this bit, lower bits).
                    shape = len(similarities), 2 ** (n_bits - 1 - lower), 2, 2**lower
                    largest = similarities.reshape(shape).max(axis=(1, 3))
                    logits[rows, bit] = largest[:, 1] - largest[:, 0]
                    bit += 1
                center += 2**n_bits
        return logits

    @property
    def _n_features_out(self):
        check_is_fitted(self)
        return int(self.subspace_bits_.sum())


def corners(n_bits: int) -> np.ndarray:
    """Return all codes of `n_bits`, the first bit the lowest, as booleans."""
    return np.arange(2**n_bits)[:, None] >> np.arange(n_bits) & 1 == 1


def balanced_subspaces(variances, sizes) -> list[list[int]]:
    """Share out axes so that the products of their variances are about equal.

    From the largest variance on, each axis goes to the subspace of smallest product
    that is not full (Ge et al., 2013, section 3.2.3).

    Parameters
    ----------
    variances : ndarray of shape (n_axes,)
        In descending order.
    sizes : ndarray of shape (n_subspaces,)
        Axes of each subspace.

    Returns
    -------
    subspaces : list of list of int
        Axes of each subspace, in descending order of variance.
    """
    # Of at least 1, so that no factor makes a product smaller.
    logs = np.log(np.maximum(variances / variances.max(), 1e-12))
    logs -= logs.min()
    subspaces, products = [[] for _ in sizes], np.zeros(len(sizes))
    for axis, value in enumerate(logs):
        smallest = int(np.argmin(products))
        subspaces[smallest].append(axis)
        products[smallest] += value
        if len(subspaces[smallest]) == sizes[smallest]:
            products[smallest] = np.inf
    return subspaces


def affinity_kmeans(rows, weight: float, max_iter: int):
    """Minimize the objective of `KMeansHash` in one subspace.

    Parameters
    ----------
    rows : tensor of shape (n_samples, n_bits), float32
        Centred, the column of largest variance first.
    weight : float
        Of the affinity error.
    max_iter : int

    Returns
    -------
    centers : ndarray of shape (2 ** n_bits, n_bits), float64
        In the order of `corners`.
    objective : ndarray of shape (n_iter, 2), float64
        Quantization error and affinity error.
    """
    codes = corners(rows.shape[1])
    dtype = widest_float(rows.device)
    half_edge = rows.abs().mean(dtype=dtype).item()
    centers = half_edge * np.where(codes, 1.0, -1.0)
    hamming = (codes[:, None] != codes).sum(axis=2)
    targets = 2 * half_edge * np.sqrt(hamming)
    squares = rows.square().sum(dtype=dtype).item() / len(rows)
    objective, nearest = [], None
    for _ in range(max_iter):
        before = nearest
        nearest, counts, sums = assign(rows, centers)
        if before is not None and torch.equal(nearest, before):
            break
        shares = counts / len(rows)
        # A centre without rows stays where the others want it.
        means = np.where(counts > 0, sums.T / np.maximum(counts, 1), centers.T).T
        for _ in range(CENTER_STEPS):
            centers = move_centers(centers, means, shares, targets, weight)
        # The mean over rows of |x - c|^2, from the means of the cells.
        errors = np.square(centers).sum(axis=1) - 2 * (centers * means).sum(axis=1)
        quantization = squares + shares @ errors
        # The mean over pairs of rows of (distance of centres - target)^2.
        affinity = shares @ np.square(pairwise_distances(centers) - targets) @ shares
        objective.append((quantization, affinity))
    return centers, np.array(objective)


def assign(rows, centers):
    """Find the nearest centre of each row, and count and add up the rows of each.

    Returns
    -------
    nearest : tensor of shape (n_samples,), int64
        The first of equally near ones.
    counts : ndarray of shape (n_centers,), float64
    sums : ndarray of shape (n_centers, n_columns), float64
    """
    points = torch.from_numpy(centers).to(rows)
    offsets = points.square().sum(dim=1) / 2
    numbers = torch.arange(len(points), device=rows.device)
    nearest = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    counts, sums = np.zeros(len(centers)), np.zeros(centers.shape)
    for chunk in row_chunks(len(rows), 16 * len(points)):
        nearest[chunk] = (rows[chunk] @ points.T - offsets).argmax(dim=1)
        # A product, for sums by index are not reproducible on every device.
        belongs = (nearest[chunk, None] == numbers).to(rows)
        counts += belongs.sum(dim=0).cpu().numpy()
        sums += (belongs.T @ rows[chunk]).cpu().numpy()
    return nearest, counts, sums


def move_centers(centers, means, shares, targets, weight: float) -> np.ndarray:
    """Return centres of an objective that is no larger.

    With u_ij the direction from c_j to c_i, ``|c_i - c_j|`` is at least the product of
    u_ij with the new difference. In its place, this makes the objective a quadratic
    function of all centres, whose minimum is ::

        c_i = (m_i + 2 w (m + sum_j p_j t_ij u_ij)) / (1 + 2 w)

    for cells of mean m_i and share p_i, rows of mean m, targets t_ij and the weight w.
    """
    distances = pairwise_distances(centers)
    pulls = np.zeros_like(distances)
    np.divide(targets * shares, distances, out=pulls, where=distances > 0)
    pushed = pulls.sum(axis=1)[:, None] * centers - pulls @ centers
    return (means + 2 * weight * (shares @ means + pushed)) / (1 + 2 * weight)


def pairwise_distances(centers) -> np.ndarray:
    """Return the Euclidean distances of all pairs, 0 on the diagonal."""
    sizes = np.square(centers).sum(axis=1)
    squares = sizes[:, None] + sizes - 2 * centers @ centers.T
    np.fill_diagonal(squares, 0)
    return np.sqrt(np.maximum(squares, 0))
