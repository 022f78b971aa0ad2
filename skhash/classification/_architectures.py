"""Networks of a classifier: of convolutions and full layers, or custom ones."""

import math

from skhash.numerics._perceptron import check_layer_sizes
from skhash.utils.lazy import torch
from skhash.utils.torch import seeded_globals


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
        raise ValueError("hidden_layer_sizes is empty; give at least one size.")
    layers, kind = [], options | {"weights": "real"}
    for geometry in convolutions:
        layers.append(networks.BinaryConv2d(input_shape, **geometry, **kind))
        input_shape, kind = layers[-1].output_shape, options
    n_inputs = math.prod(input_shape)
    for n_units in sizes:
        layers.append(networks.BinaryLinear(n_inputs, n_units, **kind))
        n_inputs, kind = n_units, options
    head = networks.RealLinear(n_inputs, n_classes, generator=options["generator"])
    return networks.StochasticBinaryNetwork(layers, head)


def own_network(factory, n_features, n_classes, generator):
    """Return the network that a user's function makes."""
    from skhash.networks import StochasticBinaryNetwork

    with seeded_globals(int(torch.randint(2**31, (), generator=generator))):
        network = factory(n_features, n_classes)
    if not isinstance(network, StochasticBinaryNetwork):
        raise TypeError(
            f"The function architecture= returned a {type(network).__name__}; it must "
            "return a skhash.networks.StochasticBinaryNetwork."
        )
    sizes = network.layers[0].n_inputs, network.head.n_outputs
    if sizes != (n_features, n_classes):
        raise ValueError(
            f"The network of architecture= maps {sizes[0]} inputs to {sizes[1]} "
            f"outputs; it must map {n_features} features to {n_classes} classes."
        )
    return network
