"""Latent scales of the codewords of an `SGHEncoder`."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

from skhash.utils._sklearn import Interval
from skhash.utils.strategies import resolved


class CodewordScale(BaseEstimator):
    """No scale: codewords are as they are.

    Subclasses override how parameters are initialised and read back.
    """

    _parameter_constraints: dict = {}
    is_none, is_latent, std = True, False, 1.0

    def start(self, start, X, mean, unit) -> None:
        """Add the first values of parameters to an `SGHStart`."""

    def read_out(self, values, unit) -> dict:
        """Return fitted attributes, given the parameters and the scale of the data."""
        return {}


class LatentScale(CodewordScale):
    """A latent scale z of each bit of each row (section E.1 of the supplement).

    x is Gaussian around ``alpha + (h o z) U``. z has the prior ``N(1, std^2)``, which
    the paper leaves out, and the posterior ``q(z|x) = N(m, v)`` with m linear in x and
    the best v. The codebook decodes a code at the prior mean of its scales, 1; see
    `SGHEncoder.inverse_transform`.

    Parameters
    ----------
    std : float, default=0.3
        The prior standard deviation; towards 0 the model is that without scales.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SGHEncoder
    >>> from skhash.neural import LatentScale
    >>> X, _ = load_digits(return_X_y=True)
    >>> encoder = SGHEncoder(16, scale=LatentScale(std=0.2), random_state=0).fit(X)
    >>> encoder.latent_scales(X).shape
    (1797, 16)
    """

    _parameter_constraints: dict = {"std": [Interval(Real, 0, None, closed="neither")]}
    is_none, is_latent = False, True

    def __init__(self, std=0.3):
        self.std = std

    def start(self, start, X, mean, unit):
        start.add_latent_scales()

    def read_out(self, values, unit):
        std = np.float32(self.std)
        weight = np.ascontiguousarray(values["scale_weight"].T)
        return {
            "scale_components_": weight * (std / unit),
            "scale_intercept_": values["scale_bias"] * std,
        }


SCALES = {None: CodewordScale, "latent": LatentScale}


def resolve_scale(scale) -> CodewordScale:
    """Return the scale of a name, of None, or a clone of the scale itself."""
    return resolved(scale, SCALES, CodewordScale, "scale")
