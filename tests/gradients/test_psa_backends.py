"""Every back end of PSA against flipping the inputs of a layer one by one."""

from functools import partial
from unittest import mock

import pytest
import torch
from cases import each
from gradients.enumeration import close
from torch.utils._python_dispatch import TorchDispatchMode

from skhash.gradients import PSA, _psa_backends
from skhash.gradients._psa_backends import (
    MAX_DEGREE,
    chebyshev_degree,
    choose_backend,
    degree_for,
)
from skhash.networks import BinaryConv2d, BinaryLinear
from skhash.noise import Logistic, Normal, Triangular, Uniform

NOISES = [Logistic(), Logistic(scale=2), Uniform(), Triangular(), Normal()]

# Each makes a layer of the keywords that both classes take. Images are not square, and
# a stride may leave pixels out.
LAYERS = {
    "linear": lambda **layer: BinaryLinear(7, 5, **layer),
    "1x1": lambda **layer: BinaryConv2d((3, 2, 4), 5, 1, **layer),
    "3x3": lambda **layer: BinaryConv2d((2, 5, 4), 3, 3, **layer),
    "padded": lambda **layer: BinaryConv2d((2, 4, 3), 3, 3, padding=1, **layer),
    "strided": lambda **layer: BinaryConv2d((2, 6, 5), 3, 3, stride=2, **layer),
    "both": lambda **layer: BinaryConv2d((2, 5, 6), 4, 3, stride=2, padding=2, **layer),
    "2x2": lambda **layer: BinaryConv2d((3, 5, 3), 2, 2, stride=2, padding=1, **layer),
}
every_layer = each("make", LAYERS.values())
N_ROWS = 4


def make_case(make, seed=0, factor=1.0, dtype=torch.float64, **layer):
    """Return a map of one step, its inputs, logits, and signed gradients."""
    generator = torch.Generator().manual_seed(seed)
    layer = make(generator=generator, **layer).to(dtype)
    with torch.no_grad():
        if not layer.weights.is_binary:
            layer.weight.mul_(factor)
        if layer.norm is not None:
            signs = torch.tensor([1.0, -1.0]).repeat(layer.norm.weight.numel())
            spread = torch.rand(layer.norm.weight.shape, generator=generator) + 0.5
            layer.norm.weight.copy_(signs[: len(spread)] * spread)
            layer.norm.bias.copy_(spread - 1)
    shape = (N_ROWS, layer.n_inputs)
    x = 2.0 * torch.randint(2, shape, generator=generator).to(dtype) - 1
    layer = layer.realize(generator)
    logits = layer(x).detach()
    gradient = torch.randn(logits.shape, generator=generator, dtype=dtype)
    return layer, x, logits, gradient


def by_flipping(layer, x, logits, gradient):
    """Return the sum over units, with every input flipped in a separate pass."""
    cdf = layer.units.noise.cdf
    columns = []
    for i in range(x.shape[1]):
        flipped = x.clone()
        flipped[:, i] *= -1
        difference = cdf(logits) - cdf(layer(flipped).detach())
        columns.append((gradient * difference).sum(dim=1))
    return torch.stack(columns, dim=1)


def run(name, layer, x, logits, gradient, tolerance=1e-5):
    backend = getattr(_psa_backends, name)
    if name == "chebyshev":
        backend = partial(backend, degree=degree_for(layer, tolerance))
    return backend(layer, x, logits, gradient).expand(x.shape)


@every_layer
@each("batch_norm", [False, True])
@each("name, weights", [("direct", "real"), ("direct", "mirror"), ("binary", "mirror")])
def test_exact_back_ends(make, batch_norm, name, weights):
    for noise in NOISES:
        case = make_case(make, noise=noise, batch_norm=batch_norm, weights=weights)
        close(run(name, *case), by_flipping(*case))


@every_layer
@each("noise", NOISES[:2])
@each("batch_norm", [False, True])
@each("tolerance", [1e-2, 1e-5, 1e-9])
def test_chebyshev_keeps_its_bound(make, noise, batch_norm, tolerance):
    case = make_case(make, noise=noise, batch_norm=batch_norm)
    layer, *_, gradient = case
    error = run("chebyshev", *case, tolerance=tolerance) - by_flipping(*case)
    # The sum over units that an input reaches is at most that over all.
    bound = tolerance * gradient.abs().sum(dim=1, keepdim=True)
    assert (error.abs() <= bound + 1e-12).all()


def test_degree_of_weights_of_0():
    assert chebyshev_degree(0.0, 1e-5) == 1
    layer = LAYERS["linear"]
    case = make_case(layer, factor=0.0)
    close(run("chebyshev", *case), torch.zeros_like(case[1]))


@each("factor", [0.1, 1.0, 10.0, 100.0])
def test_single_precision_at_any_size_of_weights(factor):
    layer, x, logits, gradient = make_case(
        LAYERS["linear"], factor=factor, dtype=torch.float32
    )
    found = run("direct", layer, x, logits, gradient)
    layer.weight, layer.bias = layer.weight.double(), layer.bias.double()
    right = by_flipping(layer, x.double(), logits.double(), gradient.double())
    assert (found - right).abs().max() < 1e-5 * gradient.abs().sum(dim=1).max()


@every_layer
@each("name, limit", [("direct", "CHUNK"), ("chebyshev", "CACHED")])
def test_chunks_do_not_matter(make, name, limit):
    case = make_case(make)
    whole = run(name, *case)
    for chunk in (1, 200):
        with mock.patch.object(_psa_backends, limit, chunk):
            close(run(name, *case), whole)


class LargestTensor(TorchDispatchMode):
    """Records the number of entries of the largest tensor that is made."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
        return made


@each(
    "name, weights", [("direct", "real"), ("chebyshev", "real"), ("binary", "mirror")]
)
@each("kind", ["linear", "conv"])
def test_no_array_of_rows_by_units_by_inputs(name, weights, kind):
    make = {
        "linear": lambda **layer: BinaryLinear(60, 50, **layer),
        "conv": lambda **layer: BinaryConv2d((10, 7, 6), 9, 3, padding=1, **layer),
    }[kind]
    case = make_case(make, weights=weights)
    layer, x, logits, _ = case
    with mock.patch.object(_psa_backends, "CHUNK", 4000), LargestTensor() as record:
        run(name, *case)
    # Weights are there once for each value of a polynomial's nodes, at most.
    terms = 10 * max(x.numel(), logits.numel(), layer.weight.numel())
    assert 0 < record.largest <= max(4000, terms)
    n_flips = logits.numel() * layer.weight[0].numel()
    assert record.largest < n_flips / 3


def chosen(layer, tolerance=1e-5):
    backend = choose_backend(layer, tolerance)
    return getattr(backend, "func", backend).__name__


def test_the_choice_is_the_cheapest_that_is_right():
    linear = LAYERS["linear"]
    assert chosen(make_case(linear, weights="mirror", noise="uniform")[0]) == "binary"
    assert chosen(make_case(linear, noise="uniform")[0]) == "direct"
    assert chosen(make_case(linear)[0]) == "chebyshev"
    large = make_case(linear, factor=30)[0]
    assert chosen(large) == "direct"
    largest = float(large.weight.detach().abs().max())
    assert chebyshev_degree(4 * largest, 1e-5) > MAX_DEGREE
    assert chosen(make_case(linear, factor=8)[0]) == "chebyshev"


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="tolerance"):
        PSA(tolerance=0).network_surrogate(None, None, None)
    with pytest.raises(ValueError, match="gamma"):
        PSA(gamma=-1).network_surrogate(None, None, None)
