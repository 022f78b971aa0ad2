"""Random hyperplanes: the data-independent baseline."""

import numpy as np

from skhash.base import BaseHasher, LinearLogitsMixin
from skhash.numerics._projection import column_means
from skhash.utils.parameters import with_parameters


@with_parameters(kw_only=True)
class RandomHyperplaneHash(LinearLogitsMixin, BaseHasher):
    """Signs of random projections (locality-sensitive hashing), the baseline.

    Each bit says on which side of a random hyperplane through the data's mean a vector
    lies. Two vectors at angle t, seen from the mean, differ in a bit with probability t
    / pi (Charikar, 2002), so the Hamming distance estimates the angle. Only the mean is
    learned, so every other method should beat this one.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code.
    center : bool, default=True
        Whether the hyperplanes pass through the mean of the training data rather than
        the origin.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where to encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the hyperplanes.

    Attributes
    ----------
    components_ : ndarray of shape (n_bits, n_features), float32
        Normals of the hyperplanes, drawn from independent standard Gaussians.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data, or zeros if `center` is False.
    intercept_ : ndarray of shape (n_bits,), float32
        Zeros.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    skhash.PCAHash : Signs of principal components.
    skhash.ITQHash : Signs of rotated principal components.

    References
    ----------
    M. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.linear import RandomHyperplaneHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = RandomHyperplaneHash(n_bits=16, random_state=0).fit_transform(X)
    >>> bits.shape, bits.dtype
    ((1797, 16), dtype('uint8'))
    """

    center: bool = True

    def _fit_codes(self, X, y, random_state):
        n_features = X.shape[1]
        self.mean_ = column_means(X) if self.center else np.zeros(n_features)
        normals = random_state.standard_normal((self.n_bits, n_features))
        self.components_ = normals.astype(np.float32)
        self.intercept_ = np.zeros(self.n_bits, dtype=np.float32)
