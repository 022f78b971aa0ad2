"""Noise of Bernoulli units: a unit is on where its logit exceeds the noise, a > z.

Every family is symmetric around 0 and scaled so that ``2 F'(0) = 1`` at ``scale=1``: a
unit of -1/+1 then has slope one at the threshold, and straight-through and identity
straight-through agree there (Shekhovtsov and Yanush, 2021, section 4). With `scale` c
the distribution function is ``F(a / c)``. Logistic noise of scale 2 gives the usual
``P(on) = sigmoid(a)``.
"""

import math
from abc import ABCMeta, abstractmethod
from numbers import Real

import torch
from sklearn.base import BaseEstimator

__all__ = ["Logistic", "Noise", "Normal", "Triangular", "Uniform"]


class Noise(BaseEstimator, metaclass=ABCMeta):
    """Base class of noise distributions, symmetric around 0.

    A subclass defines `_cdf`, `_pdf`, `_icdf` and `_unit_variance`, all at scale 1.

    Parameters
    ----------
    scale : float, default=1.0
        Factor by which the noise is stretched: the distribution function is
        ``F(a / scale)``.
    """

    _unit_variance: float

    def __init__(self, scale=1.0) -> None:
        self.scale = scale

    @abstractmethod
    def _cdf(self, a): ...

    @abstractmethod
    def _pdf(self, a): ...

    @abstractmethod
    def _icdf(self, p): ...

    def cdf(self, a):
        """Return ``F(a)``, the probability that a unit with logit `a` is on.

        Parameters
        ----------
        a : Tensor of logits
            Logits.
        """
        return self._cdf(self._over_scale(a))

    def pdf(self, a):
        """Return the density ``F'(a)``.

        Parameters
        ----------
        a : Tensor of logits
            Logits.
        """
        return self._over_scale(self._pdf(self._over_scale(a)))

    def _over_scale(self, values):
        return values if self.scale == 1 else values / self.scale  # one pass less

    def icdf(self, p):
        """Return the `a` with ``F(a) = p``, infinite at 0 and 1 if the support is.

        Parameters
        ----------
        p : Tensor of probabilities
            Probabilities.
        """
        return self.scale * self._icdf(p)

    def sample(self, shape, generator=None, *, device=None, dtype=torch.float32):
        """Draw noise, which is always finite.

        Parameters
        ----------
        shape : tuple of int
            Shape of the result.
        generator : torch.Generator or None
            Generator on `device`. None uses torch's global one.
        device : torch.device or None
            Device of the noise. None uses that of `generator`.
        dtype : torch.dtype
            Type of the result.

        Returns
        -------
        noise : Tensor of shape `shape`
            Noise.
        """
        if device is None and generator is not None:
            device = generator.device
        p = torch.rand(shape, generator=generator, device=device, dtype=dtype)
        return self._finite_icdf(p)

    def sample_spread(self, n_draws, shape, generator=None, *, dtype=torch.float32):
        """Draw noise several times, with the draws of each entry spread evenly.

        Each draw alone is distributed as in `sample`. Together they are a Latin
        hypercube: the draws of an entry lie one in each of `n_draws` equally likely
        ranges, in an order that is random and independent between entries. The mean of
        a function over the draws varies no more than over independent draws if the
        function is monotone in each entry, and much less if it is nearly a sum over
        entries.

        Parameters
        ----------
        n_draws : int
            Number of draws.
        shape : tuple of int
            Shape of one draw.
        generator : torch.Generator or None
            Generator for the draws. None uses torch's global one, on the CPU.
        dtype : torch.dtype
            Type of the result.

        Returns
        -------
        noise : Tensor of shape ``(n_draws, *shape)``
            Noise, one draw per entry of the first axis.

        References
        ----------
        M. D. McKay, R. J. Beckman and W. J. Conover, "A comparison of three methods for
        selecting values of input variables in the analysis of output from a computer
        code", Technometrics 1979.

        Examples
        --------
        >>> from skhash.noise import Uniform
        >>> noise = Uniform().sample_spread(4, (3,))
        >>> (2 * noise + 2).floor().sort(dim=0).values.T
        tensor([[0., 1., 2., 3.],
                [0., 1., 2., 3.],
                [0., 1., 2., 3.]])
        """
        device = None if generator is None else generator.device
        order, place = torch.rand(
            (2, n_draws, *shape), generator=generator, device=device, dtype=dtype
        )
        p = (order.argsort(dim=0) + place) / n_draws
        # The sum may have been rounded up to the end of the last range.
        return self._finite_icdf(p.clamp(max=1 - 0.5 * torch.finfo(dtype).eps))

    def _finite_icdf(self, p):
        """Return the quantiles of multiples of eps / 2 below 1, always finite."""
        # 0 may be among them: take the middle of such a cell. In the upper half that
        # would round up, to 1 in the end.
        return self.icdf(p + 0.25 * torch.finfo(p.dtype).eps * (p < 0.5))

    def log_odds(self, a):
        """Return ``log(F(a) / (1 - F(a)))``, finite and differentiable everywhere.

        The log odds are constant where a probability is below the resolution of the
        dtype.

        Parameters
        ----------
        a : Tensor of logits
            Logits.
        """
        edge = torch.finfo(a.dtype).eps
        on, off = self.cdf(a), self.cdf(-a)
        return on.clamp(min=edge).log() - off.clamp(min=edge).log()

    def hazard(self, a):
        """Return ``F'(a) / F(a)``, the derivative of ``log F(a)``, always finite.

        Parameters
        ----------
        a : Tensor of logits
            Logits.
        """
        edge = torch.finfo(a.dtype).eps
        return self.pdf(a) / self.cdf(a).clamp(min=edge)

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        return self.scale**2 * self._unit_variance


class Logistic(Noise):
    """Logistic noise: ``F(a) = sigmoid(2 a / scale)``. The mean of a unit is a tanh.

    Parameters
    ----------
    scale : float, default=1.0
        Scale of the noise. At 2, a unit is on with probability ``sigmoid(a)``.

    Examples
    --------
    >>> import torch
    >>> from skhash.noise import Logistic
    >>> Logistic().cdf(torch.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8808])
    """

    _unit_variance = math.pi**2 / 12

    def _cdf(self, a):
        return torch.sigmoid(2 * a)

    def _pdf(self, a):
        return 2 * torch.sigmoid(2 * a) * torch.sigmoid(-2 * a)

    def _icdf(self, p):
        return 0.5 * (p.log() - torch.log1p(-p))

    def log_odds(self, a):
        return 2 / self.scale * a

    def hazard(self, a):
        return 2 / self.scale * torch.sigmoid(-2 / self.scale * a)


class Uniform(Noise):
    """Uniform noise on [-scale, scale]. The mean of a unit is a hard tanh.

    Parameters
    ----------
    scale : float, default=1.0
        Half of the width of the support.

    Examples
    --------
    >>> import torch
    >>> from skhash.noise import Uniform
    >>> Uniform().cdf(torch.tensor([-1.0, 0.0, 0.5, 2.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """

    _unit_variance = 1 / 3

    def _cdf(self, a):
        return (0.5 * (a + 1)).clamp(0, 1)

    def _pdf(self, a):
        return 0.5 * (a.abs() <= 1).to(a.dtype)

    def _icdf(self, p):
        return 2 * p - 1


class Triangular(Noise):
    """Triangular noise on [-2 scale, 2 scale]; a unit's mean is piecewise quadratic.

    Parameters
    ----------
    scale : float, default=1.0
        A quarter of the width of the support.

    Examples
    --------
    >>> import torch
    >>> from skhash.noise import Triangular
    >>> Triangular().cdf(torch.tensor([-2.0, -1.0, 0.0, 1.0]))
    tensor([0.0000, 0.1250, 0.5000, 0.8750])
    """

    _unit_variance = 2 / 3

    def _cdf(self, a):
        a = a.clamp(-2, 2)
        # Without |a|, whose derivative at 0 is 0 to autograd.
        low, high = 0.125 * (2 + a).square(), 1 - 0.125 * (2 - a).square()
        return torch.where(a > 0, high, low)

    def _pdf(self, a):
        return 0.25 * (2 - a.abs()).clamp(min=0)

    def _icdf(self, p):
        tail = 2 - (8 * torch.minimum(p, 1 - p)).sqrt()
        return torch.where(p > 0.5, tail, -tail)


class Normal(Noise):
    """Gaussian noise with standard deviation ``scale * sqrt(2 / pi)``.

    Parameters
    ----------
    scale : float, default=1.0
        Scale of the noise. At ``sqrt(pi / 2)``, it is standard normal.

    Examples
    --------
    >>> import math, torch
    >>> from skhash.noise import Normal
    >>> Normal(scale=math.sqrt(math.pi / 2)).cdf(torch.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """

    _unit_variance = 2 / math.pi
    _per_deviation = math.sqrt(math.pi / 2)

    def _cdf(self, a):
        return torch.special.ndtr(self._per_deviation * a)

    def _pdf(self, a):
        return 0.5 * torch.exp(-math.pi / 4 * a.square())

    def _icdf(self, p):
        return torch.special.ndtri(p) / self._per_deviation

    def log_odds(self, a):
        # Beyond 38 deviations the tail is 0 even in float64.
        z = (self._per_deviation / self.scale * a).clamp(-38, 38)
        return torch.special.log_ndtr(z) - torch.special.log_ndtr(-z)

    def hazard(self, a):
        # The scaled complementary error function is the ratio of tail to density.
        ratio = torch.special.erfcx(-0.5 * math.sqrt(math.pi) / self.scale * a)
        return 1 / (self.scale * ratio)


NOISES = {
    "logistic": Logistic,
    "normal": Normal,
    "triangular": Triangular,
    "uniform": Uniform,
}


def resolve_noise(noise) -> Noise:
    """Return a noise by its name, or the given noise itself.

    Parameters
    ----------
    noise : {"logistic", "normal", "triangular", "uniform"} or Noise

    Raises
    ------
    ValueError
        If it is neither, or if its scale is not a number above 0.
    """
    if isinstance(noise, str) and noise in NOISES:
        return NOISES[noise]()
    if not isinstance(noise, Noise):
        raise ValueError(
            f"noise={noise!r} is not one of {', '.join(NOISES)}, nor an instance of "
            "skhash.noise.Noise."
        )
    if not (isinstance(noise.scale, Real) and 0 < noise.scale < math.inf):
        raise ValueError(f"The scale of {noise!r} must be a number above 0.")
    return noise
