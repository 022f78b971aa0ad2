"""Path sample-analytic gradients of networks of binary units."""

import torch
from torch.autograd import Function

from skhash.gradients._base import attach_slope
from skhash.gradients._network import NetworkGradient, multi_sample_bound
from skhash.gradients._psa_backends import choose_backend
from skhash.utils.parameters import NotNegative, ProperShare, with_parameters

# How many outputs of flipped states the head makes at a time.
FLIPS_AT_ONCE = 2**22


@with_parameters()
class PSA(NetworkGradient):
    r"""Path sample-analytic gradient (PSA): flips of each unit, averaged analytically.

    Along one drawn path with states x in {-1, +1}, the gradient of the loss f in the
    parameters of layer l is a product of differences,

    .. math::
        \hat g^l = D^l \Delta^{l+1} \cdots \Delta^L \, df, \quad
        D^l_j = x_j F'(a_j) \nabla a_j, \quad
        df_i = f(x) - f(x_{\downarrow i}),

        \Delta^k_{ij} = x_j \big(F(a_j) - F(a_j - 2 W_{ji} x_i)\big),

    where :math:`x_{\downarrow i}` has unit i of the last layer flipped.
    Straight-through is its first-order expansion: F and f linearised.

    The estimate is unbiased for the head and for the last layer of units, for any
    widths. With exact differences it is also unbiased for the parameters of layer l if
    every layer above l has a single unit, or if the loss is a sum of functions of
    single units of layer l + 1 and that is the last layer. Otherwise there is a bias,
    because the effects of a flip on the units of a layer are taken one by one. With
    real weights and logistic noise, F is interpolated, which adds a bias to all layers
    below the last, mostly 1e-6 to 1e-4 of the gradient; see `tolerance`.

    The loss does not have to be differentiable in the units. It is evaluated once for
    each unit of the last layer, at outputs of the head that take O(1) each.

    With `enhanced`, losses and the gradient of the head are also averaged over the
    flips:

    .. math:: E = f + \sum_i (f - f_i) (q_i - \gamma \pi_i),

    with :math:`\pi_i` the probability that unit i had the other value, and :math:`q_i`
    a term whose value is 0 and whose derivative is the factor that multiplies
    :math:`df_i` in the estimate above. The mean of the estimate is the same for every
    gamma.

    Parameters
    ----------
    enhanced : bool, default=False
        Whether to average the head over flips of the last layer. The losses of all
        flips then keep their graph, of n_rows * n_units * n_outputs numbers.
    gamma : float or None, default=None
        Weight of each unit's average. None is 1 / n for n units in all samples, which
        is the mean of n averages over one unit each. Its variance is never above that
        without averaging, but it may not be the best choice.
    tolerance : float, default=1e-3
        Error allowed in F where it is interpolated. The gradient in input i of a layer
        is then off by at most this times the absolute sum over its units of the
        gradient from above. Where that sum cancels, the relative error is larger: in
        600 random networks of one or three units per layer, at most 5e-3, with a median
        below 1e-4. At 1e-12 the error is about that of rounding.

    Notes
    -----
    How flips are backpropagated through a layer depends on the layer. None of these
    ways needs an array of n_rows * n_units * n_inputs numbers.

    * Weights of -1 and +1, with a scale for each unit or none: one matrix product,
      exact.
    * Real weights and logistic noise: F is interpolated by a polynomial in the shift,
      whose error is at most `tolerance`, with one matrix product for each degree. Where
      that needs a degree above 64, F of every flip is computed, some units at a time:
      exact but for rounding.
    * Real weights and other noise: F of every flip, some units at a time.

    Flips do not change the statistics of a batch norm: its scale is treated as part of
    the weight. Proposition 3 of the paper allows a wide last layer, and one unit in
    each of layers 1 to L - 1. In fact it holds for one unit in each of layers 2 to L,
    and any number in the first. The paper's equation for :math:`\pi_i` has a wrong
    sign.

    References
    ----------
    A. Shekhovtsov, V. Yanush and B. Flach, "Path sample-analytic gradient estimators
    for stochastic binary networks", NeurIPS 2020, algorithm 1 and lemma B.2.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import PSA
    >>> from skhash.networks import StochasticBinaryNetwork, BinaryLinear, RealLinear
    >>> generator = torch.Generator().manual_seed(0)
    >>> network = StochasticBinaryNetwork(
    ...     [BinaryLinear(4, 3, generator=generator)],
    ...     RealLinear(3, 1, generator=generator),
    ... )
    >>> X = torch.randn(5, 4, generator=generator)
    >>> losses = PSA().network_surrogate(
    ...     lambda outputs: outputs[..., 0] ** 2, network, X, generator
    ... )
    >>> losses.mean().backward()
    >>> network.layers[0].weight.grad.shape
    torch.Size([3, 4])
    """

    enhanced: bool = False
    gamma: NotNegative | None = None
    tolerance: ProperShare = 0.001

    def network_surrogate(
        self, loss, network, X, generator=None, *, n_samples=1, rows=None
    ):
        self._validate_params()
        first, *layers, head = network.realize(generator)
        logits = first(X).expand(n_samples, -1, -1)
        p = first.units.noise.cdf(logits)
        x = first.units.draw_with(p, generator)
        q = zeros_with_slope(p, x)
        for layer in layers:
            logits = layer(x)
            p = layer.units.noise.cdf(logits)
            drawn = layer.units.draw_with(p, generator)
            q = zeros_with_slope(p, drawn) + self._flips(layer, q, x, drawn, logits)
            x = drawn
        if not self.enhanced:
            return flip_losses(loss, head, x, q)
        n_flips = n_samples * x.shape[-1]
        gamma = 1 / n_flips if self.gamma is None else self.gamma
        others = (1 + x) / 2 - x * p.detach()
        return flip_losses(loss, head, x, q, gamma * others)

    def _flips(self, layer, q, x, drawn, logits):
        """Return zeros with the derivative of flips below through a layer."""
        layer.require_linear()
        return _Flips.apply(q, x, drawn, logits.detach(), layer, self._backend(layer))

    def _backend(self, layer):
        return choose_backend(layer, self.tolerance)


class _Flips(Function):
    """The zeros ``Delta^T q``, whose derivative in q is computed without Delta."""

    @staticmethod
    def forward(ctx, q, x, drawn, logits, layer, backend):
        ctx.layer, ctx.backend = layer, backend
        ctx.save_for_backward(x, drawn, logits)
        return torch.zeros_like(logits)

    @staticmethod
    def backward(ctx, gradient):
        x, drawn, logits = ctx.saved_tensors
        rows = [t.flatten(0, -2) for t in (x, logits, gradient * drawn)]
        gradient = ctx.backend(ctx.layer, *rows).reshape(x.shape)
        return gradient, None, None, None, None, None


def zeros_with_slope(variable, slope):
    """Return zeros whose derivative in each entry of `variable` is a slope."""
    return attach_slope(torch.zeros_like(slope), variable, slope)


def flip_losses(loss, head, x, q, others=None):
    """Return losses whose gradient has every unit of the last layer both ways.

    Parameters
    ----------
    loss : callable
        As in `NetworkGradient.network_surrogate`.
    head : LinearMap
    x : Tensor of shape (n_samples, n_rows, n_units)
        The drawn values.
    q : Tensor of the same shape
        0, with the derivative of the probability of each value.
    others : Tensor of the same shape or None
        The probability of each other value, times gamma: what lemma B.2 subtracts.

    Returns
    -------
    losses : Tensor of shape (n_rows,)
    """
    outputs = head(x)
    sample_losses = loss(outputs)
    losses = multi_sample_bound(sample_losses)
    head.require_linear()
    is_flipped = torch.eye(len(x), dtype=torch.bool, device=x.device)[:, :, None]

    def losses_flipped(values, weights):
        """Return the losses with one unit of one sample flipped.

        `values` has shape (n_flips, n_samples, n_rows), and so have the losses.
        """
        steps = 2 * values[..., None] * weights[:, None, None]
        flipped = loss(outputs - steps)
        return multi_sample_bound(
            torch.where(is_flipped, flipped[:, :, None], sample_losses), dim=2
        )

    at_once = max(1, FLIPS_AT_ONCE // outputs.numel())
    units, weights = x.movedim(-1, 0), head.scaled_weight().T
    with torch.set_grad_enabled(others is not None and torch.is_grad_enabled()):
        flipped = map(losses_flipped, units.split(at_once), weights.split(at_once))
        differences = losses - torch.cat(list(flipped))
    factor = q if others is None else q - others
    return losses + (differences.movedim(0, -1) * factor).sum(dim=(0, -1))
