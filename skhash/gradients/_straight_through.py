"""Straight-through estimators: drawn values with a slope attached."""

from typing import Literal

from skhash.gradients._base import UNITS, LayerwiseGradient, attach_slope
from skhash.utils.parameters import with_parameters


@with_parameters()
class StraightThrough(LayerwiseGradient):
    r"""Straight-through: each drawn value gets the derivative of its mean.

    For units that are on with probability F(a), and whose two values differ by s (1 for
    "01", 2 for "pm1"), the estimate is

    .. math:: \hat g_i = s F'(a_i) \, \partial_i f(x)

    It costs as much as backpropagation, and the function must be differentiable. The
    estimate is unbiased if f is multilinear in the units (proposition B.2), and has no
    variance if f is linear. A monotone map of both logits and noise does not change it
    (proposition B.1).

    For f quadratic in each unit the bias is known: ``debias="quadratic"`` removes it
    (proposition B.3).

    Parameters
    ----------
    debias : {"quadratic"} or None, default=None
        "quadratic" makes `surrogate` subtract ``curvature * (x - low) (x - high)``,
        summed over units, which is 0 at every drawn value, unlike its derivative.
        `surrogate` then needs `curvature`. `sample`, which does not see the loss,
        corrects nothing.

    Notes
    -----
    The estimate depends on values of f between those of the units. For a 0/1 unit and
    ``f(x) = x - sin(2 pi x)`` it is ``1 - 2 pi`` times the true gradient (example 2 of
    the paper, which has -1 for this factor).

    The paper's propositions B.4 and B.5, that rescaled and biased variants are ascent
    directions, hold coordinate by coordinate in the logits. They do not hold in the
    parameters that the logits are made of: for logits ``(t, t + 4)`` and the loss
    ``x_1 - 2 x_2`` at t = 0, the true derivative in t is positive and identity
    straight-through gives a negative one. The condition of B.5 is stated for the mean
    derivative; it has to be a condition on its absolute value, and it is sufficient,
    not necessary.

    References
    ----------
    G. Hinton, "Neural networks for machine learning", lecture 15d, 2012.

    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import StraightThrough
    >>> logits = torch.zeros(4, 2, requires_grad=True)
    >>> generator = torch.Generator().manual_seed(0)
    >>> values = StraightThrough().sample(logits, generator)
    >>> bool(((values == 0) | (values == 1)).all())
    True
    >>> values.sum().backward()
    >>> logits.grad[0]
    tensor([0.5000, 0.5000])
    """

    debias: Literal["quadratic"] | None = None

    @property
    def needs_curvature(self):
        return self.debias is not None

    def sample(self, logits, generator=None, *, units=UNITS):
        values = units.draw(logits, generator)
        return attach_slope(values, logits, units.slope(logits.detach()))

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        values = self.sample(logits, generator, units=units)
        losses = loss(values)
        if not self.needs_curvature:
            return losses
        if curvature is None:
            raise ValueError(
                f"debias={self.debias!r} needs half the second derivative of the loss "
                "in each unit; pass curvature, or use debias=None."
            )
        zero = curvature * (values - units.low) * (values - units.high)
        return losses - zero.sum(dim=-1)


class DeterministicST(LayerwiseGradient):
    r"""Straight-through at the most likely values, without drawing any.

    .. math::
        \hat g_i = s F'(a_i) \, \partial_i f(x^*), \quad x^*_i = low + s \, [a_i > 0]

    with s the difference of the two values of a unit, of which low is the lower one. A
    unit is on if its logit is above 0. There is no variance, and training minimizes
    the loss at x*, not its mean. With `Uniform` noise this is the hard tanh
    straight-through of binary networks. It approaches `StraightThrough` as units become
    certain of their values: the two have the same sign if the derivative at x* is large
    compared with the probability of another state (propositions B.7 and B.8; the
    Lipschitz constant has to be taken over all units, not over the unit alone).

    It costs as much as backpropagation, and the function must be differentiable.

    References
    ----------
    I. Hubara, M. Courbariaux, D. Soudry, R. El-Yaniv and Y. Bengio, "Binarized neural
    networks", NIPS 2016.

    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import DeterministicST
    >>> logits = torch.tensor([[-1.0, 0.0, 0.5]], requires_grad=True)
    >>> DeterministicST().sample(logits).detach()
    tensor([[0., 0., 1.]])
    """

    def sample(self, logits, generator=None, *, units=UNITS):
        values = units.values((logits > 0).to(logits.dtype))
        return attach_slope(values, logits, units.slope(logits.detach()))


class IdentityST(LayerwiseGradient):
    r"""Identity straight-through: each drawn value gets a constant derivative.

    .. math:: \hat g_i = \tfrac s2 \, \partial_i f(x)

    with s the difference of the two values of a unit. The slope s/2 is that of
    `StraightThrough` at a = 0 and ``scale=1``, so both codings give the same estimate.
    (The experiment of Shekhovtsov and Yanush uses slope 1 for 0/1 bits, twice as much.)
    A unit that is certain of its value is moved as much as any other. In the parameters
    behind the logits, the estimate may not be an ascent direction, even for a linear
    loss; see the notes of `StraightThrough`.

    It costs as much as backpropagation, and the function must be differentiable.

    References
    ----------
    Y. Bengio, N. Leonard and A. Courville, "Estimating or propagating gradients through
    stochastic neurons for conditional computation", 2013.

    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021, proposition B.4.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import IdentityST
    >>> logits = torch.tensor([[-9.0, 0.0, 9.0]], requires_grad=True)
    >>> IdentityST().sample(logits).sum().backward()
    >>> logits.grad
    tensor([[0.5000, 0.5000, 0.5000]])
    """

    def sample(self, logits, generator=None, *, units=UNITS):
        values = units.draw(logits, generator)
        return attach_slope(values, logits, logits.new_tensor(units.step / 2))


class HardST(LayerwiseGradient):
    r"""Straight-through with a hard window, for any noise.

    .. math:: \hat g_i = \tfrac s2 \, [|a_i| \le 1] \, \partial_i f(x)

    with s the difference of the two values of a unit. Values are drawn with the noise
    of the units. With `Uniform` noise of scale 1 this is `StraightThrough`; with any
    other noise, the slope is not that of the mean. (With `Logistic` noise of scale 2, a
    unit is on with probability ``sigmoid(a)``; the slope of the hard window is then
    twice the true slope at a = 0.)

    It costs as much as backpropagation, and the function must be differentiable.

    References
    ----------
    I. Hubara, M. Courbariaux, D. Soudry, R. El-Yaniv and Y. Bengio, "Binarized neural
    networks", NIPS 2016.

    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import HardST
    >>> logits = torch.tensor([[-2.0, 0.5, 2.0]], requires_grad=True)
    >>> HardST().sample(logits).sum().backward()
    >>> logits.grad
    tensor([[0.0000, 0.5000, 0.0000]])
    """

    def sample(self, logits, generator=None, *, units=UNITS):
        values = units.draw(logits, generator)
        window = (logits.abs() <= 1).to(logits.dtype)
        return attach_slope(values, logits, units.step / 2 * window)


class MeanField(LayerwiseGradient):
    r"""Mean field: the value of every unit is its mean, and none is drawn.

    .. math:: \hat g_i = s F'(a_i) \, \partial_i f(E[x])

    with s the difference of the two values of a unit. For "pm1" and logistic noise of
    scale 1 the mean is tanh(a). There is no variance. Value and gradient are exact if f
    is multilinear. Otherwise training does not minimize the loss of binary values, and
    the difference does not vanish with training.

    It costs as much as backpropagation, and the function must be differentiable.

    References
    ----------
    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import MeanField
    >>> MeanField().sample(torch.tensor([[-1.0, 0.0, 1.0]]))
    tensor([[0.1192, 0.5000, 0.8808]])
    """

    def sample(self, logits, generator=None, *, units=UNITS):
        return units.mean(logits)


class ZGR(LayerwiseGradient):
    r"""Straight-through that is exact to second order; ReinMax, for binary units.

    .. math:: \hat g_i = \frac{s F'(a_i)}{2 P(x_i)} \, \partial_i f(x)

    with s the difference of the two values of a unit and P the probability of the drawn
    value. The difference of f between the two values of a unit is approximated by the
    trapezoid rule, so the estimate is unbiased if f is quadratic in each unit and any
    function of the others. Its variance is above that of `StraightThrough`, and not 0
    for linear f. With logistic noise the factor is at most s / scale; with bounded
    noise it is large for a logit near the end of the support, but such values are
    rarely drawn.

    It costs as much as backpropagation, and the function must be differentiable. For
    binary units this is also the zero-temperature limit of the Rao-Blackwellised
    straight-through Gumbel-softmax.

    References
    ----------
    A. Shekhovtsov, "Cold analysis of Rao-Blackwellized straight-through Gumbel-softmax
    gradient estimator", ICML 2023.

    L. Liu, C. Dong, X. Liu, B. Yu and J. Gao, "Bridging discrete and backpropagation:
    straight-through and beyond", NeurIPS 2023.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import ZGR
    >>> logits = torch.zeros(2, 3, requires_grad=True)
    >>> generator = torch.Generator().manual_seed(0)
    >>> ZGR().surrogate(lambda x: x.sum(dim=-1), logits, generator).sum().backward()
    >>> logits.grad[0]
    tensor([0.5000, 0.5000, 0.5000])
    """

    def sample(self, logits, generator=None, *, units=UNITS):
        values = units.draw(logits, generator)
        signs = units.signs(values)
        slope = units.step / 2 * units.noise.hazard(signs * logits.detach())
        return attach_slope(values, logits, slope)
