"""Networks of stochastic binary layers by name, and as plain data."""

import torch

from skhash.networks._latent_weights import LAWS, law_of
from skhash.networks._layers import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.noise import NOISES

LAYERS = {layer.__name__: layer for layer in (BinaryConv2d, BinaryLinear, RealLinear)}


def perceptron(sizes, **options):
    """Return a network of fully connected layers.

    Parameters
    ----------
    sizes : sequence of int
        Number of inputs, of units in each layer, and of outputs.
    **options
        noise, weights, batch_norm and generator of the layers of units. The first layer
        and the head have real weights.
    """
    n_inputs, *hidden, n_outputs = sizes
    return _with_head([], n_inputs, hidden, n_outputs, options)


def all_convolutional(input_shape, channels, n_classes, **options):
    """Return eight convolutions, three of them with stride 2, and a head.

    The network of Shekhovtsov, Yanush and Flach (2020) for images of 32 x 32, which has
    96 and 192 channels. Nothing is padded: images of 27 x 27 are the least.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width).
    channels : sequence of int
        Of the first three convolutions, and of the other five.
    n_classes : int
    **options
        Those of `perceptron`.
    """
    few, many = channels
    widths = [few] * 3 + [many] * 5
    kernels, strides = [3] * 7 + [1], [1, 1, 2, 1, 1, 2, 1, 1]
    geometries = [
        {"n_channels": width, "kernel_size": kernel, "stride": stride}
        for width, kernel, stride in zip(widths, kernels, strides, strict=True)
    ]
    return _convolutional(input_shape, geometries, (), n_classes, **options)


def vgg(input_shape, channels, hidden, n_classes, **options):
    """Return pairs of convolutions with pooling, fully connected layers, and a head.

    The network of Shekhovtsov and Yanush (2021) for images of 32 x 32 has 128, 256 and
    512 channels and two layers of 1024 units.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width); each pair halves height and width.
    channels : sequence of int
        Of each pair.
    hidden : sequence of int
        Of units of each fully connected layer.
    n_classes : int
    **options
        Those of `perceptron`.
    """
    geometries = [
        {"n_channels": width, "kernel_size": 3, "padding": 1, "pool": pool}
        for width in channels
        for pool in (None, 2)
    ]
    return _convolutional(input_shape, geometries, hidden, n_classes, **options)


def _convolutional(input_shape, geometries, hidden, n_classes, **options):
    layers = []
    for geometry in geometries:
        layers.append(BinaryConv2d(input_shape, **geometry, **_own(layers, options)))
        input_shape = layers[-1].output_shape
    return _with_head(layers, layers[-1].n_outputs, hidden, n_classes, options)


def _with_head(layers, n_inputs, hidden, n_outputs, options):
    """Return a network of layers, fully connected ones above them, and a head."""
    for n_units in hidden:
        layers.append(BinaryLinear(n_inputs, n_units, **_own(layers, options)))
        n_inputs = n_units
    head = RealLinear(n_inputs, n_outputs, generator=options.get("generator"))
    return StochasticBinaryNetwork(layers, head)


def _own(layers, options):
    """Return the options of the layer above these: the first has real weights."""
    return options if layers else options | {"weights": "real"}


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
