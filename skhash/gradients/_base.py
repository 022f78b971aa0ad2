"""The contract of gradient estimators, and the units whose gradients they estimate."""

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass, field

import torch
from sklearn.base import BaseEstimator
from torch.autograd import Function

from skhash.codes import CODINGS
from skhash.noise import Logistic, Noise, resolve_noise


@dataclass(frozen=True)
class BernoulliUnits:
    """Independent binary units, which are on with probability ``F(a)`` for a logit a.

    Parameters
    ----------
    noise : Noise or its name, default=Logistic()
        Noise whose distribution function is F.
    coding : {"01", "pm1"}, default="01"
        Whether the values of a unit are 0 and 1, or -1 and +1.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import BernoulliUnits
    >>> units = BernoulliUnits("uniform", "pm1")
    >>> units.mean(torch.tensor([-2.0, 0.0, 0.5]))
    tensor([-1.0000,  0.0000,  0.5000])
    """

    noise: Noise = field(default_factory=Logistic)
    coding: str = "01"

    def __post_init__(self):
        if self.coding not in CODINGS:
            raise ValueError(
                f"coding={self.coding!r} is not one of {', '.join(CODINGS)}."
            )
        object.__setattr__(self, "noise", resolve_noise(self.noise))

    @property
    def low(self) -> float:
        """The low value of a unit."""
        return CODINGS[self.coding][0]

    @property
    def step(self) -> float:
        """The difference of a unit's high value and its low one."""
        return CODINGS[self.coding][1]

    @property
    def high(self) -> float:
        """The high value of a unit."""
        return self.low + self.step

    def values(self, on):
        """Return the values of units that are on where `on` is True or 1."""
        return self.low + self.step * on

    def signs(self, values):
        """Return +1 for high and -1 for low values, in their dtype."""
        return 2 * (values - self.low) / self.step - 1

    def flip(self, values):
        """Return the other value of every unit."""
        return self.low + self.high - values

    def draw(self, logits, generator=None, samples=()):
        """Draw the values of units with these logits; no gradient flows.

        Parameters
        ----------
        logits : Tensor
        generator : torch.Generator or None
        samples : tuple of int, default=()
            Axes of independent draws, in front of those of `logits`.
        """
        return self.draw_with(self.noise.cdf(logits.detach()), generator, samples)

    def draw_with(self, p, generator=None, samples=()):
        """Draw the values of units by their probabilities; no gradient flows.

        Parameters
        ----------
        p : Tensor
            How probable it is that a unit is on.
        generator, samples
            As those of `draw`.
        """
        on = uniform_like(p, generator, samples).lt_(p.detach())
        return on.mul_(self.step).add_(self.low)

    def mean(self, logits):
        """Return the expected values, differentiable in the logits."""
        return self.values(self.noise.cdf(logits))

    def slope(self, logits):
        """Return the derivative of the expected values in the logits."""
        return self.step * self.noise.pdf(logits)

    def score(self, values, logits):
        """Return the derivative of the log probability of `values` in the logits."""
        signs = self.signs(values)
        return signs * self.noise.hazard(signs * logits)


UNITS = BernoulliUnits()


class GradientEstimator(BaseEstimator, metaclass=ABCMeta):
    """Base of estimators of the gradient of ``E_x[f(x)]`` in logits of binary units.

    Function-wise estimators derive from this class: they evaluate f as a function, most
    without its derivatives. Layer-wise estimators derive from `LayerwiseGradient`.

    State between calls is kept in attributes with a trailing underscore, which
    `sklearn.base.clone` drops. All estimators accept `rows` and `curvature`, and ignore
    them if they do not need them.
    """

    _parameter_constraints: dict = {}

    # Whether `surrogate` has to be told the curvature of the loss.
    needs_curvature = False

    @abstractmethod
    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        """Return losses whose gradient is the estimate.

        Parameters
        ----------
        loss : callable
            Function that maps values of units, of shape (..., n_rows, n_bits), to one
            loss per row, of shape (..., n_rows). The first axes are samples, over which
            the other inputs of the rows broadcast.
        logits : Tensor of shape (n_rows, n_bits)
            Logits of the units.
        generator : torch.Generator or None
            Generator for drawing values, on the device of `logits`. None uses torch's
            global generator.
        units : BernoulliUnits
            Noise and coding of the units.
        rows : Tensor of shape (n_rows,), int64, or None
            Positions of these rows in the data, for estimators that keep a state per
            row.
        curvature : Tensor of shape (n_bits,) or (n_rows, n_bits), or None
            Half the second derivative of the loss in each unit, for estimators that
            correct for it (`needs_curvature`).

        Returns
        -------
        losses : Tensor of shape (n_rows,)
            Estimate of the expected loss of each row. Its gradient in `logits` is the
            estimate; its gradient in the parameters of `loss` is the ordinary one, at
            the first values drawn.
        """


class LayerwiseGradient(GradientEstimator):
    """Base of estimators that give drawn values a derivative, for backpropagation.

    A subclass defines `sample`. The function must be differentiable in the values.
    """

    @abstractmethod
    def sample(self, logits, generator=None, *, units=UNITS):
        """Return values of the units whose derivative in the logits is the estimate.

        Parameters
        ----------
        logits : Tensor of shape (..., n_bits)
            Logits of the units.
        generator : torch.Generator or None
        units : BernoulliUnits
            Noise and coding of the units.

        Returns
        -------
        values : Tensor of the shape of `logits`
            Drawn values.
        """

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        """Return ``loss(sample(logits))``; see `GradientEstimator.surrogate`."""
        return loss(self.checked_sample(logits, generator, units))

    def checked_sample(self, logits, generator, units):
        """Return `sample`'s values; raise ``ValueError`` if they have no derivative."""
        values = self.sample(logits, generator, units=units)
        if logits.requires_grad and not values.requires_grad:
            raise ValueError(
                f"{type(self).__name__}.sample returned values without a derivative in "
                "the logits, so nothing can be learned; add one, such as "
                "values + slope * (logits - logits.detach())."
            )
        return values


def uniform_like(logits, generator=None, samples=()):
    """Draw from U(0, 1) in the shape of `logits`, with `samples` axes in front."""
    kind = {"device": logits.device, "dtype": logits.dtype}
    return torch.rand((*samples, *logits.shape), generator=generator, **kind)


class _AttachedSlope(Function):
    """Values whose derivative in the logits is a slope."""

    @staticmethod
    def forward(ctx, values, logits, slope):
        ctx.save_for_backward(slope)
        return values

    @staticmethod
    def backward(ctx, gradient):
        (slope,) = ctx.saved_tensors
        return None, gradient * slope, None


def attach_slope(values, logits, slope):
    """Keep `values`; give each the derivative `slope` in its logit.

    Parameters
    ----------
    values, logits : Tensors of one shape
    slope : Tensor that broadcasts to it
    """
    return _AttachedSlope.apply(values.detach(), logits, slope.detach())


def attach_gradient(losses, variable, gradient):
    """Keep `losses`; add `gradient` to that of each row in `variable`.

    Parameters
    ----------
    losses : Tensor of shape (n_rows,)
    variable, gradient : Tensors of shape (n_rows, n_bits)
    """
    zero = (variable - variable.detach()) * gradient.detach()
    return losses + zero.sum(dim=-1)


def evaluate_samples(loss, samples):
    """Return the losses at each sample; only those at the first keep their graph.

    Parameters
    ----------
    loss : callable
        As in `GradientEstimator.surrogate`.
    samples : Tensor of shape (n_samples, n_rows, n_bits)

    Returns
    -------
    first : Tensor of shape (n_rows,)
        The losses at the first sample, differentiable in the loss's parameters.
    losses : Tensor of shape (n_samples, n_rows)
        The losses at all of them, the first included, without a graph.
    """
    first = loss(samples[0])
    losses = first.detach()[None]
    if len(samples) > 1:
        with torch.no_grad():
            losses = torch.cat([losses, loss(samples[1:])])
    return first, losses
