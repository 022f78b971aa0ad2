"""Layers of a classifier: fully connected, those of the papers, or custom ones."""

import math

from skhash.numerics._perceptron import check_layer_sizes
from skhash.utils.torch import seeded_globals


def allconv(few, many) -> list[dict]:
    """Return eight convolutions, of `few` and `many` channels, two with stride 2.

    The network of Shekhovtsov, Yanush and Flach (2020) for images of 32 x 32. Nothing
    is padded: images of 27 x 27 are the least.
    """
    kernels, strides = [3] * 7 + [1], [1, 1, 2, 1, 1, 2, 1, 1]
    return [
        {"n_channels": width, "kernel_size": kernel, "stride": stride}
        for width, kernel, stride in zip(
            [few] * 3 + [many] * 5, kernels, strides, strict=True
        )
    ]


def vgg(*channels) -> list[dict]:
    """Return pairs of convolutions with pooling: each halves height and width.

    The network of Shekhovtsov and Yanush (2021) for images of 32 x 32 has two fully
    connected layers of 1024 units behind.
    """
    return [
        {"n_channels": width, "kernel_size": 3, "padding": 1, "pool": pool}
        for width in channels
        for pool in (None, 2)
    ]


# The papers' widths, which want a GPU.
ARCHITECTURES = {"allconv": allconv(96, 192), "mlp": [], "vgg": vgg(128, 256, 512)}


def convolutions_of(architecture) -> list[dict]:
    """Return the arguments of each `skhash.networks.BinaryConv2d`."""
    if isinstance(architecture, list):
        return architecture
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"architecture={architecture!r} is not one of {', '.join(ARCHITECTURES)}, "
            "no list of convolutions and no function that makes a network."
        )
    return ARCHITECTURES[architecture]


def make_network(convolutions, input_shape, hidden_sizes, n_classes, **options):
    """Return a network of convolutions, fully connected layers and a head.

    Parameters
    ----------
    convolutions : list of dict
    input_shape : tuple of int
        (channels, height, width), or (n_features,) without convolutions.
    hidden_sizes : sequence of int
    n_classes : int
    **options
        noise, weights, batch_norm and generator of the layers of units. The first layer
        and the head have real weights.
    """
    from skhash import networks

    sizes = check_layer_sizes(hidden_sizes, "hidden_layer_sizes")
    if not sizes and not convolutions:
        raise ValueError("hidden_layer_sizes is empty; give one size or more.")
    layers, own = [], options | {"weights": "real"}
    for geometry in convolutions:
        layers.append(networks.BinaryConv2d(input_shape, **geometry, **own))
        input_shape, own = layers[-1].output_shape, options
    n_inputs = math.prod(input_shape)
    for n_units in sizes:
        layers.append(networks.BinaryLinear(n_inputs, n_units, **own))
        n_inputs, own = n_units, options
    head = networks.RealLinear(n_inputs, n_classes, generator=options["generator"])
    return networks.StochasticBinaryNetwork(layers, head)


def own_network(factory, n_features, n_classes, generator):
    """Return the network that a user's function makes."""
    import torch

    from skhash.networks import StochasticBinaryNetwork

    with seeded_globals(int(torch.randint(2**31, (), generator=generator))):
        network = factory(n_features, n_classes)
    if not isinstance(network, StochasticBinaryNetwork):
        raise TypeError(
            f"The function architecture= returned a {type(network).__name__}; it has "
            "to be a skhash.networks.StochasticBinaryNetwork."
        )
    sizes = network.layers[0].n_inputs, network.head.n_outputs
    if sizes != (n_features, n_classes):
        raise ValueError(
            f"The network of architecture= maps {sizes[0]} inputs to {sizes[1]} "
            f"outputs; it has to be {n_features} features to {n_classes} classes."
        )
    return network
