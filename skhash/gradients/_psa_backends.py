r"""How PSA backpropagates flips through a layer, without all flips in memory at once.

With gradients g of units j, already times the drawn values, each back end returns

.. math:: \sum_j g_j \big(F(a_j) - F(a_j - 2 W_{ji} x_i)\big)

for every input i, as rows. A convolution is the same sum at every position.
"""

import math
from functools import partial

import torch
from torch.nn.functional import pad

from skhash.gradients._network import trailing
from skhash.noise import Logistic

# Numbers in the temporary arrays of `direct`.
CHUNK = 2**22
# Numbers that `chebyshev` makes several passes over, and that caches keep in between.
CACHED = 2**19
# The degree above which `direct` is cheaper than `chebyshev`.
MAX_DEGREE = 64


def direct(layer, x, logits, gradient):
    """Evaluate F at every flip, a few units at a time."""
    here = gradient * layer.units.noise.cdf(logits)
    return _to_inputs(layer, here) - _sum_at_flips(layer, x, logits, gradient)


def chebyshev(layer, x, logits, gradient, degree):
    r"""Interpolate F in the shift, where the noise is logistic.

    With :math:`D_j = \max_i |2 W_{ji}|`, F(a - d) is a polynomial in d on [-D, D], up
    to the error of `chebyshev_degree`. Since x is -1 or +1, its terms in
    :math:`T_r(2 W_{ji} x_i / D_j) = x_i^r T_r(2 W_{ji} / D_j)` are matrix products.
    """
    weight = 2 * layer.scaled_weight().detach()
    largest = weight.flatten(1).abs().amax(dim=1)
    largest = largest.clamp(min=torch.finfo(weight.dtype).tiny)
    weight = weight / trailing(largest, weight.ndim - 1)
    powers = [torch.ones_like(weight), weight]
    for _ in range(1, degree):
        powers.append(2 * weight * powers[-1] - powers[-2])
    at_once = len(x)
    if x.device.type == "cpu":
        at_once = max(1, CACHED // max(x.shape[1], len(powers) * logits.shape[1]))
    parts = zip(*(rows.split(at_once) for rows in (x, logits, gradient)), strict=True)
    return torch.cat([_interpolated(layer, *part, largest, powers) for part in parts])


def _interpolated(layer, x, logits, gradient, largest, powers):
    """Apply `chebyshev` to these rows, given T_r of the weights."""
    a, g = layer.outputs(logits), layer.outputs(gradient)
    nodes = torch.arange(len(powers), dtype=torch.float64)
    angles = (nodes + 0.5) * (math.pi / len(nodes))
    shifts = trailing(largest, a.ndim - 2) * trailing(angles.cos().to(a), a.ndim)
    p = torch.sigmoid_((a - shifts).mul_(2 / layer.units.noise.scale))
    transform = 2 / len(nodes) * torch.cos(nodes[:, None] * angles)
    transform[0] /= 2
    terms = torch.tensordot(transform.to(a), p, dims=1).mul_(g)

    constant = gradient * layer.units.noise.cdf(logits) - terms[0].flatten(1)
    even, odd = torch.zeros_like(x), torch.zeros_like(x)
    for r in range(1, len(powers)):
        sums = odd if r % 2 else even
        sums -= layer.transposed(terms[r], powers[r])
    return _to_inputs(layer, constant) + even + x * odd


def binary(layer, x, logits, gradient):
    """Take both values that F has over all flips, where weights are -1 and +1."""
    cdf = layer.units.noise.cdf
    a, g = layer.outputs(logits), layer.outputs(gradient)
    step = 2.0 if layer.scale is None else trailing(2 * layer.scale, a.ndim - 2)
    high, low = cdf(a + step), cdf(a - step)
    even = g * (cdf(a) - 0.5 * (high + low))
    odd = layer.transposed(0.5 * g * (high - low), layer.weight.detach())
    return _to_inputs(layer, even.flatten(1)) + x * odd


def chebyshev_degree(steepness, tolerance):
    r"""Return the degree at which `chebyshev` errs by at most `tolerance` in F.

    F(a - d) is analytic in the Bernstein ellipses of [-D, D] that keep clear of its
    poles, at imaginary distance :math:`\pi / c`. In one of half height
    :math:`\theta / c`, with sum of half axes :math:`\rho D`, it is at most
    :math:`M = 1 / \sin\theta`, or 1 for :math:`\theta \le \pi / 2`, and interpolation
    of degree R errs by at most :math:`4 M \rho^{-R} / (\rho - 1)` (Trefethen,
    "Approximation theory and approximation practice", theorem 8.2). The best ellipse
    is taken.

    Parameters
    ----------
    steepness : float
        The largest c D, with ``F(a) = sigmoid(c a)``.
    tolerance : float
    """
    degrees = [1]
    if steepness > 0:
        degrees = []
        for k in range(8, 32):
            theta = math.pi * k / 32
            height = theta / steepness
            rho = height + math.sqrt(1 + height**2)
            bound = 1.0 if k <= 16 else 1 / math.sin(theta)
            needed = math.log(4 * bound / ((rho - 1) * tolerance)) / math.log(rho)
            degrees.append(max(1, math.ceil(needed)))
    return min(degrees)


def choose_backend(layer, tolerance):
    """Return the cheapest back end that is right for a layer.

    It is a function of layer, values, logits and gradient.
    """
    if layer.is_binary:
        return binary
    if not isinstance(layer.units.noise, Logistic):
        return direct
    degree = degree_for(layer, tolerance)
    return partial(chebyshev, degree=degree) if degree <= MAX_DEGREE else direct


def degree_for(layer, tolerance):
    """Return the degree that `chebyshev` needs for a layer of logistic noise."""
    largest = float(layer.scaled_weight().detach().abs().max())
    return chebyshev_degree(4 * largest / layer.units.noise.scale, tolerance)


def _to_inputs(layer, h):
    """Add each unit's number to all its inputs; shape (n_rows, n_inputs) or (., 1)."""
    if layer.input_shape is None:
        return h.sum(dim=1, keepdim=True)
    ones = h.new_ones(1, 1, *layer.weight.shape[2:])
    sums = layer.transposed(layer.outputs(h).sum(dim=1, keepdim=True), ones)
    return sums.repeat(1, layer.input_shape[0])


def _sum_at_flips(layer, x, logits, gradient):
    """Sum gradient times F at flips over the units, for every input."""
    cdf, weight = layer.units.noise.cdf, 2 * layer.scaled_weight().detach()
    images, a, g = layer.images(x), layer.outputs(logits), layer.outputs(gradient)
    if layer.input_shape is None:
        images, a, g, weight = (t[:, :, None, None] for t in (images, a, g, weight))
    images = pad(images, [layer.padding] * 4)
    height, width = a.shape[2:]
    chunk = max(1, CHUNK // (images.shape[1] * a[:, 0].numel()))
    sums = torch.zeros_like(images)
    for row in range(weight.shape[2]):
        for column in range(weight.shape[3]):
            window = (
                ...,
                slice(row, row + layer.stride * (height - 1) + 1, layer.stride),
                slice(column, column + layer.stride * (width - 1) + 1, layer.stride),
            )
            values = images[window][:, None]
            shifts = weight[:, :, row, column, None, None]
            units = zip(*(t.split(chunk, dim=1) for t in (a, g)), strict=True)
            for (block, factor), shift in zip(units, shifts.split(chunk), strict=True):
                p = cdf(block[:, :, None] - shift * values)
                sums[window] += p.mul_(factor[:, :, None]).sum(dim=1)
    border = layer.padding
    sums = sums[..., border : sums.shape[2] - border, border : sums.shape[3] - border]
    return sums.flatten(1)
