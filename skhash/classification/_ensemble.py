"""Networks with all draws made, for the predictions of a fitted classifier."""

import math

import numpy as np
import torch

from skhash.training._module import FedRows, Rows
from skhash.utils.chunks import row_chunks
from skhash.utils.torch import widest_float


class Ensemble:
    """Networks with their noise and weights drawn once, which predict together.

    All rows meet the same noise. Each row's outputs have the law of a separate draw,
    and depend on no other row: sums are in float64, where that is to be had, so that
    what they round to does not depend on the order of the rows.

    Parameters
    ----------
    network : StochasticBinaryNetwork
        In evaluation mode. It is not to be used afterwards.
    mean, scale
        Rows are fed as ``(x - mean) / scale``.
    n_members : int
    generator : torch.Generator or None
        On the device of the network; draws the members. None uses the likeliest
        weights, and no noise: all members are equal.
    """

    axes, accepts_sparse = None, False

    @torch.no_grad()
    def __init__(self, network, mean, scale, n_members=1, generator=None):
        self.mean, self.scale = mean, scale
        self.network, self.device = network, network.head.weight.device
        self.dtype = widest_float(self.device)
        for layer in [*network.layers, network.head]:
            if layer.weights.is_real:  # once, for all members
                layer.weight.data = layer.weight.data.to(self.dtype)
        noise = [self._noise(layer, n_members, generator) for layer in network.layers]
        self.members = [
            (self._maps(generator), of_layers) for of_layers in zip(*noise, strict=True)
        ]

    def _noise(self, layer, n_members, generator):
        """Return the noise of a layer's logits in each member.

        The draws of a unit are spread, see `skhash.noise.Noise.sample_spread`.
        """
        if generator is None:
            return layer.weight.new_zeros(n_members, 1)
        shape = n_members, (layer.n_outputs,)
        return layer.units.noise.sample_spread(*shape, generator, dtype=self.dtype)

    def _maps(self, generator):
        """Return the maps of a member, that of the head last."""
        maps = self.network.realize(generator, deterministic=generator is None)
        for layer in maps:
            layer.weight = layer.weight.to(self.dtype)
            if layer.norm is not None:  # does not depend on its input in evaluation
                layer.scale, layer.shift = layer.norm(None)
        return maps

    def log_probabilities(self, X) -> np.ndarray:
        """Return the logarithms of mean probabilities, float32.

        Parameters
        ----------
        X : {ndarray, CSR array} of shape (n_rows, n_features)
        """
        return self._map(self._log_mean, X, self.network.head.n_outputs, np.float32)

    def bits(self, X) -> np.ndarray:
        """Return the bits of the last layer of the first member, uint8."""
        width = self.network.head.n_inputs
        return self._map(lambda x: next(self.units(x))[1] > 0, X, width, np.uint8)

    def units(self, x):
        """Yield the head of each member, and the -1 and +1 of its last layer."""
        x, logits = x.to(self.dtype), None
        is_common = self.network.layers[0].weights.is_real
        for (first, *others, head), (threshold, *thresholds) in self.members:
            if logits is None or not is_common:
                logits = first(x)
            values = first.units.values((logits > threshold).to(self.dtype))
            for layer, noise in zip(others, thresholds, strict=True):
                values = layer.units.values((layer(values) > noise).to(self.dtype))
            yield head, values

    def _log_mean(self, x):
        scores = [head(units).log_softmax(dim=1) for head, units in self.units(x)]
        return torch.stack(scores).logsumexp(dim=0) - math.log(len(scores))

    @torch.no_grad()
    @np.errstate(over="ignore")  # of values, which are checked
    def _map(self, function, X, width, dtype):
        """Apply a function to standardized rows, one chunk at a time."""
        data, results = FedRows(Rows(X), self), np.empty((X.shape[0], width), dtype)
        layers = [*self.network.layers, self.network.head]
        widest = max(layer.n_inputs for layer in layers)
        for rows in row_chunks(X.shape[0], 20 * widest):
            values = data.values(rows)
            if not values.isfinite().all():
                largest = max(X.max(), -X.min())
                raise ValueError(
                    f"The largest magnitude in X is {largest:.3g}, which float32 "
                    "cannot hold. Check X for wrong values."
                )
            results[rows] = function(values.to(self.device)).cpu().numpy()
        return results
