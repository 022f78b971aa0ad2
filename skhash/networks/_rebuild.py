"""Stochastic binary networks from plain data and arrays."""

import math

import numpy as np
import torch

from skhash.networks._layers import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.noise import NOISES

LAYERS = {layer.__name__: layer for layer in (BinaryConv2d, BinaryLinear)}


def rebuild(
    descriptions, parameters, statistics=(), noise=None
) -> StochasticBinaryNetwork:
    """Return the network with this ``description()`` and these parameters.

    Parameters
    ----------
    descriptions : list of dict
    parameters : list of ndarray
        In the order of the network's ``state_dict``.
    statistics : list of ndarray
        Those of norms, if others than among the parameters.
    noise : Noise or None
        Of layers whose noise is none of the library's.
    """
    n_numbers = sum(map(np.size, parameters))
    for each in descriptions:
        _check_size(n_numbers, **each)
    # First parameters are replaced; they should not move the global generator.
    generator = torch.Generator()
    *layers, head = descriptions
    network = StochasticBinaryNetwork(
        [_rebuild(noise, generator, **each) for each in layers],
        RealLinear(head["n_inputs"], head["n_outputs"], generator=generator),
    )
    state = dict(zip(network.state_dict(), parameters, strict=True))
    if statistics:
        state |= zip(statistics_of(state), statistics, strict=True)
    network.load_state_dict(
        {name: torch.tensor(value) for name, value in state.items()}
    )
    return network.eval()


def statistics_of(state) -> list[str]:
    """Return the names of the statistics of norms among those of a state."""
    return [name for name in state if name.endswith(("running_mean", "running_var"))]


def _check_size(
    n_numbers, n_inputs=1, n_outputs=1, input_shape=(1,), n_channels=1, **sizes
):
    """Raise ``ValueError`` for a layer of more weights than there are numbers."""
    side, padding = sizes.get("kernel_size", 1), sizes.get("padding", 0)
    shape = n_inputs, n_outputs, input_shape[0], n_channels, side, side
    if {*map(type, (*shape, padding))} != {int} or not 0 <= padding <= side:
        raise ValueError(f"A layer has the sizes {shape}, and padding={padding}.")
    if not 1 <= min(shape) <= math.prod(shape) <= n_numbers:
        raise ValueError(f"A layer has the sizes {shape}, and {n_numbers} numbers.")


def _rebuild(own_noise, generator, layer, noise, scale, **arguments):
    if noise in NOISES:
        own_noise = NOISES[noise](scale=scale)
    elif type(own_noise).__name__ != noise:
        raise ValueError(
            f"The noise {noise} of the network is none of skhash.noise, and not part "
            "of what was saved. Set the parameter noise to it."
        )
    return LAYERS[layer](noise=own_noise, generator=generator, **arguments)
