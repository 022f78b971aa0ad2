"""Spectral hashing."""

from numbers import Real
from typing import Annotated

import numpy as np

from skhash.base import BaseHasher, LinearLogitsMixin
from skhash.numerics._projection import PrincipalAxes
from skhash.persistence.schema import wholes
from skhash.utils._sklearn import Interval
from skhash.utils.parameters import with_parameters


@with_parameters(kw_only=True)
class SpectralHash(LinearLogitsMixin, BaseHasher):
    r"""Spectral hashing: sinusoids along the principal axes, for data that fill a box.

    Near rows should get similar codes y in {-1, +1}, which minimize
    ``sum_ij exp(-|x_i - x_j|^2 / width^2) |y_i - y_j|^2`` with balanced and
    uncorrelated bits. The signs of the smoothest eigenfunctions of a graph Laplacian
    come close to that. For rows spread evenly over the box of their principal
    components, these functions are known (Weiss et al., 2008, equation 6): on an axis
    from a to b ::

        cos(m pi (x - a) / (b - a)),   m = 1, 2, ...

    and the smoothest have the smallest frequency ``m / (b - a)``, whatever the width. A
    bit thus divides one axis into m + 1 stripes of values 1, 0, 1, ..., and long axes
    get more bits than short ones.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits per code. It may exceed the number of columns, because an axis
        can have several bits.
    trim : float, default=0.003
        Share of the training rows that lie outside the box at each end of each axis,
        below 0.5. With 0 the box holds all rows, as in the authors' code, but then a
        few outliers shift all stripes.
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
    components_ : ndarray of shape (n_bits, n_features), float32
        Principal axis of each bit times its frequency on that axis, ``pi m / (b - a)``.
    intercept_ : ndarray of shape (n_bits,), float32
        Phase that is 0 at the lower end of the axis. Logits are the cosines of
        ``(x - mean_) components_^T + intercept_``.
    mean_ : ndarray of shape (n_features,), float64
        Mean of the training data.
    modes_ : ndarray of shape (n_bits,), int64
        Number of times m that each bit changes along its axis.
    axes_ : ndarray of shape (n_bits,), int64
        Principal axis of each bit, where 0 is the one with the largest variance.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    Raises
    ------
    ValueError
        If all rows passed to `fit` are equal, or all except a share of `trim`.

    See Also
    --------
    skhash.PCAHash : One bit per axis, split at the mean.
    skhash.ITQHash : Principal components with a learned rotation.

    Notes
    -----
    The stripes continue beyond the ends of the box, as in the authors' code.

    References
    ----------
    Y. Weiss, A. Torralba and R. Fergus, "Spectral hashing", NIPS 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.linear import SpectralHash
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> SpectralHash(n_bits=2).fit_transform(X).T
    array([[1, 1, 1, 1, 0, 0, 0, 0],
           [1, 1, 0, 0, 0, 0, 1, 1]], dtype=uint8)
    """

    trim: Annotated[float, Interval(Real, 0, 0.5, closed="left")] = 0.003

    _saved = {"axes_": wholes("n_bits", low=0), "modes_": wholes("n_bits", low=1)}

    def _fit_codes(self, X, y, random_state):
        n_axes = min(self.n_bits, *X.shape)
        principal = PrincipalAxes(X, n_axes, self.device, random_state)
        self.mean_, projected = principal.mean, principal.projected().cpu().numpy()
        ends = np.quantile(projected, [self.trim, 1 - self.trim], axis=0)
        low, high = ends.astype(np.float64)
        if not (high > low).any():
            raise ValueError(
                f"Nearly all {X.shape[0]} rows of X are equal: after trimming a share "
                f"of trim={self.trim} at each end, no axis has two values. Use trim=0."
            )
        self.axes_, self.modes_ = smoothest_modes(high - low, self.n_bits)
        frequencies = np.pi * self.modes_ / (high - low)[self.axes_]
        self.components_ = (frequencies[:, None] * principal.axes[self.axes_]).astype(
            np.float32
        )
        self.intercept_ = (-frequencies * low[self.axes_]).astype(np.float32)

    def _logits(self, X):
        return np.cos(super()._logits(X))


def smoothest_modes(widths, n_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return axis and mode of the `n_bits` smallest ratios of mode and width.

    An axis of width 0 has no modes; the widest axis alone has enough of them.
    """
    modes = np.arange(1, n_bits + 1)
    with np.errstate(divide="ignore"):
        ratios = modes / widths[:, None]
    smallest = np.argsort(ratios, axis=None, kind="stable")[:n_bits]
    axes, positions = np.unravel_index(smallest, ratios.shape)
    return axes, modes[positions]
