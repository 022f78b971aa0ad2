"""What a fitted classifier predicts with: networks without random choices left."""

import math

import torch


class Ensemble:
    """Networks with their noise and weights drawn once, which predict together.

    Parameters
    ----------
    network : StochasticBinaryNetwork
        In evaluation mode. It is not to be used afterwards.
    n_members : int
    generator : torch.Generator or None
        On the device of the network; draws the members. None takes the likeliest
        weights, and no noise: all members are equal.

    Attributes
    ----------
    device : torch.device
    widest : int
        The largest number of values that a layer reads.
    """

    @torch.no_grad()
    def __init__(self, network, n_members=1, generator=None):
        layers = [*network.layers, network.head]
        self.device = network.head.weight.device
        self.widest = max(layer.n_inputs for layer in layers)
        dtype = precision(self.device)
        for layer in layers:
            if layer.weights.is_real:  # once, for all members
                layer.weight.data = layer.weight.data.to(dtype)
        self.members = [Member(network, generator) for _ in range(n_members)]

    def log_probabilities(self, X):
        """Return the logarithms of mean probabilities, shape (n_rows, n_classes)."""
        first, *_ = self.members
        # Equal logits are computed once.
        common = first.logits(X) if first.is_fixed else None
        scores = [
            member.outputs(member.logits(X) if common is None else common)
            for member in self.members
        ]
        scores = torch.stack([torch.log_softmax(h, dim=1) for h in scores])
        return scores.logsumexp(dim=0) - math.log(len(scores))

    def bits(self, X):
        """Return the bits of the last layer of the first member."""
        first, *_ = self.members
        return first.units(first.logits(X)) > 0


class Member:
    """A network with its noise and weights drawn once: all rows meet the same.

    Each row's outputs have the law that a draw of its own would have, and depend on no
    other row: sums are in float64, where that is to be had, so that what they round to
    does not depend on the order of the rows.

    Parameters
    ----------
    network : StochasticBinaryNetwork
        In evaluation mode.
    generator : torch.Generator or None
        On the device of the network; None takes the likeliest weights, and no noise.
    """

    def __init__(self, network, generator=None):
        is_certain = generator is None
        maps = network.realize(generator, deterministic=is_certain)
        # Whether other members have the same weights in front.
        self.is_fixed = maps[0].weight is network.layers[0].weight
        self.dtype = precision(maps[0].weight.device)
        for layer in maps:
            layer.weight = layer.weight.to(self.dtype)
        *self.maps, self.head = maps
        sizes = [layer.n_outputs for layer in network.layers]
        if is_certain:
            self.noise = [0.0] * len(sizes)
        else:
            self.noise = [
                layer.units.noise.sample((size,), generator)
                for layer, size in zip(self.maps, sizes, strict=True)
            ]

    def logits(self, X):
        """Return the logits of the first layer."""
        return self.maps[0](X.to(self.dtype))

    def units(self, logits):
        """Return the values of the last layer, -1 and +1."""
        first, *others = self.maps
        values = first.units.values((logits > self.noise[0]).to(self.dtype))
        for layer, noise in zip(others, self.noise[1:], strict=True):
            values = layer.units.values((layer(values) > noise).to(self.dtype))
        return values

    def outputs(self, logits):
        """Return the outputs of the head."""
        return self.head(self.units(logits))


def precision(device):
    """Return the widest floating-point dtype of a device."""
    return torch.float32 if device.type == "mps" else torch.float64
