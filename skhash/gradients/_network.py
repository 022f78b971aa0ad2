"""Gradients of whole networks of binary units: the contract, and adapters to it.

A *network* is any object with ``realize(generator)``. It returns a list of `LinearMap`,
one for each layer of units and last the head, with all that is random in the weights
drawn once. An estimator of the network-wise reach runs rows through them:
``network_surrogate(loss, network, X, generator)`` gives one loss a row, whose gradient
in the parameters of all layers is the estimate. `loss` maps outputs of the head, shape
(..., n_rows, n_outputs), to one loss a row, shape (..., n_rows): the first axes are
samples, and labels broadcast over them.

Between maps everything is rows of units, shape (..., n_rows, n_units); images are an
affair of the map. Units are -1 or +1.
"""

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, repeat

import torch
from sklearn.base import BaseEstimator, clone
from torch.nn.functional import conv2d, linear, max_pool2d
from torch.nn.grad import conv2d_input

from skhash.gradients._base import BernoulliUnits


@dataclass(eq=False)
class LinearMap:
    """The map from the values of one layer to the logits of the next, for one step.

    It is fully connected or a convolution, by the shape of the weight. The first call
    fixes the statistics of a batch norm; later ones take them as constants, so that
    several evaluations of one step agree on the function they evaluate.

    Parameters
    ----------
    weight : Tensor of shape (n_outputs, n_inputs) or (n_outputs, channels, k, k)
    bias : Tensor of shape (n_outputs,) or None
    units : BernoulliUnits or None
        Units of these logits; None for the head.
    input_shape : tuple of int or None, default=None
        (channels, height, width) of the input of a convolution.
    stride, padding : int
        Of a convolution.
    pool : int or None, default=None
        Width of a maximum pooling of the outputs of a convolution.
    norm : callable or None, default=None
        A batch norm. It maps outputs, and the variance of each or None, to scale and
        shift of the channels, shape (n_outputs,); ``normalized(outputs)`` returns
        outputs with these applied, and these.
    is_binary : bool, default=False
        Whether every weight is -1 or +1.

    Attributes
    ----------
    scale : Tensor of shape (n_outputs,) or None
        Factor of the norm in the first call; a constant to autograd.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None = None
    units: BernoulliUnits | None = None
    input_shape: tuple | None = None
    stride: int = 1
    padding: int = 0
    pool: int | None = None
    norm: Callable | None = None
    is_binary: bool = False
    scale: torch.Tensor | None = field(default=None, init=False)
    shift: torch.Tensor | None = field(default=None, init=False)

    def __call__(self, x):
        """Return the outputs of values, shape (..., n_rows, n_outputs)."""
        h = self.linear(x.flatten(0, -2), self.weight)
        if self.pool:
            h = max_pool2d(h, self.pool)
        return self._affine(h).reshape(*x.shape[:-1], -1)

    def moments(self, mean, variance):
        """Return means and variances of the outputs of independent values.

        Parameters
        ----------
        mean, variance : Tensors of shape (..., n_rows, n_inputs)
        """
        self.require_linear()
        h = self.linear(mean.flatten(0, -2), self.weight)
        v = self.linear(variance.flatten(0, -2), self.weight.square())
        if self.norm is None:
            h = self._affine(h)
        else:
            scale, shift = self.norm(h, v)
            h = h * trailing(scale, h.ndim - 2) + trailing(shift, h.ndim - 2)
            v = v * trailing(scale.square(), v.ndim - 2)
        rows = mean.shape[:-1]
        return h.reshape(*rows, -1), v.reshape(*rows, -1)

    def linear(self, x, weight):
        """Return the image of rows under a weight, with no bias and no norm."""
        if weight.ndim == 2:
            return linear(x, weight)
        return conv2d(self.images(x), weight, stride=self.stride, padding=self.padding)

    def transposed(self, h, weight):
        """Return rows that the transpose of `linear` makes of outputs as images."""
        if weight.ndim == 2:
            return h @ weight
        shape = (len(h), weight.shape[1], *self.input_shape[1:])
        x = conv2d_input(shape, weight, h, self.stride, self.padding)
        return x.flatten(1)

    def images(self, x):
        """Return rows of inputs in the shape in which the map reads them."""
        return x if self.input_shape is None else x.unflatten(-1, self.input_shape)

    def outputs(self, a):
        """Return rows of outputs in the shape in which `linear` makes them."""
        if self.input_shape is None:
            return a
        k, padding = self.weight.shape[-1], self.padding
        size = [(n + 2 * padding - k) // self.stride + 1 for n in self.input_shape[1:]]
        return a.unflatten(-1, (len(self.weight), *size))

    def require_linear(self):
        """Raise a TypeError if a maximum pooling keeps the map from being linear."""
        if self.pool:
            raise TypeError(
                f"A layer with pool={self.pool} is not linear in the units below, "
                "which PSA, ADF and LocalReparam require; use strides instead of "
                "pooling, or a layer-wise estimator such as StraightThrough ('st')."
            )

    def scaled_weight(self):
        """Return the weight times the scale of the norm in the first call."""
        if self.scale is None:
            return self.weight
        return self.weight * trailing(self.scale, self.weight.ndim - 1)

    def _affine(self, h):
        if self.norm is None:
            return h if self.bias is None else h + trailing(self.bias, h.ndim - 2)
        if self.scale is None:
            h, scale, shift = self.norm.normalized(h)
            self.scale, self.shift = scale.detach(), shift.detach()
            return h
        return h * trailing(self.scale, h.ndim - 2) + trailing(self.shift, h.ndim - 2)


def trailing(values, n_axes):
    """Return a vector with `n_axes` axes of length 1 appended."""
    return values.reshape(-1, *[1] * n_axes)


def multi_sample_bound(losses, dim=0):
    """Return ``-log mean exp(-losses)`` over samples; of one, its loss."""
    return math.log(losses.shape[dim]) - torch.logsumexp(-losses, dim)


class NetworkGradient(BaseEstimator, metaclass=ABCMeta):
    """Base of estimators of the gradient of a whole network of binary units.

    A subclass defines `network_surrogate`.
    """

    _parameter_constraints: dict = {}

    @abstractmethod
    def network_surrogate(
        self, loss, network, X, generator=None, *, n_samples=1, rows=None
    ):
        """Return losses whose gradient is the estimate.

        Parameters
        ----------
        loss : callable
            Function that maps outputs of the network, of shape (..., n_rows,
            n_outputs), to one loss per row, of shape (..., n_rows). The first axes are
            samples.
        network : object with ``realize(generator)``
            Network. The method returns a list of `LinearMap`, the last one for the
            head.
        X : Tensor of shape (n_rows, n_features)
            Inputs of the network, one row per sample.
        generator : torch.Generator or None
            Generator for weights and values, on the device of `X`. None uses torch's
            global generator.
        n_samples : int, default=1
            Number of times M that the units of a row are drawn. The loss of a row is
            ``-log(1/M sum_m exp(-loss_m))``. For losses that are negative log
            likelihoods, this bounds that of the mean likelihood, and more tightly for
            larger M. The samples are treated as one network that is M times as wide.
        rows : Tensor of shape (n_rows,), int64, or None
            Positions of these rows in the data, for estimators that keep a state per
            row.

        Returns
        -------
        losses : Tensor of shape (n_rows,)
            Estimate of the expected loss of each row. Its gradient in the parameters of
            the network is the estimate.
        """


class LayerwiseNetwork(NetworkGradient):
    """Network-wise estimator from a layer-wise one, by ordinary backpropagation.

    Parameters
    ----------
    gradient : LayerwiseGradient
    """

    def __init__(self, gradient):
        self.gradient = gradient

    def network_surrogate(
        self, loss, network, X, generator=None, *, n_samples=1, rows=None
    ):
        first, *layers, head = network.realize(generator)
        logits = first(X).expand(n_samples, -1, -1)
        x = self.gradient.checked_sample(logits, generator, first.units)
        for layer in layers:
            x = self.gradient.checked_sample(layer(x), generator, layer.units)
        return multi_sample_bound(loss(head(x)))


class FunctionwiseNetwork(NetworkGradient):
    """Network-wise estimator from a function-wise one, layer by layer.

    The function of a layer's values is the loss with all layers above drawn. Each layer
    is estimated at the values that the estimator below it drew first, so that one chain
    of values carries the estimates of all layers. Further evaluations of a layer draw
    the layers above again: c evaluations per layer and L layers take about
    ``c L^2 / 2`` evaluations of layers in total. Only MuProp evaluates at mean values,
    which are then propagated as means.

    Parameters
    ----------
    gradient : GradientEstimator
        Each layer has its clone of this estimator, and thus a separate baseline.

    Attributes
    ----------
    gradients_ : list of GradientEstimator
        Estimators of the layers.
    """

    def __init__(self, gradient):
        self.gradient = gradient

    def network_surrogate(
        self, loss, network, X, generator=None, *, n_samples=1, rows=None
    ):
        first, *others, head = network.realize(generator)
        if not hasattr(self, "gradients_"):
            self.gradients_ = [clone(self.gradient) for _ in (first, *others)]

        # A row of values has all samples of the row side by side.
        def apply(layer, x):
            return layer(x.unflatten(-1, (n_samples, -1)))

        def losses_at(x):
            return multi_sample_bound(loss(apply(head, x).movedim(-2, 0)))

        def draw_from(depth, x):
            for layer in others[depth:]:
                logits = apply(layer, x).flatten(-2)
                # Only MuProp backpropagates a second evaluation, that at the means.
                at_means = torch.is_grad_enabled()
                units = layer.units
                x = units.mean(logits) if at_means else units.draw(logits, generator)
            return losses_at(x)

        def chain_from(depth, x):
            if depth == len(others):
                return losses_at(x)
            logits = apply(others[depth], x).flatten(-2)
            return estimate(depth + 1, others[depth].units, logits)

        def estimate(depth, units, logits):
            continuations = chain([chain_from], repeat(draw_from))
            return self.gradients_[depth].surrogate(
                lambda values: next(continuations)(depth, values),
                logits,
                generator,
                units=units,
                rows=rows,
            )

        return estimate(0, first.units, first(X).repeat(1, n_samples))
