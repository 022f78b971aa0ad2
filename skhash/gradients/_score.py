"""Score-function estimators: the loss times the derivative of the log probability."""

from typing import Literal

import torch

from skhash.gradients._base import (
    UNITS,
    GradientEstimator,
    attach_gradient,
    evaluate_samples,
)
from skhash.utils.parameters import CountFrom2, Finite, Share, with_parameters


@with_parameters()
class Reinforce(GradientEstimator):
    r"""REINFORCE: the loss minus a baseline, times the score.

    .. math:: \hat g_i = (f(x) - b) \, \partial_{a_i} \log P(x_i)

    It is unbiased for every function, even if not differentiable, because the baseline
    does not depend on the drawn values: it is read before the new loss enters it. It
    needs one evaluation. The variance is usually the largest of the unbiased estimators
    here, and grows with the number of units; how fast depends on the baseline.

    Parameters
    ----------
    baseline : {"batch", "row"}, float or None, default="batch"
        Baseline to subtract from the loss.

        - "batch": a moving average of the mean loss of a batch.
        - "row": a moving average of the loss of each row of the data. `surrogate` then
          needs `rows`.
        - A number: a constant. None is 0.
    decay : float, default=0.9
        Weight of older losses relative to a newer one in the moving average, between 0
        and 1. The moving average is bias-corrected, as in Adam, and is 0 before the
        first loss.

    Attributes
    ----------
    totals_, weights_ : Tensors of shape (n_baselines,)
        Weighted sum of the losses so far, and sum of their weights. Losses count only
        if `logits` require a gradient.

    References
    ----------
    R. J. Williams, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning", Machine Learning 8, 1992.

    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020, appendix C.3 (baselines of rows).

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import Reinforce
    >>> gradient = Reinforce(baseline="row")
    >>> logits = torch.zeros(3, 2, requires_grad=True)
    >>> generator = torch.Generator().manual_seed(0)
    >>> losses = gradient.surrogate(
    ...     lambda x: 1 + 0 * x.sum(dim=-1), logits, generator,
    ...     rows=torch.tensor([4, 0, 2]),
    ... )
    >>> gradient.totals_
    tensor([1., 0., 1., 0., 1.])
    """

    baseline: Literal["batch", "row"] | Finite | None = "batch"
    decay: Share = 0.9

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        values = units.draw(logits, generator)
        losses = loss(values)
        signal = self._less_baseline(losses.detach(), rows, logits.requires_grad)
        gradient = signal[..., None] * units.score(values, logits.detach())
        return attach_gradient(losses, logits, gradient)

    def _less_baseline(self, signal, rows, remember):
        """Return `signal` less the baseline, then update that if `remember`."""
        if not isinstance(self.baseline, str):
            return signal - (self.baseline or 0.0)
        if self.baseline == "row" and rows is None:
            raise ValueError(
                f"{type(self).__name__}(baseline='row') keeps a baseline for each row "
                "of the data; pass rows, or use baseline='batch'."
            )
        if self.baseline == "row":
            index, observed = rows.to(signal.device), signal
        else:
            index = torch.zeros(1, dtype=torch.int64, device=signal.device)
            observed = signal.mean().reshape(1)
        self._make_room(int(index.max()) + 1, signal)
        totals, weights = self.totals_[index], self.weights_[index]
        if remember:
            self.totals_[index] = self.decay * totals + observed
            self.weights_[index] = self.decay * weights + 1
        return signal - totals / weights.clamp(min=1)

    def _make_room(self, n_baselines, signal):
        """Grow to `n_baselines` at least, of the type and device of `signal`."""
        for name in ("totals_", "weights_"):
            old = getattr(self, name, signal.new_zeros(0)).to(signal)
            missing = max(0, n_baselines - len(old))
            setattr(self, name, torch.cat([old, signal.new_zeros(missing)]))


class MuProp(Reinforce):
    r"""MuProp: the score times the remainder of a first-order expansion.

    With s the difference of the two values of a unit, the means ``m = E[x]`` and
    ``r(x) = f(x) - f(m) - f'(m) (x - m)``,

    .. math::
        \hat g_i = (r(x) - b) \, \partial_{a_i} \log P(x_i)
        + s F'(a_i) \, \partial_i f(m)

    It is unbiased for every differentiable f. The expansion affects only the variance,
    which is 0 if f is linear and no baseline is set by hand. It needs two evaluations
    and two derivatives, and the function must be defined at mean values too.

    Parameters
    ----------
    baseline : {"batch", "row"}, float or None, default="batch"
        As in `Reinforce`, for the remainder r instead of the loss.
    decay : float, default=0.9
        As in `Reinforce`.

    Attributes
    ----------
    totals_, weights_ : Tensors of shape (n_baselines,)
        As in `Reinforce`.

    References
    ----------
    S. Gu, S. Levine, I. Sutskever and A. Mnih, "MuProp: unbiased backpropagation for
    stochastic neural networks", ICLR 2016.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import MuProp
    >>> logits = torch.zeros(3, 2, requires_grad=True)
    >>> generator = torch.Generator().manual_seed(0)
    >>> losses = MuProp().surrogate(lambda x: x.sum(dim=-1), logits, generator)
    >>> losses.sum().backward()
    >>> logits.grad[0]
    tensor([0.5000, 0.5000])
    """

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        values = units.draw(logits, generator)
        losses = loss(values)
        with torch.enable_grad():
            mean = units.mean(logits.detach()).requires_grad_()
            at_mean = loss(mean)
            (derivative,) = torch.autograd.grad(at_mean.sum(), mean)
        mean, at_mean = mean.detach(), at_mean.detach()
        linear = at_mean + (derivative * (values - mean)).sum(dim=-1)
        remainder = losses.detach() - linear
        signal = self._less_baseline(remainder, rows, logits.requires_grad)
        gradient = signal[..., None] * units.score(values, logits.detach())
        gradient = gradient + derivative * units.slope(logits.detach())
        return attach_gradient(losses, logits, gradient)


@with_parameters()
class ReinforceLOO(GradientEstimator):
    r"""REINFORCE with the other samples as baseline: leave one out.

    .. math::
        \hat g_i = \frac{1}{K - 1} \sum_k \Big(f(x^k) - \frac1K \sum_l f(x^l)\Big)
        \, \partial_{a_i} \log P(x^k_i)

    It is unbiased for every function, even if not differentiable. It needs K
    evaluations, but no state and no tuning, so it is the score-function estimator of
    choice if you can afford more than one evaluation.

    Parameters
    ----------
    n_samples : int, default=2
        Number K of samples, at least 2.

    References
    ----------
    W. Kool, H. van Hoof and M. Welling, "Buy 4 REINFORCE samples, get a baseline for
    free!", ICLR workshop 2019.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import ReinforceLOO
    >>> logits = torch.zeros(3, 2, requires_grad=True)
    >>> gradient = ReinforceLOO(n_samples=4)
    >>> losses = gradient.surrogate(lambda x: 1 + 0 * x.sum(dim=-1), logits)
    >>> losses.sum().backward()
    >>> bool((logits.grad == 0).all())
    True
    """

    n_samples: CountFrom2 = 2

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        values = units.draw(logits, generator, (self.n_samples,))
        first, losses = evaluate_samples(loss, values)
        signal = (losses - losses.mean(dim=0)) / (self.n_samples - 1)
        scores = units.score(values, logits.detach())
        return attach_gradient(first, logits, (signal[..., None] * scores).sum(dim=0))
