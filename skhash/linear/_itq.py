"""Iterative quantization."""

import numpy as np

from skhash.base import BaseHasher, LinearLogitsMixin
from skhash.numerics._projection import PrincipalAxes, check_enough_columns
from skhash.numerics._rotation import fit_itq_rotation, random_rotation
from skhash.persistence.schema import Plain, reals, wholes
from skhash.utils.parameters import Count, with_parameters


@with_parameters(kw_only=True)
class ITQHash(LinearLogitsMixin, BaseHasher):
    """Iterative quantization: principal components, rotated to be close to their signs.

    Exact steps alternately minimize ``|B - V R|_F^2`` over codes `B` in {-1, +1} and
    rotations `R`, where `V` are the centred data on their leading principal axes (Gong
    and Lazebnik, 2011, equation 2).

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code, at most ``min(n_samples, n_features)``.
    max_iter : int, default=50
        Maximum number of rotation steps.
    normalize : bool, default=False
        Whether to scale vectors to unit length first, so that codes follow cosine
        similarity. `transform` does the same, so pass vectors as they are.
    device : str, default="auto"
        Where to fit and encode: "auto", "cpu", "cuda", "cuda:1" or "mps".
    random_state : int, RandomState instance or None, default=None
        Seed for the initial rotation.

    Attributes
    ----------
    components_ : ndarray of shape (n_bits, n_features), float32
        Rotated principal axes, one per row. They are orthonormal.
    rotation_ : ndarray of shape (n_bits, n_bits), float64
        Learned rotation, an orthogonal matrix.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    intercept_ : ndarray of shape (n_bits,), float32
        Zeros.
    objective_ : ndarray of shape (n_iter_,), float64
        Mean squared quantization error per row after each step. It never increases.
    n_iter_ : int
        Number of rotation steps taken.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    PCAHash : Principal components without a rotation, or with a random one.
    SGHEncoder : Learns the projection too, and can start from ITQ.

    Notes
    -----
    The variant in faiss also scales the centred rows to unit length before the
    rotation. This one follows the paper and does not.

    References
    ----------
    Y. Gong and S. Lazebnik, "Iterative quantization: a Procrustean approach to learning
    binary codes", CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> itq = ITQHash(n_bits=16, random_state=0).fit(X)
    >>> itq.transform_packed(X).shape
    (1797, 2)
    >>> bool(itq.objective_[-1] < itq.objective_[0])
    True
    """

    max_iter: Count = 50

    _saved = {
        "objective_": Plain(np.ndarray),
        "n_iter_": wholes(low=0),
        "rotation_": reals("n_bits", "n_bits"),
    }

    def _fit_codes(self, X, y, random_state):
        check_enough_columns(X, self.n_bits, "ITQHash")
        principal = PrincipalAxes(X, self.n_bits, self.device, random_state)
        self.mean_ = principal.mean
        start = random_rotation(self.n_bits, principal.generator)
        rotation, self.objective_ = fit_itq_rotation(
            principal.projected(), start, self.max_iter
        )
        self.n_iter_ = len(self.objective_)
        self.rotation_ = rotation.numpy()
        self.components_ = (self.rotation_.T @ principal.axes).astype(np.float32)
        self.intercept_ = np.zeros(self.n_bits, dtype=np.float32)
