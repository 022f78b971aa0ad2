"""The exact gradient of a network of narrow layers."""

import torch

from skhash.gradients._network import NetworkGradient

# A matrix between two layers of 12 units has 2^24 entries.
MAX_UNITS = 12


class ExactNetwork(NetworkGradient):
    r"""Exact gradient of a network, by transfer matrices between the states of layers.

    .. math:: p^1(x) \, T^{12} \cdots T^{L-1,L} f

    with :math:`T_{st}` the probability of state t of a layer given state s of the layer
    below. Value and gradient are exact in every parameter. Layers of n and m units need
    :math:`2^{n + m}` numbers; the :math:`2^{n_1 + \dots + n_L}` paths are not
    enumerated. Random weights are drawn once, and the expectation is over units. It
    raises for layers of more than 12 units.

    Examples
    --------
    >>> import torch
    >>> from skhash.gradients import ExactNetwork
    >>> from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork
    >>> network = StochasticBinaryNetwork([BinaryLinear(2, 1)], RealLinear(1, 1))
    >>> for parameter in network.parameters():
    ...     _ = torch.nn.init.zeros_(parameter)
    >>> _ = torch.nn.init.ones_(network.head.weight)
    >>> ExactNetwork().network_surrogate(
    ...     lambda outputs: outputs[..., 0].exp(), network, torch.zeros(1, 2)
    ... ).detach()
    tensor([1.5431])
    """

    def network_surrogate(
        self, loss, network, X, generator=None, *, n_samples=1, rows=None
    ):
        if n_samples > 1:
            raise ValueError(
                f"ExactNetwork computes the expected loss of one sample, not the bound "
                f"of n_samples={n_samples}; use n_samples=1, or PSA ('psa')."
            )
        *layers, head = network.realize(generator)
        for layer in layers:
            if layer.norm is not None and layer.norm.training:
                raise TypeError(
                    "ExactNetwork cannot normalize by batch statistics, which depend "
                    "on sampled values; call network.eval(), or use no batch norm."
                )
        p = self._probabilities(layers[0], X)
        for layer in layers[1:]:
            p = p @ self._probabilities(layer, _states(p))
        losses = loss(head(_states(p))[:, None].expand(-1, len(X), -1))
        return (p * losses.T).sum(dim=-1)

    def _probabilities(self, layer, x):
        """Return those of all states of a layer, shape (n_rows, 2**n_units)."""
        logits = layer(x)
        if logits.shape[-1] > MAX_UNITS:
            raise ValueError(
                f"A layer has {logits.shape[-1]} units, but ExactNetwork is limited to "
                f"{MAX_UNITS} units per layer; use PSA ('psa')."
            )
        cdf = layer.units.noise.cdf
        p = logits.new_ones(len(x), 1)
        for a in logits.split(1, dim=-1):
            p = torch.stack([p * cdf(-a), p * cdf(a)], dim=-1).flatten(1)
        return p


def _states(p):
    """Return the states whose probabilities these are, shape (2**n_units, n_units)."""
    n_units = p.shape[-1].bit_length() - 1
    index = torch.arange(p.shape[-1], device=p.device)
    powers = torch.arange(n_units - 1, -1, -1, device=p.device)
    return (2 * ((index[:, None] >> powers) & 1) - 1).to(p.dtype)
