"""Relaxed units: Gumbel-softmax and its straight-through form."""

import torch

from skhash.gradients._base import UNITS, LayerwiseGradient
from skhash.noise import Logistic
from skhash.utils.parameters import Positive, with_parameters

# The difference of two Gumbel variables: P(z < l) = sigmoid(l).
GUMBEL_DIFFERENCE = Logistic(scale=2)


@with_parameters()
class GumbelSoftmax(LayerwiseGradient):
    r"""Gumbel-softmax (Concrete): relaxed units, with values between low and high.

    With l the log-odds of a unit, s the difference of its two values, of which low is
    the lower one, and z logistic, ``P(z < l) = sigmoid(l)``,

    .. math:: x_i = low + s \, \sigma\!\left(\frac{l_i - z_i}{\tau}\right)

    and the gradient is that of the relaxed loss. The function gets values that are not
    binary, and must be defined and differentiable for these. It costs as much as
    backpropagation.

    The bias vanishes with the temperature, and the variance grows as its inverse. For
    one 0/1 unit, a linear loss c x and ``p' = sigmoid(l) sigmoid(-l)``, the bias in l
    is ``c tau^2 (pi^2 / 6) p' (1 - 6 p')`` to leading order: it is of second order,
    since the first vanishes for linear losses. Temperature times second moment tends to
    ``c^2 p' / 6``. Few draws carry the gradient: the derivative exceeds a threshold eps
    only if z is within about ``tau log(1 / (tau eps))`` of l.

    Parameters
    ----------
    temperature : float, default=1.0
        Temperature tau of the sigmoid. (For -1/+1 units written as a tanh of the same
        logits, the temperature is twice as large.)

    Notes
    -----
    Noise other than logistic enters through its log odds,
    ``l = log(F(a) / (1 - F(a)))``, so that rounding the value always gives the
    distribution of the unit.

    Corrected from Shekhovtsov and Yanush, proposition E.3: for small tau the
    probability of a derivative above eps is about ``2 p' tau log(1 / (tau eps))``. The
    proof lacks the 2 and the tau of the logarithm.

    References
    ----------
    E. Jang, S. Gu and B. Poole, "Categorical reparameterization with Gumbel-softmax",
    ICLR 2017.

    C. J. Maddison, A. Mnih and Y. W. Teh, "The Concrete distribution", ICLR 2017.

    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, appendix E.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import GumbelSoftmax
    >>> generator = torch.Generator().manual_seed(0)
    >>> values = GumbelSoftmax(temperature=0.5).sample(torch.zeros(8, 4), generator)
    >>> bool(((values > 0) & (values < 1)).all())
    True
    """

    temperature: Positive = 1.0

    def sample(self, logits, generator=None, *, units=UNITS):
        margin = self._margin(logits, generator, units)
        return units.values(torch.sigmoid(margin / self.temperature))

    def _margin(self, logits, generator, units):
        """Return the log-odds above the noise: above 0 where a unit is on."""
        self._validate_params()
        noise = GUMBEL_DIFFERENCE.sample(
            logits.shape, generator, device=logits.device, dtype=logits.dtype
        )
        return units.noise.log_odds(logits) - noise


class STGumbel(GumbelSoftmax):
    r"""Straight-through Gumbel-softmax: binary values with a relaxed derivative.

    .. math::
        x_i = low + s \, [l_i > z_i], \qquad
        \hat g_i = \frac{s}{\tau} \sigma' \!\left(\frac{l_i - z_i}{\tau}\right)
        \frac{\partial l_i}{\partial a_i} \, \partial_i f(x)

    with l, s, low and z as in `GumbelSoftmax`. The function gets only binary values,
    and must be differentiable. It costs as much as backpropagation.

    As the temperature goes to 0, the mean of the estimate becomes the average of the
    derivatives at both values of the unit, times F'. The bias therefore vanishes only
    if f is quadratic in each unit. The variance grows as the inverse of the
    temperature.

    Parameters
    ----------
    temperature : float, default=1.0
        Temperature tau of the sigmoid.

    Notes
    -----
    Corrected from Shekhovtsov and Yanush, appendix E, property V: the estimate is not
    half the gradient. The contributions of noise below and above the logit are added.

    References
    ----------
    E. Jang, S. Gu and B. Poole, "Categorical reparameterization with Gumbel-softmax",
    ICLR 2017.

    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, appendix E.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import STGumbel
    >>> generator = torch.Generator().manual_seed(0)
    >>> values = STGumbel(temperature=0.5).sample(torch.zeros(8, 4), generator)
    >>> bool(((values == 0) | (values == 1)).all())
    True
    """

    def sample(self, logits, generator=None, *, units=UNITS):
        margin = self._margin(logits, generator, units)
        hard = (margin > 0).to(logits.dtype)
        soft = torch.sigmoid(margin / self.temperature)
        return units.values(hard + (soft - soft.detach()))
