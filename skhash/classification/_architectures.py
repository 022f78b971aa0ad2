"""Which layers a classifier has: the networks of the papers, or one's own."""

import math

from sklearn.base import BaseEstimator

from skhash.algebra._perceptron import check_layer_sizes
from skhash.utils.strategies import resolved
from skhash.utils.torch import seeded_globals


class Architecture(BaseEstimator):
    """Fully connected layers: the base of architectures, with no convolutions.

    Others have convolutions in front.
    """

    _parameter_constraints: dict = {}
    has_convolutions = False

    def convolutions(self) -> list[dict]:
        """Return the arguments of each `skhash.networks.BinaryConv2d`."""
        return []

    def hidden_sizes(self, hidden_layer_sizes) -> list[int]:
        """Return the numbers of units of the fully connected layers."""
        sizes = check_layer_sizes(hidden_layer_sizes, "hidden_layer_sizes")
        if not sizes and not self.has_convolutions:
            raise ValueError("hidden_layer_sizes is empty; give one size or more.")
        return sizes


class AllConv(Architecture):
    """Eight convolutions, three of them with stride 2, and no fully connected layers.

    The network of Shekhovtsov, Yanush and Flach (2020) for images of 32 x 32. Nothing
    is padded: images of 27 x 27 are the least.

    Parameters
    ----------
    channels : array-like of two int, default=(96, 192)
        Of the first three convolutions, and of the other five. The default is the
        paper's, and wants a GPU.

    Examples
    --------
    >>> from skhash import SBNClassifier
    >>> from skhash.classification import AllConv
    >>> model = SBNClassifier(architecture=AllConv((8, 16)), input_shape=(3, 32, 32))
    """

    _parameter_constraints: dict = {"channels": ["array-like"]}
    has_convolutions = True

    def __init__(self, channels=(96, 192)):
        self.channels = channels

    def convolutions(self):
        channels = check_layer_sizes(self.channels, "channels")
        if len(channels) != 2:
            raise ValueError(f"channels={channels}; AllConv takes two numbers.")
        few, many = channels
        widths = [few] * 3 + [many] * 5
        kernels, strides = [3] * 7 + [1], [1, 1, 2, 1, 1, 2, 1, 1]
        return [
            {"n_channels": width, "kernel_size": kernel, "stride": stride}
            for width, kernel, stride in zip(widths, kernels, strides, strict=True)
        ]

    def hidden_sizes(self, hidden_layer_sizes):
        return []


class VGG(Architecture):
    """Pairs of convolutions with pooling, then fully connected layers.

    The network of Shekhovtsov and Yanush (2021) for images of 32 x 32 has two fully
    connected layers of 1024 units. Each pair halves height and width.

    Parameters
    ----------
    channels : array-like of int, default=(128, 256, 512)
        Of each pair. The default is the paper's, and wants a GPU.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import SBNClassifier
    >>> from skhash.classification import VGG
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SBNClassifier(
    ...     (16,), architecture=VGG((4, 8)), input_shape=(1, 8, 8), max_epochs=1
    ... )
    >>> model.fit(X, y).transform(X).shape
    (1797, 16)
    """

    _parameter_constraints: dict = {"channels": ["array-like"]}
    has_convolutions = True

    def __init__(self, channels=(128, 256, 512)):
        self.channels = channels

    def convolutions(self):
        return [
            {"n_channels": width, "kernel_size": 3, "padding": 1, "pool": pool}
            for width in check_layer_sizes(self.channels, "channels")
            for pool in (None, 2)
        ]


ARCHITECTURES = {"allconv": AllConv, "mlp": Architecture, "vgg": VGG}


def resolve_architecture(architecture) -> Architecture:
    """Return the architecture of a name, or a clone of the architecture itself."""
    return resolved(architecture, ARCHITECTURES, Architecture, "architecture")


def layered_network(input_shape, convolutions, hidden, n_classes, **options):
    """Return a network of convolutions, fully connected layers and a head.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width), or (n_features,) without convolutions.
    convolutions : list of dict
        As `Architecture.convolutions` returns them.
    hidden : sequence of int
        Of units of each fully connected layer.
    n_classes : int
    **options
        noise, weights, batch_norm and generator of the layers of units. The first layer
        and the head have real weights.
    """
    from skhash.networks import (
        BinaryConv2d,
        BinaryLinear,
        RealLinear,
        StochasticBinaryNetwork,
    )

    layers, own = [], options | {"weights": "real"}
    for geometry in convolutions:
        layers.append(BinaryConv2d(input_shape, **geometry, **own))
        input_shape, own = layers[-1].output_shape, options
    n_inputs = math.prod(input_shape)
    for n_units in hidden:
        layers.append(BinaryLinear(n_inputs, n_units, **own))
        n_inputs, own = n_units, options
    head = RealLinear(n_inputs, n_classes, generator=options.get("generator"))
    return StochasticBinaryNetwork(layers, head)


def own_network(factory, n_features, n_classes, generator):
    """Return what the user's factory makes."""
    import torch

    from skhash.networks import StochasticBinaryNetwork

    seed = int(torch.randint(2**31, (), generator=generator))
    with seeded_globals(seed):
        network = factory(n_features, n_classes)
    if not isinstance(network, StochasticBinaryNetwork):
        raise TypeError(
            f"The factory of architecture= returned a {type(network).__name__}; it "
            "has to be a skhash.networks.StochasticBinaryNetwork."
        )
    sizes = network.layers[0].n_inputs, network.head.n_outputs
    if sizes != (n_features, n_classes):
        raise ValueError(
            f"The network of architecture= maps {sizes[0]} inputs to {sizes[1]} "
            f"outputs; it has to be {n_features} features to {n_classes} classes."
        )
    return network


def image_shape(input_shape, n_features, reader) -> tuple[int, ...]:
    """Return the shape of the images that rows are, for what reads them so."""
    if input_shape is None:
        raise ValueError(f"{reader} needs input_shape=(channels, height, width).")
    shape = tuple(int(size) for size in input_shape)
    if len(shape) != 3 or math.prod(shape) != n_features:
        raise ValueError(
            f"input_shape={shape} has {math.prod(shape)} values, but rows have "
            f"{n_features} features; give (channels, height, width)."
        )
    return shape
