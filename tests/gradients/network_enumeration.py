"""Expectations over all paths of a small network, each weighted.

A row is repeated once for each path, and `torch.rand` gives layer after layer uniform
numbers that force the path's values: 0 turns a unit on and nearly 1 turns it off.
"""

import torch
from gradients.enumeration import all_states, uniform_draws

from skhash.gradients import resolve_network_gradient
from skhash.modules import BinaryLinear, RealLinear, StochasticBinaryNetwork

X = torch.tensor([[0.8, -0.3, 1.1]], dtype=torch.float64)


def generic_loss(outputs):
    """A loss that is no sum over units."""
    first, second = outputs.unbind(dim=-1)
    return torch.sin(2 * first) + torch.exp(0.4 * second) + first * second


def linear_loss(outputs):
    return outputs @ outputs.new_tensor([1.0, -0.6])


def make_network(widths, noise="logistic", seed=0, factor=1.5, **layer):
    """Layers of these widths on three features, and two outputs."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [X.shape[1], *widths]
    layers = [
        BinaryLinear(n, m, noise=noise, generator=generator, **layer)
        for n, m in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    head = RealLinear(sizes[-1], 2, generator=generator)
    network = StochasticBinaryNetwork(layers, head).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(factor)
    return network


def all_paths(network):
    """Return which units are on in each path, a list of (n_paths, n_units), bool."""
    widths = [layer.n_outputs for layer in network.layers]
    return all_states(sum(widths)).split(widths, dim=1)


def forcing_draws(paths):
    """Return uniform numbers that lead along these paths."""
    return [torch.where(on, 0.0, 1 - 2.0**-53).double() for on in paths]


def path_probabilities(network, paths, x=X):
    """Return the probability of each path, and the outputs there, with their graph."""
    *layers, head = network.realize()
    values, p = x.expand(len(paths[0]), -1), 1.0
    for layer, on in zip(layers, paths, strict=True):
        cdf = layer.units.noise.cdf(layer(values))
        p = p * torch.where(on, cdf, 1 - cdf).prod(dim=1)
        values = layer.units.values(on.double())
    return p, head(values)


def exact(network, loss=generic_loss):
    """Return the expected loss and its gradients in all parameters."""
    p, outputs = path_probabilities(network, all_paths(network))
    value = p @ loss(outputs)
    return value.detach(), torch.autograd.grad(value, list(network.parameters()))


def expected(gradient, network, loss=generic_loss):
    """Return the mean value and the mean gradients of an estimator."""
    paths = all_paths(network)
    p = path_probabilities(network, paths)[0].detach()
    with uniform_draws(forcing_draws(paths)):
        losses = resolve_network_gradient(gradient).network_surrogate(
            loss, network, X.expand(len(p), -1)
        )
    value = p @ losses
    return value.detach(), torch.autograd.grad(value, list(network.parameters()))


def by_path(gradient, network, loss=generic_loss):
    """Return values, gradients and probabilities of each path.

    The gradients are those of the parameters in one row, shape (n_paths, n_numbers).
    """
    paths = all_paths(network)
    p = path_probabilities(network, paths)[0].detach()
    with uniform_draws(forcing_draws(paths)):
        losses = resolve_network_gradient(gradient).network_surrogate(
            loss, network, X.expand(len(p), -1)
        )
    parameters = list(network.parameters())
    rows = [torch.autograd.grad(one, parameters, retain_graph=True) for one in losses]
    gradients = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
    return losses.detach(), gradients, p
