"""ARM and DisARM: pairs of antithetic states."""

from abc import abstractmethod

import torch

from skhash.gradients._base import (
    UNITS,
    GradientEstimator,
    attach_gradient,
    evaluate_samples,
    uniform_like,
)
from skhash.utils.parameters import Count, with_parameters


@with_parameters()
class _Antithetic(GradientEstimator):
    """Base of estimators from two states that share their uniform noise.

    A leaf writes `_factor`. Estimates are in the log-odds, and autograd continues to
    the logits of other noise.
    """

    n_samples: Count = 1

    @abstractmethod
    def _factor(self, uniform, first, second, log_odds):
        """Return the factor of the difference of losses in each unit.

        Parameters
        ----------
        uniform : Tensor of shape (n_samples, n_rows, n_bits)
        first, second : Tensors of the same shape, bool
            Which units are on in either state.
        log_odds : Tensor of shape (n_rows, n_bits)
        """

    def surrogate(
        self, loss, logits, generator=None, *, units=UNITS, rows=None, curvature=None
    ):
        self._validate_params()
        log_odds = units.noise.log_odds(logits)
        a = logits.detach()
        uniform = uniform_like(a, generator, (self.n_samples,))
        # Draws are in [0, 1): with >= both states have their probabilities exactly.
        first, second = uniform >= units.noise.cdf(-a), uniform < units.noise.cdf(a)
        states = units.values(torch.cat([first, second]).to(a.dtype))
        value, losses = evaluate_samples(loss, states)
        difference = losses[: self.n_samples] - losses[self.n_samples :]
        factor = self._factor(uniform, first, second, log_odds.detach())
        gradient = (difference[..., None] * factor).mean(dim=0)
        return attach_gradient(value, log_odds, gradient)


class ARM(_Antithetic):
    r"""Augment-REINFORCE-merge (ARM): two states from the same uniform noise.

    In the log-odds l, with v uniform, ``x = [v > sigmoid(-l)]`` and
    ``x' = [v < sigmoid(l)]``,

    .. math:: \hat g_i = (f(x) - f(x')) (v_i - \tfrac12)

    averaged over independent v. It is unbiased for every function, even if not
    differentiable, and needs two evaluations per sample. The gradient of a row is 0 if
    both states are the same. Each state alone has the distribution of the units; the
    value of the surrogate is the loss at the first.

    Parameters
    ----------
    n_samples : int, default=1
        Number of v to average over. The variance is inversely proportional to it.

    Notes
    -----
    Noise other than standard logistic enters through the log odds, by the chain rule,
    with the slope ``F' / (F (1 - F))``; this is exact. With noise of bounded support,
    the slope is large near the end of the support, and so is the variance, since the
    other units still differ between the two states. A unit whose probability is 0 or 1
    at the resolution of the dtype gets no gradient.

    References
    ----------
    M. Yin and M. Zhou, "ARM: augment-REINFORCE-merge gradient for stochastic binary
    networks", ICLR 2019.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import ARM
    >>> logits = torch.zeros(1000, 2, requires_grad=True)
    >>> generator = torch.Generator().manual_seed(0)
    >>> losses = ARM(n_samples=10).surrogate(lambda x: x[..., 0], logits, generator)
    >>> losses.mean().backward()
    >>> bool((logits.grad.sum(dim=0) - torch.tensor([0.5, 0.0])).abs().max() < 0.05)
    True
    """

    def _factor(self, uniform, first, second, log_odds):
        return uniform - 0.5


class DisARM(_Antithetic):
    r"""DisARM (U2G): the mean of ARM given its two states.

    With x, x' and l as in `ARM`, and s the difference of the two values of a unit,

    .. math::
        \hat g_i = \tfrac12 (f(x) - f(x')) \, \frac{x_i - x'_i}{s} \, \sigma(|l_i|)

    averaged over independent pairs. It is unbiased for every function, even if not
    differentiable, and costs as much as `ARM`. Since the uniform noise is averaged out,
    the variance is never above that of `ARM`, and a unit with the same value in both
    states gets no gradient.

    Parameters
    ----------
    n_samples : int, default=1
        Number of pairs to average over. The variance is inversely proportional to it.

    References
    ----------
    Z. Dong, A. Mnih and G. Tucker, "DisARM: an antithetic gradient estimator for binary
    latent variables", NeurIPS 2020.

    M. Yin, N. Ho, B. Yan, X. Qian and M. Zhou, "Probabilistic best subset selection by
    gradient-based optimization", 2020 (U2G).

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import DisARM
    >>> logits = torch.zeros(1000, 2, requires_grad=True)
    >>> generator = torch.Generator().manual_seed(0)
    >>> losses = DisARM(n_samples=10).surrogate(lambda x: x[..., 0], logits, generator)
    >>> losses.mean().backward()
    >>> bool((logits.grad.sum(dim=0) - torch.tensor([0.5, 0.0])).abs().max() < 0.05)
    True
    """

    def _factor(self, uniform, first, second, log_odds):
        apart = first.to(log_odds.dtype) - second.to(log_odds.dtype)
        return 0.5 * apart * torch.sigmoid(log_odds.abs())
