"""Stochastic binary networks: layers whose units are drawn, -1 or +1.

A layer holds parameters. ``realize(generator)`` draws what is random in its weights and
returns the linear map of one step, a `LinearMap`, which estimators of the
network-wise reach work on. Values go between layers as rows, images flattened channel
first, so any layer that reads as many inputs as the one before has units may follow.
"""

import math
from operator import index

import numpy as np
import torch
from torch import nn

from skhash.gradients import BernoulliUnits
from skhash.gradients._network import LinearMap, trailing
from skhash.networks._weights import RealWeights, resolve_weights
from skhash.noise import NOISES

NOISE_NAMES = {cls: name for name, cls in NOISES.items()}


class ChannelNorm(nn.Module):
    """Batch norm as scale and shift of each channel.

    While training they come from the batch, which moves the running statistics; in
    evaluation they come from those.

    Parameters
    ----------
    n_channels : int
        Number of channels of the output.
    momentum : float, default=0.1
        The weight of a batch in the running statistics.
    eps : float, default=1e-5
        Added to variances.
    """

    def __init__(self, n_channels, momentum=0.1, eps=1e-5):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(n_channels))
        self.bias = nn.Parameter(torch.zeros(n_channels))
        self.register_buffer("running_mean", torch.zeros(n_channels))
        self.register_buffer("running_var", torch.ones(n_channels))

    def normalized(self, h):
        """Return outputs with scale and shift applied, the scale and the shift.

        Parameters
        ----------
        h : Tensor of shape (n_rows, n_channels, ...)
        """
        if not self.training:
            scale, shift = self(h)
            axes = h.ndim - 2
            return h * trailing(scale, axes) + trailing(shift, axes), scale, shift
        # One operation of torch for all, which `forward` would need many passes for.
        h, mean, inverse = torch.native_batch_norm(
            h, self.weight, self.bias, None, None, True, self.momentum, self.eps
        )
        var = (inverse**-2 - self.eps).clamp(min=0)
        self._follow(mean, var, h.numel() // h.shape[1])
        scale = self.weight * inverse
        return h, scale, self.bias - mean * scale

    def forward(self, h, variance=None):
        """Return scale and shift for outputs, shape (n_channels,) each.

        Parameters
        ----------
        h : Tensor of shape (n_rows, n_channels, ...)
        variance : Tensor of the same shape or None
            That of each output, if `h` are means.
        """
        if not self.training:
            mean, var = self.running_mean, self.running_var
        else:
            axes = [0, *range(2, h.ndim)]
            var, mean = torch.var_mean(h, dim=axes, correction=0)
            if variance is not None:
                var = var + variance.mean(dim=axes)
            self._follow(mean, var, h.numel() // h.shape[1])
        scale = self.weight * torch.rsqrt(var + self.eps)
        return scale, self.bias - mean * scale

    @torch.no_grad()
    def _follow(self, mean, var, n_values):
        unbiased = var * (n_values / max(1, n_values - 1))
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)


class _Layer(nn.Module):
    """A linear map with parameters.

    Parameters
    ----------
    shape : tuple of int
        That of the weight.
    noise : Noise, its name or None
        None makes a head: outputs are real.
    weights : WeightLaw or its name
    batch_norm : bool
        Whether to normalize logits over the batch, instead of adding an intercept.
    generator : torch.Generator or None
    geometry : dict
        Other parameters of `LinearMap`.
    """

    # Attributes that tell, with the geometry, how large the layer is.
    sizes = ("n_inputs", "n_outputs")

    def __init__(self, shape, noise, weights, batch_norm, generator, geometry) -> None:
        super().__init__()
        self.geometry = geometry
        self.units = None if noise is None else BernoulliUnits(noise, "pm1")
        self.weights = resolve_weights(weights)
        n_inputs = math.prod(shape[1:])
        self.weight = nn.Parameter(self.weights.start(shape, n_inputs, generator))
        self.norm = self.bias = None
        if batch_norm:
            self.norm = ChannelNorm(shape[0])
        else:
            start = RealWeights().start(shape[:1], n_inputs, generator)
            self.bias = nn.Parameter(start)

    def description(self) -> dict:
        """Describe the layer, without its parameters, as plain data."""
        description = {
            "layer": type(self).__name__,
            "weights": self.weights.law,
            "batch_norm": self.norm is not None,
        }
        if self.units is not None:
            noise = self.units.noise
            name = NOISE_NAMES.get(type(noise), type(noise).__name__)
            description |= {"noise": name, "scale": float(noise.scale)}
        sizes = {name: getattr(self, name) for name in self.sizes}
        return description | self.geometry | sizes

    def realize(self, generator=None, deterministic=False):
        """Return the `LinearMap` of one step.

        Parameters
        ----------
        generator : torch.Generator or None
            Generator for the weights, if they are random.
        deterministic : bool, default=False
            Whether to use the most likely weights instead.
        """
        if deterministic:
            weight = self.weights.likeliest(self.weight)
        else:
            weight = self.weights.draw(self.weight, generator)
        return LinearMap(
            weight,
            self.bias,
            units=self.units,
            norm=self.norm,
            is_binary=self.weights.is_binary,
            **self.geometry,
        )


class BinaryLinear(_Layer):
    """Fully connected layer of random units, which are -1 or +1.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of inputs and of units.
    noise : Noise or its name, default="logistic"
        Noise that a logit must exceed for its unit to be +1.
    weights : {"real", "mirror", "pgd", "bayesbinn"} or WeightLaw, default="real"
        Kind of weights. All except "real" are -1 or +1, drawn once per step.
    batch_norm : bool, default=False
        Whether to normalize logits over the batch, instead of adding an intercept.
    generator : torch.Generator or None
        Generator on the CPU, for the initial parameters.

    Examples
    --------
    >>> import torch
    >>> from skhash.networks import BinaryLinear
    >>> layer = BinaryLinear(4, 3, noise="uniform", weights="mirror")
    >>> step = layer.realize(torch.Generator().manual_seed(0))
    >>> step.weight.detach().unique()
    tensor([-1.,  1.])
    """

    def __init__(
        self,
        n_inputs,
        n_outputs,
        *,
        noise="logistic",
        weights="real",
        batch_norm=False,
        generator=None,
    ) -> None:
        n_inputs, n_outputs = index(n_inputs), index(n_outputs)  # NumPy's are not saved
        shape = (n_outputs, n_inputs)
        super().__init__(shape, noise, weights, batch_norm, generator, {})
        self.n_inputs, self.n_outputs = n_inputs, n_outputs


class RealLinear(_Layer):
    """Fully connected layer with real outputs: the head of a network.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of units below, and of outputs, one per class.
    generator : torch.Generator or None
        Generator on the CPU, for the initial parameters.

    Examples
    --------
    >>> from skhash.networks import RealLinear
    >>> RealLinear(8, 3).weight.shape
    torch.Size([3, 8])
    """

    def __init__(self, n_inputs, n_outputs, *, generator=None) -> None:
        n_inputs, n_outputs = index(n_inputs), index(n_outputs)
        super().__init__((n_outputs, n_inputs), None, "real", False, generator, {})
        self.n_inputs, self.n_outputs = n_inputs, n_outputs


class BinaryConv2d(_Layer):
    """Convolution whose outputs are random units, -1 or +1.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width).
    n_channels : int
        Number of channels of the output.
    kernel_size : int
        Height and width of the kernel.
    stride : int, default=1
        Step of the kernel.
    padding : int, default=0
        Number of zeros added on each side, at most `kernel_size`.
    pool : int or None, default=None
        Width of maximum pooling before norm and noise. PSA, ADF and LocalReparam allow
        it in the first layer only, or not at all.
    noise, weights, batch_norm, generator
        As in `BinaryLinear`. A norm and an intercept have one value per channel.

    Attributes
    ----------
    output_shape : tuple of int
        (n_channels, height, width).

    Raises
    ------
    ValueError
        If a size is below 1, or nothing of the images is left after the kernel and the
        pooling.

    Examples
    --------
    >>> from skhash.networks import BinaryConv2d
    >>> BinaryConv2d((1, 28, 28), 16, 5, padding=2, pool=2).output_shape
    (16, 14, 14)
    """

    sizes = ("n_channels", "kernel_size")

    def __init__(
        self,
        input_shape,
        n_channels,
        kernel_size,
        *,
        stride=1,
        padding=0,
        pool=None,
        noise="logistic",
        weights="real",
        batch_norm=False,
        generator=None,
    ) -> None:
        input_shape, pool = [*map(index, input_shape)], pool and index(pool)
        n_channels, kernel_size = index(n_channels), index(kernel_size)
        stride, padding = index(stride), index(padding)
        least = min(*input_shape, n_channels, kernel_size, stride)
        if least < 1 or not 0 <= padding <= kernel_size:
            raise ValueError(
                f"A convolution has input_shape={tuple(input_shape)}, n_channels="
                f"{n_channels}, kernel_size={kernel_size}, stride={stride} and padding="
                f"{padding}; give sizes of at least 1, and padding from 0 to the "
                "kernel_size."
            )
        geometry = {"stride": stride, "padding": padding, "pool": pool}
        geometry = {"input_shape": input_shape} | geometry
        shape = (n_channels, input_shape[0], kernel_size, kernel_size)
        super().__init__(shape, noise, weights, batch_norm, generator, geometry)
        self.n_channels, self.kernel_size = n_channels, kernel_size
        size = [(n + 2 * padding - kernel_size) // stride + 1 for n in input_shape[1:]]
        size = [n // (pool or 1) for n in size]
        if min(size) < 1:
            raise ValueError(
                f"A kernel of {kernel_size} with padding={padding} and pool={pool} "
                f"leaves nothing of input_shape={tuple(input_shape)}; use a smaller "
                "kernel or more padding."
            )
        self.output_shape = (n_channels, *size)
        self.n_inputs = math.prod(input_shape)
        self.n_outputs = math.prod(self.output_shape)


class StochasticBinaryNetwork(nn.Module):
    """Network of layers of random units, and a head with real outputs.

    Parameters
    ----------
    layers : sequence of BinaryLinear and BinaryConv2d
        Layers of units, from the input to the head.
    head : RealLinear
        Layer with real outputs.

    Examples
    --------
    >>> import torch
    >>> from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork
    >>> generator = torch.Generator().manual_seed(0)
    >>> network = StochasticBinaryNetwork(
    ...     [
    ...         BinaryLinear(4, 8, generator=generator),
    ...         BinaryLinear(8, 3, noise="uniform", generator=generator),
    ...     ],
    ...     RealLinear(3, 2, generator=generator),
    ... )
    >>> X = torch.randn(5, 4, generator=generator)
    >>> network(X, generator).shape
    torch.Size([5, 2])
    >>> network.units(X, deterministic=True).unique()
    tensor([-1.,  1.])
    """

    def __init__(self, layers, head) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(layers), head
        if not layers:
            raise ValueError("A network needs at least one layer of units.")
        for below, above in zip(layers, [*layers[1:], head], strict=True):
            if below.n_outputs != above.n_inputs:
                raise ValueError(
                    f"A layer of {below.n_outputs} units is followed by one that takes "
                    f"{above.n_inputs} inputs; the two numbers must be equal."
                )

    def description(self) -> list[dict]:
        """Describe the layers and the head, without parameters, as plain data."""
        return [module.description() for module in [*self.layers, self.head]]

    def realize(self, generator=None, deterministic=False):
        """Return the linear maps of one step, the head's last; see `LinearMap`."""
        modules = [*self.layers, self.head]
        return [module.realize(generator, deterministic) for module in modules]

    def start_training(self, n_rows) -> None:
        """Prepare the weights of layers for training on `n_rows` rows."""
        for layer in self.layers:
            layer.weights.start_training(n_rows)

    def end_step(self, lr) -> None:
        """Update the weights of layers after a step of the optimizer."""
        for layer in self.layers:
            layer.weights.end_step(layer.weight, lr)

    def units(self, X, generator=None, deterministic=False):
        """Return the values of the last layer of units, without a gradient.

        Parameters
        ----------
        X : Tensor of shape (n_rows, n_inputs)
            Inputs of the network, one row per sample.
        generator : torch.Generator or None
            Generator for values and weights, on the device of `X`.
        deterministic : bool, default=False
            Whether every unit and weight takes its most likely value instead.

        Returns
        -------
        values : Tensor of shape (n_rows, n_units)
            -1 and +1.
        """
        maps = self.realize(generator, deterministic)
        return self._values(X, maps, generator, deterministic)

    def forward(self, X, generator=None, deterministic=False):
        """Return the outputs of the head; for the parameters see `units`."""
        maps = self.realize(generator, deterministic)
        return maps[-1](self._values(X, maps, generator, deterministic))

    @torch.no_grad()
    def _values(self, X, maps, generator, deterministic):
        for layer in maps[:-1]:
            logits = layer(X)
            if deterministic:
                X = layer.units.values((logits > 0).to(logits.dtype))
            else:
                X = layer.units.draw(logits, generator)
        return X


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
    state = {name: torch.tensor(value) for name, value in state.items()}
    network.load_state_dict(state)
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
            f"The noise {noise} of the network is not from skhash.noise, so it was not "
            "saved. Set the parameter noise to the object used in fit."
        )
    return LAYERS[layer](noise=own_noise, generator=generator, **arguments)
