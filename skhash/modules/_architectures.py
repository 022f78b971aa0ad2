"""Networks of stochastic binary layers by name, and as plain data."""

from itertools import pairwise

import torch

from skhash.modules._latent_weights import LAWS, law_of
from skhash.modules._sbn import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.noise import NOISES

LAYERS = {layer.__name__: layer for layer in (BinaryConv2d, BinaryLinear, RealLinear)}


def perceptron(sizes, *, noise, weights, batch_norm, generator=None):
    """Return a network of fully connected layers.

    Parameters
    ----------
    sizes : sequence of int
        Number of inputs, of units in each layer, and of outputs.
    noise : Noise or its name
    weights : Weights or its name
        Of all layers but the first and the head, whose weights are real.
    batch_norm : bool
    generator : torch.Generator or None
    """
    *hidden, head = pairwise(sizes)
    layers = [
        BinaryLinear(
            *shape,
            noise=noise,
            weights=weights if depth else "real",
            batch_norm=batch_norm,
            generator=generator,
        )
        for depth, shape in enumerate(hidden)
    ]
    return StochasticBinaryNetwork(layers, RealLinear(*head, generator=generator))


def describe(network) -> list[dict]:
    """Return the layers of a network as plain data, without parameters."""
    return [_describe(layer) for layer in [*network.layers, network.head]]


def _describe(layer):
    description = {
        "layer": type(layer).__name__,
        "weights": law_of(layer.weights),
        "batch_norm": layer.norm is not None,
    }
    if layer.units is not None:
        noise = layer.units.noise
        description |= {"noise": _name_of(noise), "scale": float(noise.scale)}
    if layer.geometry:
        n_channels, *_, kernel_size = layer.weight.shape
        sizes = {"n_channels": n_channels, "kernel_size": kernel_size}
        shape = list(layer.geometry["input_shape"])
        return description | layer.geometry | sizes | {"input_shape": shape}
    return description | {"n_inputs": layer.n_inputs, "n_outputs": layer.n_outputs}


def _name_of(noise):
    """Return the name of a noise, or its class where it is none of the library's."""
    names = {cls: name for name, cls in NOISES.items()}
    return names.get(type(noise), type(noise).__name__)


def rebuild(descriptions, parameters, noise=None) -> StochasticBinaryNetwork:
    """Return the network of which these are the descriptions and the parameters.

    Parameters
    ----------
    descriptions : list of dict
        As `describe` makes them.
    parameters : list of ndarray
        In the order of the network's ``state_dict``.
    noise : Noise or None
        Of layers whose noise is none of the library's.
    """
    *layers, head = [_rebuild(noise, **each) for each in descriptions]
    network = StochasticBinaryNetwork(layers, head)
    names = network.state_dict().keys()
    tensors = map(torch.tensor, parameters)
    network.load_state_dict(dict(zip(names, tensors, strict=True)))
    return network.eval()


def _rebuild(own_noise, layer, weights, noise=None, scale=None, **arguments):
    if noise in NOISES:
        arguments["noise"] = NOISES[noise](scale=scale)
    elif noise is not None:
        if type(own_noise).__name__ != noise:
            raise ValueError(
                f"The noise {noise} of the network is none of skhash.noise, and not "
                "part of what was saved. Set the parameter noise to it."
            )
        arguments["noise"] = own_noise
    # First parameters are replaced; they should not move the global generator.
    return LAYERS[layer](
        weights=LAWS[weights](), generator=torch.Generator(), **arguments
    )
