"""Signs of principal components."""

from typing import Literal

import numpy as np

from skhash.base import BaseHasher, LinearLogitsMixin
from skhash.numerics._projection import PrincipalAxes, check_enough_columns
from skhash.numerics._rotation import random_rotation
from skhash.utils.parameters import with_parameters


@with_parameters(kw_only=True)
class PCAHash(LinearLogitsMixin, BaseHasher):
    """Signs of the leading principal components.

    This is the simplest learned code, and with few bits often the best of the linear
    baselines. The components maximize the variance ``sum_k Var(u_k . x)``
    over orthonormal `u_k`. Later components carry little variance, so long codes waste
    bits on noise; a random rotation spreads the variance evenly over the bits.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code, at most ``min(n_samples, n_features)``.
    rotation : {"random"} or None, default=None
        "random" rotates the components at random before their signs are taken (Jegou et
        al., 2010). None uses the components themselves.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the rotation, and for the iterative solver that finds the principal
        axes of data with more than 4096 columns.

    Attributes
    ----------
    components_ : ndarray of shape (n_bits, n_features), float32
        Principal axes, one per row, rotated if `rotation` is set. They are orthonormal.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    intercept_ : ndarray of shape (n_bits,), float32
        Zeros.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    ITQHash : Principal components with a learned rotation.

    References
    ----------
    H. Jegou, M. Douze, C. Schmid and P. Perez, "Aggregating local descriptors into a
    compact image representation", CVPR 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import PCAHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = PCAHash(n_bits=8).fit_transform(X)
    >>> bits.shape, bits.dtype
    ((1797, 8), dtype('uint8'))
    """

    rotation: Literal["random"] | None = None

    def _fit_codes(self, X, y, random_state):
        check_enough_columns(X, self.n_bits, "PCAHash")
        principal = PrincipalAxes(X, self.n_bits, self.device, random_state)
        self.mean_, axes = principal.mean, principal.axes
        if self.rotation == "random":
            axes = random_rotation(self.n_bits, principal.generator).numpy().T @ axes
        self.components_ = axes.astype(np.float32)
        self.intercept_ = np.zeros(self.n_bits, dtype=np.float32)
