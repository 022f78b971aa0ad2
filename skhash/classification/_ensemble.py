"""Networks without random choices left, which a fitted classifier predicts with."""

import math

import numpy as np
import torch

from skhash.training._batches import FedRows, Rows
from skhash.utils.chunks import row_chunks
from skhash.utils.torch import widest_float


class Ensemble:
    """Networks with their noise and weights drawn once, which predict together.

    Parameters
    ----------
    network : StochasticBinaryNetwork
        In evaluation mode. It is not to be used afterwards.
    mean, scale
        Rows are fed as ``(x - mean) / scale``.
    n_members : int
    generator : torch.Generator or None
        On the device of the network; draws the members. None takes the likeliest
        weights, and no noise: all members are equal.
    """

    axes, accepts_sparse = None, False

    @torch.no_grad()
    def __init__(self, network, mean, scale, n_members=1, generator=None):
        self.mean, self.scale = mean, scale
        self.network, self.device = network, network.head.weight.device
        for layer in [*network.layers, network.head]:
            if layer.weights.is_real:  # once, for all members
                layer.weight.data = layer.weight.data.to(widest_float(self.device))
        spread = [spread_noise(layer, n_members, generator) for layer in network.layers]
        self.members = [
            Member(network, noise, generator) for noise in zip(*spread, strict=True)
        ]

    def log_probabilities(self, X) -> np.ndarray:
        """Return the logarithms of mean probabilities, float32.

        Parameters
        ----------
        X : {ndarray, CSR array} of shape (n_rows, n_features)
        """
        return self._map(self._log_mean, X, self.network.head.n_outputs, np.float32)

    def bits(self, X) -> np.ndarray:
        """Return the bits of the last layer of the first member, uint8."""
        first, *_ = self.members
        width = self.network.head.n_inputs
        return self._map(lambda x: first.units(first.logits(x)) > 0, X, width, np.uint8)

    def _log_mean(self, x):
        first, *_ = self.members
        # Equal logits are computed once.
        common = first.logits(x) if first.is_fixed else None
        scores = [
            member.outputs(member.logits(x) if common is None else common)
            for member in self.members
        ]
        scores = torch.stack([torch.log_softmax(h, dim=1) for h in scores])
        return scores.logsumexp(dim=0) - math.log(len(scores))

    @torch.no_grad()
    def _map(self, function, X, width, dtype):
        """Return what a function makes of standardised rows, one chunk at a time."""
        data, results = FedRows(Rows(X), self), np.empty((X.shape[0], width), dtype)
        widest = max(
            layer.n_inputs for layer in [*self.network.layers, self.network.head]
        )
        for rows in row_chunks(X.shape[0], 20 * widest):
            values = data.values(rows)
            if not values.isfinite().all():
                largest = max(X.max(), -X.min())
                raise ValueError(
                    f"The largest magnitude in X is {largest:.3g}, which float32 "
                    "cannot hold. Look for wrong values in X."
                )
            results[rows] = function(values.to(self.device)).cpu().numpy()
        return results


def spread_noise(layer, n_members, generator):
    """Return what the logits of a layer meet in each member; zeros without generator.

    The draws of a unit are spread, so that the mean of the members varies less.
    """
    if generator is None:
        return layer.weight.new_zeros(n_members, 1)
    dtype = widest_float(generator.device)
    noise, shape = layer.units.noise, (layer.n_outputs,)
    return noise.sample_spread(n_members, shape, generator, dtype=dtype)


class Member:
    """A network with its noise and weights drawn once: all rows meet the same.

    Each row's outputs have the law that a draw of its own would have, and depend on no
    other row: sums are in float64, where that is to be had, so that what they round to
    does not depend on the order of the rows.

    Parameters
    ----------
    network : StochasticBinaryNetwork
        In evaluation mode.
    noise : sequence of Tensor
        What the logits of each layer are compared with.
    generator : torch.Generator or None
        On the device of the network; draws weights. None takes the likeliest.
    """

    def __init__(self, network, noise, generator=None):
        is_certain = generator is None
        *self.maps, self.head = network.realize(generator, deterministic=is_certain)
        # Whether other members have the same weights in front.
        self.is_fixed = self.maps[0].weight is network.layers[0].weight
        self.dtype = widest_float(self.head.weight.device)
        for layer in [*self.maps, self.head]:
            layer.weight = layer.weight.to(self.dtype)
        self.noise = noise

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
