"""Spherical hashing."""

import numpy as np

from skhash.base import BaseHasher, FittedBitsMixin
from skhash.linear._anchors import squared_distances
from skhash.numerics._projection import centered_chunks, column_means
from skhash.persistence.schema import Plain, reals, wholes
from skhash.utils.lazy import torch
from skhash.utils.parameters import CountFrom0, with_parameters
from skhash.utils.torch import resolve_device

# A pivot starts at the mean of this number of rows.
ROWS_A_PIVOT = 5
# Rows that pivots are moved by. Drawn from more, they tell an overlap of a quarter with
# a standard error of 1.2 % of it, far below what is tolerated.
MAX_ROWS = 20_000
# Of float32 squared distances, as a share of their mean.
ROUNDING = 1e-5
# Where many rows are equal no moves settle, and pivots run away from the data. They are
# stopped where one is 10 times further from the mean than the farthest row.
REACH = 10
# Iteration ends where overlaps of two balls miss n / 4 by no more than this share of
# n / 4, on average and by their standard deviation (section 3.3 of the paper).
MEAN_TOLERANCE, SPREAD_TOLERANCE = 0.10, 0.15


@with_parameters(kw_only=True)
class SphericalHash(FittedBitsMixin, BaseHasher):
    r"""Spherical hashing: each bit says whether a vector lies inside a ball.

    The ball of bit k has the pivot p_k as its centre, and a radius t_k such that half
    of the training rows are inside. Pivots are moved until any two balls share about a
    quarter of the rows, as independent bits would (Heo et al., 2012, equations 3 and
    5). If two balls share too many rows, their pivots repel each other; if too few,
    they attract each other ::

        f_k = 1 / n_bits  sum_j 1/2 (o_kj - n/4) / (n/4) (p_k - p_j)

    with o_kj the number of rows in both balls. Unlike halfspaces, balls are bounded, so
    vectors that share many balls lie in a small region. The paper's distance between
    codes takes this into account; see `skhash.codes.spherical_hamming_distances`.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code.
    max_iter : int, default=100
        Maximum number of moves of the pivots.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where to fit: "auto", "cpu", "cuda", "cuda:1" or "mps". Encoding is done on the
        CPU.
    random_state : int, RandomState instance or None, default=None
        Seed for drawing the rows whose means are the initial pivots.

    Attributes
    ----------
    pivots_ : ndarray of shape (n_bits, n_features), float32
        Centres of the balls, minus `mean_`.
    radii_ : ndarray of shape (n_bits,), float64
        Radii of the balls. Logits are radius minus distance from the pivot.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data, subtracted so that data far from 0 keep their
        precision.
    imbalance_ : ndarray of shape (n_iter + 1, 2), float64
        Mean magnitude of ``o_kj - n/4`` over pairs of bits, and standard deviation of
        o_kj, both in units of n/4, before each move and at the end. The last row is at
        most 0.1 and 0.15, unless `max_iter` was reached or pivots ran away from the
        data; then the encoder has the pivots of the row with the smallest mean.
    n_iter_ : int
        Number of moves.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    Raises
    ------
    ValueError
        If all rows passed to `fit` are equal.

    See Also
    --------
    skhash.codes.spherical_hamming_distances : The distance used in the paper.

    Notes
    -----
    If no row occurs twice, each bit is 1 for exactly half of the rows, rounded down if
    their number is odd.

    Overlaps are computed on at most 20,000 rows, drawn at random; radii divide all
    rows. Pivots remain linear combinations of the initial pivots, so rows are
    multiplied by these only once, and a move costs n n_bits^2 operations instead of n
    n_bits n_features. `fit` needs a few times ``8 * n_samples * n_bits`` bytes.

    References
    ----------
    J.-P. Heo, Y. Lee, J. He, S.-F. Chang and S.-E. Yoon, "Spherical hashing", CVPR
    2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.linear import SphericalHash
    >>> X = load_digits().data[:1000]
    >>> bits = SphericalHash(n_bits=16, random_state=0).fit_transform(X)
    >>> bits.sum(axis=0)[:4]
    array([500, 500, 500, 500], dtype=uint64)
    """

    max_iter: CountFrom0 = 100

    _saved = {
        "mean_": reals("n_features"),
        "pivots_": reals("n_bits", "n_features"),
        "radii_": reals("n_bits", low=0),
        "imbalance_": Plain(np.ndarray),
        "n_iter_": wholes(low=0),
    }

    _learned = "pivots_"

    def _fit_codes(self, X, y, random_state):
        device = resolve_device(self.device)
        self.mean_ = column_means(X)
        pivots = means_of_some_rows(X, self.mean_, self.n_bits, random_state)
        mixing, self.imbalance_ = spread_pivots(
            *products_with(some_rows(X, random_state), self.mean_, pivots, device),
            pivots @ pivots.T,
            self.max_iter,
        )
        self.n_iter_ = len(self.imbalance_) - 1
        self.pivots_ = (mixing @ pivots).astype(np.float32)
        distances = np.sqrt(squared_distances(X, self.mean_, self.pivots_))
        # Halfway between two rows: of one at the very radius, rounding would decide,
        # which depends on the rows beside it.
        half = X.shape[0] // 2
        middle = np.partition(distances, [half - 1, half], axis=0)
        self.radii_ = middle[half - 1 : half + 1].mean(axis=0)

    def _logits(self, X):
        squares = squared_distances(X, self.mean_, self.pivots_)
        return (self.radii_ - np.sqrt(squares)).astype(np.float32)


def some_rows(X, random_state):
    """Return `MAX_ROWS` rows drawn at random, or all where they are no more."""
    if X.shape[0] <= MAX_ROWS:
        return X
    return X[np.sort(random_state.choice(X.shape[0], MAX_ROWS, replace=False))]


def means_of_some_rows(X, mean, n_pivots: int, random_state) -> np.ndarray:
    """Return pivots, less `mean`: each the mean of rows drawn for it."""
    n_rows = min(ROWS_A_PIVOT, X.shape[0])
    pivots = np.empty((n_pivots, X.shape[1]))
    for pivot in pivots:
        rows = random_state.choice(X.shape[0], n_rows, replace=False)
        pivot[:] = column_means(X[np.sort(rows)]) - mean
    return pivots


def products_with(X, mean, pivots, device):
    """Return the products of pivots and centred rows, and the rows' squared lengths.

    Returns
    -------
    products : tensor of shape (n_pivots, n_samples), float32
    squares : tensor of shape (n_samples,), float32
    """
    weights = torch.from_numpy(pivots).to(device, torch.float32)
    products = torch.empty(len(pivots), X.shape[0], device=device)
    squares = torch.empty(X.shape[0], device=device)
    for rows, chunk in centered_chunks(X, mean, device):
        products[:, rows] = weights @ chunk.T
        squares[rows] = chunk.square().sum(dim=1)
    return products, squares


def spread_pivots(products, squares, gram, max_iter: int):
    """Move pivots until balls around them that hold half of the rows share a quarter.

    Parameters
    ----------
    products : tensor of shape (n_pivots, n_samples), float32
        Of first pivots and rows.
    squares : tensor of shape (n_samples,), float32
        Squared lengths of the rows.
    gram : ndarray of shape (n_pivots, n_pivots), float64
        Products of the first pivots.
    max_iter : int

    Returns
    -------
    mixing : ndarray of shape (n_pivots, n_pivots), float64
        The pivots are ``mixing @ first_pivots``.
    imbalance : ndarray of shape (n_moves + 1, 2), float64
        See `SphericalHash`.
    """
    n_pivots, quarter = len(gram), products.shape[1] / 4
    farthest = float(squares.max())
    pairs = ~np.eye(n_pivots, dtype=bool)
    mixing = best = np.eye(n_pivots)
    imbalance, least = [], np.inf
    while True:
        sizes = np.einsum("ki,ij,kj->k", mixing, gram, mixing)
        if sizes.max() > REACH**2 * farthest:
            return best, np.array(imbalance)
        overlaps = shared_rows(products, squares, sizes, mixing)
        # Overlap beyond a quarter, in quarters; none of a ball with itself.
        excess = np.where(pairs, overlaps / quarter - 1, 0.0)
        of_pairs = excess[pairs] if n_pivots > 1 else np.zeros(1)
        imbalance.append((np.abs(of_pairs).mean(), of_pairs.std()))
        if imbalance[-1][0] < least:  # the first of equal ones: later ones run away
            least, best = imbalance[-1][0], mixing
        if np.all(imbalance[-1] <= np.array([MEAN_TOLERANCE, SPREAD_TOLERANCE])):
            return mixing, np.array(imbalance)
        if len(imbalance) > max_iter:
            return best, np.array(imbalance)
        strength = excess / (2 * n_pivots)
        forces = strength.sum(axis=1)[:, None] * mixing - strength @ mixing
        mixing = mixing + forces


def shared_rows(products, squares, sizes, mixing) -> np.ndarray:
    """Count the rows in each two balls of half of the rows, as (n, n) float64."""
    device, half = products.device, products.shape[1] // 2
    weights = torch.from_numpy(mixing).to(device, torch.float32)
    distances = squares - 2 * weights @ products
    distances += torch.from_numpy(sizes).to(device, torch.float32)[:, None]
    # The nearer half, and rows as far as its last one up to rounding, so that equal
    # rows fall on one side.
    limits = distances.kthvalue(half, dim=1, keepdim=True).values
    limits += ROUNDING * distances.mean(dim=1, keepdim=True)
    inside = (distances <= limits).to(torch.float32)
    return (inside @ inside.T).cpu().numpy().astype(np.float64)
