"""Scalable graph hashing."""

from typing import Literal

import numpy as np
from scipy.linalg import eigh

from skhash.base import BaseHasher
from skhash.linear._anchors import AnchorLogitsMixin, squared_distances
from skhash.utils.chunks import dense_chunks, row_chunks
from skhash.utils.lazy import torch
from skhash.utils.parameters import Count, Positive, with_parameters
from skhash.utils.torch import resolve_device

# Added to the scatter of the features, as a share of its mean diagonal entry, so that
# nearly equal anchors do no harm.
RIDGE = 1e-6


@with_parameters(kw_only=True)
class ScalableGraphHash(AnchorLogitsMixin, BaseHasher):
    r"""Scalable graph hashing: codes whose products follow the similarity of pairs.

    It minimizes over codes B in {-1, +1}, one row per sample, ::

        |n_bits S - B B^T|_F^2,   S_ij = 2 exp(-|x_i - x_j|^2 / (rho R^2)) - 1

    with R the largest distance of a training row from the mean. S is never formed: over
    the range of products of rows, ``exp(t)`` is close to a line, and S is close to a
    product of two matrices with ``n_features + 2`` columns (Jiang and Li, 2015,
    equations 4 to 6). Bits are the signs of ``F w``, with F the centred kernel features
    of the rows, ``exp(-gamma |x - a|^2)`` for each anchor a. They are learned one after
    the other, with w the leading solution of ::

        F^T (n_bits S - sum of b b^T over the other bits) F w = t F^T F w

    First, the sum is over the bits learned so far. Then each bit is learned once more,
    in random order, with the sum over all other bits.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code.
    n_anchors : int, default=300
        Number of anchors: training rows, drawn at random, to which the kernel features
        measure distances. If there are fewer rows, all of them are anchors.
    similarity_width : float, default=2.0
        Width rho of the similarity. At 2 or more, all products are in the range of the
        linear approximation.
    gamma : float or "auto", default="auto"
        Inverse width of the kernel. "auto" is ``1 / (2 m)``, with m the mean squared
        distance of training rows and anchors.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where to fit: "auto", "cpu", "cuda", "cuda:1" or "mps". The kernel features are
        computed on the CPU.
    random_state : int, RandomState instance or None, default=None
        Seed for the anchors and the order of the second round.

    Attributes
    ----------
    coef_ : ndarray of shape (n_bits, n_anchors), float64
        Directions w, scaled so that logits of the training rows have mean square 1.
    intercept_ : ndarray of shape (n_bits,), float64
        Intercepts, which make the mean of the training logits 0.
    anchors_ : ndarray of shape (n_anchors, n_features), float32
        Anchors, minus `mean_`.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    gamma_ : float
        Inverse width of the kernel.
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
    skhash.SGHEncoder : Stochastic generative hashing, another method called SGH.
    SupervisedDiscreteHash : The same features, with labels.

    Notes
    -----
    The line is ``(e - 1/e) / 2 t + (e + 1/e) / 2``, which equals exp at t = -1 and 1
    and lies above it in between: for a row at the mean, S_ii = 1 becomes
    ``e + 1/e - 1``, or 2.09. The constant -1 in S has no effect, because the features
    are centred.

    `fit` needs ``8 * n_samples * n_anchors`` bytes for two copies of the features.

    References
    ----------
    Q.-Y. Jiang and W.-J. Li, "Scalable graph hashing with feature transformation",
    IJCAI 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.linear import ScalableGraphHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = ScalableGraphHash(n_bits=16, random_state=0).fit_transform(X)
    >>> bits.shape, bits.dtype
    ((1797, 16), dtype('uint8'))
    """

    n_anchors: Count = 300
    similarity_width: Positive = 2.0
    gamma: Positive | Literal["auto"] = "auto"

    def _fit_codes(self, X, y, random_state):
        device = resolve_device(self.device)
        self._draw_anchors(X, random_state)
        self.gamma_ = self._resolve_gamma(X)

        features, means = self._centered_features(X)
        whitening = whitening_of(features)
        features = features @ whitening.astype(np.float32)
        # Every round but the first finds the bit anew, with all others in place.
        second_round = random_state.permutation(self.n_bits)
        order = np.append(np.arange(self.n_bits), second_round)
        width = self.similarity_width
        similarity = self.n_bits * similarity_of(X, self.mean_, width, features)
        directions = learn_directions(features, similarity, order, device)
        self.coef_ = np.sqrt(X.shape[0]) * directions @ whitening.T
        self.intercept_ = -self.coef_ @ means

    def _resolve_gamma(self, X) -> float:
        if self.gamma != "auto":
            return float(self.gamma)
        # The mean of |x - a|^2 over all pairs: products vanish, as rows have mean 0.
        of_rows = squared_distances(X, self.mean_, np.zeros((1, X.shape[1])))
        of_anchors = np.square(self.anchors_, dtype=np.float64).sum(axis=1)
        return float(0.5 / (of_rows.mean() + of_anchors.mean()))

    def _centered_features(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return float32 features less their float64 means, and the means."""
        features = np.empty((X.shape[0], len(self.anchors_)), dtype=np.float32)
        for rows in row_chunks(X.shape[0], 24 * len(self.anchors_)):
            features[rows] = self._features(X[rows])
        means = features.mean(axis=0, dtype=np.float64)
        features -= means.astype(np.float32)
        return features, means


def whitening_of(features) -> np.ndarray:
    """Return a square T that makes ``features @ T`` orthonormal, up to the ridge."""
    scatter = np.zeros((features.shape[1], features.shape[1]))
    for rows in row_chunks(len(features), 8 * features.shape[1]):
        chunk = features[rows].astype(np.float64)
        scatter += chunk.T @ chunk
    values, vectors = np.linalg.eigh(scatter)
    return vectors / np.sqrt(np.maximum(values, 0) + RIDGE * (values.mean() or 1))


def similarity_of(X, mean, width: float, features) -> np.ndarray:
    """Return ``features^T S features`` for features of mean 0, by the linear exp.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_columns)
    mean : ndarray of shape (n_columns,)
    width : float
    features : ndarray of shape (n_samples, n_features), float32

    Returns
    -------
    similarity : ndarray of shape (n_features, n_features), float64
    """
    squares = squared_distances(X, mean, np.zeros((1, X.shape[1])))[:, 0]
    largest = squares.max()
    damping = np.exp(-squares / (width * largest))
    slope, height = np.e - 1 / np.e, np.e + 1 / np.e
    of_rows = np.zeros((features.shape[1], X.shape[1]))
    for rows, chunk in dense_chunks(X):
        of_rows += (features[rows].T * damping[rows]) @ (chunk - mean)
    of_ones = features.T @ damping
    products = 2 * slope / (width * largest) * of_rows @ of_rows.T
    return products + height * np.outer(of_ones, of_ones)


def learn_directions(features, similarity, order, device) -> np.ndarray:
    """Find the direction of each bit in turn, given the other bits known by then.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features), float32
        Whitened: orthonormal columns, of mean 0.
    similarity : ndarray of shape (n_features, n_features), float64
        ``features^T n_bits S features``.
    order : ndarray of int
        The bits to learn, one after the other. A bit that comes again is forgotten
        first.
    device : torch.device

    Returns
    -------
    directions : ndarray of shape (n_bits, n_features), float64
        Of length 1.
    """
    features = torch.from_numpy(features).to(device)
    n_bits, size = order.max() + 1, features.shape[1]
    residual = similarity.copy()
    directions, explained = np.zeros((n_bits, size)), np.zeros((n_bits, size))
    for bit in order:
        residual += np.outer(explained[bit], explained[bit])
        direction = eigh(residual, subset_by_index=[size - 1, size - 1])[1][:, 0]
        # The solver's sign is arbitrary.
        direction *= np.sign(direction[np.abs(direction).argmax()])
        on_device = torch.from_numpy(direction).to(features)
        signs = (features @ on_device > 0).to(features).mul_(2).sub_(1)
        directions[bit] = direction
        explained[bit] = (signs @ features).cpu().numpy()
        residual -= np.outer(explained[bit], explained[bit])
    return directions
