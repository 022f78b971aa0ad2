"""Layers of stochastic binary networks against those of torch, and their draws."""

import pytest
import torch
from cases import each
from scipy import stats
from torch import nn
from torch.nn import functional

from skhash.gradients import BernoulliUnits
from skhash.networks import (
    BinaryConv2d,
    BinaryLinear,
    MirrorWeights,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.noise import NOISES

GEOMETRIES = [
    {},
    {"padding": 1},
    {"stride": 2},
    {"stride": 2, "padding": 2},
    {"padding": 1, "pool": 2},
]


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(n_rows, n_columns, seed=0):
    return torch.randn(n_rows, n_columns, generator=seeded(seed), dtype=torch.float64)


def make_network(**layer):
    layer["generator"] = seeded()
    first = BinaryConv2d((1, 4, 5), 3, 3, padding=1, **layer)
    second = BinaryLinear(first.n_outputs, 6, **layer)
    head = RealLinear(6, 2, generator=layer["generator"])
    return StochasticBinaryNetwork([first, second], head)


@each("geometry", GEOMETRIES)
def test_convolution_is_that_of_torch(geometry):
    layer = BinaryConv2d((2, 7, 6), 3, 3, **geometry, generator=seeded()).double()
    X = rows(4, 2 * 7 * 6)
    torch_geometry = {k: v for k, v in geometry.items() if k != "pool"}
    right = functional.conv2d(
        X.reshape(4, 2, 7, 6), layer.weight, layer.bias, **torch_geometry
    )
    if "pool" in geometry:
        right = functional.max_pool2d(right, 2)
    close(layer.realize()(X), right.flatten(1))
    assert right.shape[1:] == layer.output_shape
    assert layer.n_outputs == right[0].numel()


@each("training", [True, False])
@each("kind", ["linear", "conv", "pooled"])
def test_batch_norm_is_that_of_torch(kind, training):
    """Values, running statistics and gradients, over two batches."""
    if kind == "linear":
        layer, norm = BinaryLinear(6, 3, batch_norm=True), nn.BatchNorm1d(3)
    else:
        layer = BinaryConv2d(
            (1, 6, 4),
            3,
            3,
            padding=1,
            pool=2 if kind == "pooled" else None,
            batch_norm=True,
        )
        norm = nn.BatchNorm2d(3)
    layer, norm = layer.double(), norm.double()
    with torch.no_grad():
        for name in ("weight", "bias"):
            values = torch.tensor([0.7, -1.2, 0.4])
            getattr(layer.norm, name).copy_(values)
            getattr(norm, name).copy_(values)
    layer.train(), norm.train()
    for seed in (0, 1):
        layer.train(training or seed == 0), norm.train(training or seed == 0)
        X = rows(5, layer.n_inputs, seed)
        found = layer.realize()(X)
        if kind == "linear":
            h = functional.linear(X, layer.weight)
        else:
            h = functional.conv2d(X.reshape(5, 1, 6, 4), layer.weight, padding=1)
        if kind == "pooled":
            h = functional.max_pool2d(h, 2)
        right = norm(h).flatten(1)
        close(found, right)
        close(layer.norm.running_mean, norm.running_mean)
        close(layer.norm.running_var, norm.running_var)
        factor = rows(*found.shape, seed=7)
        for ours, theirs in [
            (layer.weight, layer.weight),
            (layer.norm.weight, norm.weight),
            (layer.norm.bias, norm.bias),
        ]:
            close(
                *(
                    torch.autograd.grad((y * factor).sum(), at, retain_graph=True)[0]
                    for y, at in [(found, ours), (right, theirs)]
                )
            )


def test_later_calls_of_a_step_take_the_statistics_of_the_first():
    layer = BinaryLinear(6, 3, batch_norm=True).double()
    X = rows(5, 6)
    step = layer.realize()
    first = step(X)
    running = layer.norm.running_mean.clone()
    close(step(X), first)
    # Each row of another batch is mapped on its own.
    other = rows(4, 6, seed=1)
    close(step(torch.cat([X, other]))[:5], first)
    close(step(other[:2]), step(other)[:2])
    assert torch.equal(layer.norm.running_mean, running)
    # A new step has its own.
    assert (layer.realize()(other[:2]) - step(other[:2])).abs().max() > 1e-2


@each("batch_norm", [False, True])
@each("training", [False, True])
def test_moments_are_those_of_random_values(batch_norm, training):
    """Independent values -1 and +1: mean and variance over all states."""
    layer = BinaryConv2d((1, 3, 2), 2, 2, padding=1, batch_norm=batch_norm).double()
    layer.train(training)
    p = torch.rand(1, 6, generator=seeded(), dtype=torch.float64)
    mean, variance = layer.realize().moments(2 * p - 1, 4 * p * (1 - p))

    on = torch.cartesian_prod(*[torch.tensor([False, True])] * 6)
    weights = torch.where(on, p, 1 - p).prod(dim=1)
    h = functional.conv2d(
        2 * on.double().reshape(-1, 1, 3, 2) - 1, layer.weight, padding=1
    )
    right = torch.einsum("s,schw->chw", weights, h)
    spread = torch.einsum("s,schw->chw", weights, (h - right).square())
    if not batch_norm:
        right = right + layer.bias[:, None, None]
    elif training:
        # Over states and positions.
        centre = right.mean(dim=(1, 2), keepdim=True)
        total = torch.einsum("s,schw->c", weights, (h - centre).square())
        scale = (total / right[0].numel() + 1e-5).rsqrt()[:, None, None]
        right, spread = (right - centre) * scale, spread * scale**2
    else:
        scale = 1 / (1 + 1e-5) ** 0.5
        right, spread = right * scale, spread * scale**2
    close(mean[0], right.flatten())
    close(variance[0], spread.flatten())


def test_first_weights_are_those_of_torch():
    """Uniform within 1 / sqrt(n_inputs) of 0, from the generator."""
    state = torch.get_rng_state()
    layer = BinaryConv2d((4, 5, 5), 100, 3, generator=seeded(1))
    assert torch.equal(state, torch.get_rng_state())
    bound = 1 / 36**0.5
    for parameter in (layer.weight, layer.bias):
        values = (parameter / bound).detach().ravel()
        assert stats.kstest(values, "uniform", (-1, 2)).pvalue > 1e-3
    again = BinaryConv2d((4, 5, 5), 100, 3, generator=seeded(1))
    assert torch.equal(layer.weight, again.weight)


class TestMirrorWeights:
    def test_gradient_is_twice_that_in_the_drawn_weight(self):
        """A change of the probability moves a mean of -1 and +1 by twice as much."""
        layer = BinaryLinear(4, 3, weights="mirror", generator=seeded()).double()
        step = layer.realize(seeded())
        factor = rows(5, 3)
        (step(rows(5, 4)) * factor).sum().backward()
        close(layer.weight.grad, 2 * factor.T @ rows(5, 4))

    @each("noise", NOISES)
    def test_first_probabilities_are_uniform(self, noise):
        weights = MirrorWeights()
        weights.units = BernoulliUnits(noise, "pm1")
        eta = weights.start((200, 100), 100, seeded())
        p = weights.units.noise.cdf(eta).flatten().sort().values
        even = (torch.arange(20_000) + 0.5) / 20_000
        # The Kolmogorov bound at 1e-4.
        assert (p - even).abs().max() < 2.23 / 20_000**0.5
        assert eta.isfinite().all()

    def test_one_draw_a_step(self):
        layer = BinaryLinear(30, 20, weights="mirror", generator=seeded())
        generator = seeded(1)
        one, other = layer.realize(generator), layer.realize(generator)
        X = torch.randn(3, 30)
        assert torch.equal(one(X), one(X))
        assert not torch.equal(one.weight, other.weight)


class TestNetwork:
    def test_units_have_the_probabilities_of_their_logits(self):
        layer = BinaryLinear(3, 4, noise="triangular", generator=seeded())
        network = StochasticBinaryNetwork([layer], RealLinear(4, 1))
        X = torch.tensor([[0.5, -1.0, 2.0]]).expand(20_000, -1)
        values = network.units(X, seeded())
        p = layer.units.noise.cdf(layer.realize()(X[:1]))[0]
        deviation = ((values + 1) / 2).mean(dim=0) - p
        assert (deviation.abs() < 4 * (p * (1 - p) / 20_000).sqrt()).all()

    @each("weights", ["real", "mirror"])
    def test_deterministic_is_signs_all_the_way(self, weights):
        network = make_network(weights=weights).double()
        X = rows(7, 20)
        signs = (lambda w: w) if weights == "real" else (lambda w: 2.0 * (w > 0) - 1)
        first, second = network.layers
        h = functional.conv2d(
            X.reshape(7, 1, 4, 5), signs(first.weight).double(), first.bias, padding=1
        )
        h = 2 * (h.flatten(1) > 0).double() - 1
        h = functional.linear(h, signs(second.weight).double(), second.bias)
        h = 2 * (h > 0).double() - 1
        close(network.units(X, deterministic=True), h)
        right = functional.linear(h, network.head.weight, network.head.bias)
        close(network(X, deterministic=True), right)

    @each("weights", ["real", "mirror"])
    def test_generator_decides_the_draws(self, weights):
        network = make_network(weights=weights)
        X = torch.randn(7, 20, generator=seeded())
        state = torch.get_rng_state()
        one, same, other = (network(X, seeded(s)) for s in (0, 0, 1))
        assert torch.equal(one, same) and not torch.equal(one, other)
        assert torch.equal(state, torch.get_rng_state())

    def test_sizes_have_to_agree(self):
        layers = [BinaryLinear(3, 4), BinaryLinear(5, 2)]
        with pytest.raises(ValueError, match="4 .* 5"):
            StochasticBinaryNetwork(layers, RealLinear(2, 1))
        with pytest.raises(ValueError, match="layer"):
            StochasticBinaryNetwork([], RealLinear(2, 1))
        with pytest.raises(ValueError, match=r"5 .*\(1, 4, 9\)"):
            BinaryConv2d((1, 4, 9), 2, 5)
