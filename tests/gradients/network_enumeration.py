"""Expectations over all paths of a small network, each weighted.

A row is repeated once for each path, and `torch.rand` gives layer after layer uniform
numbers that force the path's values: 0 turns a unit on and nearly 1 turns it off.
"""

from copy import deepcopy

import torch
from gradients.enumeration import all_states, uniform_draws

from skhash.gradients import resolve_network_gradient
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork

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


def all_paths(network, n_samples=1):
    """Return which units are on in each path of samples.

    Each layer has a tensor of shape (n_samples, n_paths, n_units), bool.
    """
    widths = [layer.n_outputs for layer in network.layers]
    states = all_states(n_samples * sum(widths))
    return states.unflatten(1, (n_samples, -1)).movedim(1, 0).split(widths, dim=-1)


def forcing_draws(paths):
    """Return uniform numbers that lead along these paths."""
    return [torch.where(on, 0.0, 1 - 2.0**-53).double() for on in paths]


def path_losses(network, paths, loss, x=X):
    """Return the probability and the loss of each path, with their graph."""
    *layers, head = network.realize()
    n_samples, n_paths, _ = paths[0].shape
    values, p = x.expand(n_samples, n_paths, -1), 1.0
    for layer, on in zip(layers, paths, strict=True):
        cdf = layer.units.noise.cdf(layer(values))
        p = p * torch.where(on, cdf, 1 - cdf).prod(dim=-1).prod(dim=0)
        values = layer.units.values(on.double())
    likelihoods = torch.exp(-loss(head(values)))
    return p, -likelihoods.mean(dim=0).log()


def exact(network, loss=generic_loss, n_samples=1):
    """Return the expected loss and its gradients in all parameters."""
    p, losses = path_losses(network, all_paths(network, n_samples), loss)
    value = p @ losses
    return value.detach(), torch.autograd.grad(value, list(network.parameters()))


def along_paths(gradient, network, loss=generic_loss, n_samples=1):
    """Return the losses that an estimator gives each path, and its probability.

    They are of the network's dtype; the probabilities are found in float64.
    """
    paths = all_paths(network, n_samples)
    p = path_losses(deepcopy(network).double(), paths, loss)[0].detach()
    rows = X.to(network.head.weight).expand(len(p), -1)
    with uniform_draws(forcing_draws(paths)):
        losses = resolve_network_gradient(gradient).network_surrogate(
            loss, network, rows, n_samples=n_samples
        )
    return losses, p.to(losses)


def expected(gradient, network, loss=generic_loss, n_samples=1):
    """Return the mean value and the mean gradients of an estimator."""
    losses, p = along_paths(gradient, network, loss, n_samples)
    value = p @ losses
    return value.detach(), torch.autograd.grad(value, list(network.parameters()))


def by_path(gradient, network, loss=generic_loss):
    """Return values, gradients and probabilities of each path.

    The gradients are those of all parameters in one row, shape (n_paths, n_numbers).
    """
    losses, p = along_paths(gradient, network, loss)
    parameters = list(network.parameters())
    rows = [torch.autograd.grad(one, parameters, retain_graph=True) for one in losses]
    gradients = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
    return losses.detach(), gradients, p
