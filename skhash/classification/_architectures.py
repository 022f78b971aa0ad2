"""Layers of a classifier: fully connected, the networks of the papers, or your own."""

import math

from sklearn.base import BaseEstimator

from skhash.numerics._perceptron import check_layer_sizes
from skhash.utils.strategies import resolved
from skhash.utils.torch import seeded_globals


class Architecture(BaseEstimator):
    """Fully connected layers: the base of architectures, with no convolutions.

    Others have convolutions in front.
    """

    _parameter_constraints: dict = {}

    def convolutions(self) -> list[dict]:
        """Return the arguments of each `skhash.networks.BinaryConv2d`."""
        return []

    def hidden_sizes(self, sizes) -> list[int]:
        """Return how many units the fully connected layers have, of those asked for."""
        sizes = check_layer_sizes(sizes, "hidden_layer_sizes")
        if not sizes and not self.convolutions():
            raise ValueError("hidden_layer_sizes is empty; give one size or more.")
        return sizes

    def network(self, input_shape, hidden_layer_sizes, n_classes, **options):
        """Return a network of convolutions, fully connected layers and a head.

        Parameters
        ----------
        input_shape : tuple of int
            (channels, height, width), or (n_features,) without convolutions.
        hidden_layer_sizes : sequence of int
        n_classes : int
        **options
            noise, weights, batch_norm and generator of the layers of units. The first
            layer and the head have real weights.
        """
        from skhash import networks

        layers, own = [], options | {"weights": "real"}
        for geometry in self.convolutions():
            layers.append(networks.BinaryConv2d(input_shape, **geometry, **own))
            input_shape, own = layers[-1].output_shape, options
        n_inputs = math.prod(input_shape)
        for n_units in self.hidden_sizes(hidden_layer_sizes):
            layers.append(networks.BinaryLinear(n_inputs, n_units, **own))
            n_inputs, own = n_units, options
        head = networks.RealLinear(n_inputs, n_classes, generator=options["generator"])
        return networks.StochasticBinaryNetwork(layers, head)


class AllConv(Architecture):
    """Eight convolutions, three of them with stride 2, and no fully connected layers.

    The network of Shekhovtsov, Yanush and Flach (2020) for images of 32 x 32. Nothing
    is padded: images of 27 x 27 are the least.

    Parameters
    ----------
    channels : array-like of two int, default=(96, 192)
        Of the first three convolutions, and of the other five. The default is the
        paper's, and wants a GPU.

    """

    _parameter_constraints: dict = {"channels": ["array-like"]}

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

    def hidden_sizes(self, sizes):
        return []


class VGG(Architecture):
    """Pairs of convolutions with pooling, then fully connected layers.

    The network of Shekhovtsov and Yanush (2021) for images of 32 x 32 has two fully
    connected layers of 1024 units. Each pair halves height and width.

    Parameters
    ----------
    channels : array-like of int, default=(128, 256, 512)
        Of each pair. The default is the paper's, and wants a GPU.
    """

    _parameter_constraints: dict = {"channels": ["array-like"]}

    def __init__(self, channels=(128, 256, 512)):
        self.channels = channels

    def convolutions(self):
        return [
            {"n_channels": width, "kernel_size": 3, "padding": 1, "pool": pool}
            for width in check_layer_sizes(self.channels, "channels")
            for pool in (None, 2)
        ]


class OwnNetwork(Architecture):
    """The network that a user's factory makes.

    Parameters
    ----------
    factory : callable
        As the `architecture` of `skhash.SBNClassifier`.
    """

    def __init__(self, factory):
        self.factory = factory

    def network(self, input_shape, hidden_layer_sizes, n_classes, **options):
        import torch

        from skhash.networks import StochasticBinaryNetwork

        seed = int(torch.randint(2**31, (), generator=options["generator"]))
        with seeded_globals(seed):
            network = self.factory(*input_shape, n_classes)
        if not isinstance(network, StochasticBinaryNetwork):
            raise TypeError(
                f"The factory of architecture= returned a {type(network).__name__}; it "
                "has to be a skhash.networks.StochasticBinaryNetwork."
            )
        sizes = network.layers[0].n_inputs, network.head.n_outputs
        if sizes != (*input_shape, n_classes):
            raise ValueError(
                f"The network of architecture= maps {sizes[0]} inputs to {sizes[1]} "
                f"outputs; it has to be {input_shape[0]} features to {n_classes} "
                "classes."
            )
        return network


ARCHITECTURES = {"allconv": AllConv, "mlp": Architecture, "vgg": VGG}


def resolve_architecture(architecture) -> Architecture:
    """Return the architecture of a name or factory, or a clone of one itself."""
    if callable(architecture):
        return OwnNetwork(architecture)
    return resolved(architecture, ARCHITECTURES, Architecture, "architecture")
