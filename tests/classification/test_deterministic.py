"""Exported layers against the torch layers that they were made of, bit for bit.

Products of signs are whole numbers, so that no order of sums matters; scales and shifts
are such that many products tie with a threshold.
"""

import itertools

import numpy as np
import pytest
import torch
from cases import each
from joblib import parallel_config

from skhash.classification._deterministic import (
    DeterministicNetwork,
    PackedLayer,
    RealLayer,
)
from skhash.codes import bits_to_signs, pack_bits, unpack_bits
from skhash.networks import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)

# Scales of norms: of both signs, none, and such as are not exact in float32.
SCALES = (1.0, -1.0, 0.1, -0.3, 0.0, 1e-20, 7e3)
INFINITE = (np.inf, -np.inf)


def with_norms(layer, n_inputs, seed=0):
    """Give a layer scales, and thresholds that are whole numbers or infinite."""
    rng = np.random.default_rng(seed)
    n = len(layer.weight)
    norm = layer.norm
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(rng.normal(size=layer.weight.shape)))
        norm.weight.copy_(torch.from_numpy(rng.permutation(np.resize(SCALES, n))))
        norm.running_mean.copy_(torch.from_numpy(rng.integers(-2, 3, size=n)))
        norm.running_mean[rng.integers(n)] = n_inputs
        norm.running_mean[rng.integers(n)] = -n_inputs
        norm.running_var.fill_(1 - norm.eps)
        norm.bias[norm.weight == 0] = 1  # always on
        if n > 2:
            norm.bias[:2] = torch.tensor(INFINITE)
    return layer.eval()


@torch.no_grad()
def expected_bits(layer, bits):
    x = torch.from_numpy(bits_to_signs(bits))
    return layer.realize(deterministic=True)(x).numpy() > 0


@each("weights", ["mirror", "pgd"])
@each("n_inputs", [1, 2, 7, 8, 9, 12])
def test_all_states_of_a_layer(n_inputs, weights):
    layer = BinaryLinear(n_inputs, 29, weights=weights, batch_norm=True)
    layer = with_norms(layer, n_inputs)
    bits = np.array(list(itertools.product([0, 1], repeat=n_inputs)))
    on = unpack_bits(PackedLayer.of(layer).read(pack_bits(bits)), 29)
    np.testing.assert_array_equal(on, expected_bits(layer, bits))
    # By arithmetic without any rounding: what torch would have to say.
    signs = np.where(layer.weight.detach().numpy() > 0, 1, -1)
    mean, scale = layer.norm.running_mean.numpy(), layer.norm.weight.detach().numpy()
    exact = scale > 0
    exact[:2] = False
    product = bits_to_signs(bits, np.int64) @ signs.T
    np.testing.assert_array_equal(on[:, exact], (product > mean)[:, exact])


@pytest.mark.parametrize(
    ("n_inputs", "n_units"), [(63, 65), (64, 64), (65, 63), (200, 130), (1000, 8)]
)
def test_wide_layers(n_inputs, n_units):
    layer = BinaryLinear(n_inputs, n_units, weights="mirror", batch_norm=True)
    layer = with_norms(layer, n_inputs)
    bits = np.random.default_rng(0).integers(2, size=(50, n_inputs))
    packed = PackedLayer.of(layer).read(pack_bits(bits))
    assert packed.shape == (50, -(-n_units // 8))
    np.testing.assert_array_equal(
        unpack_bits(packed, n_units), expected_bits(layer, bits)
    )


def test_an_intercept_in_place_of_a_norm():
    layer = BinaryLinear(6, 20, weights="mirror")
    layer.bias.data = torch.linspace(-8, 8, 20).round()
    bits = np.array(list(itertools.product([0, 1], repeat=6)))
    on = unpack_bits(PackedLayer.of(layer).read(pack_bits(bits)), 20)
    np.testing.assert_array_equal(on, expected_bits(layer, bits))


GEOMETRIES = [
    {},
    {"padding": 1},
    {"padding": 2, "stride": 2},
    {"pool": 2},
    {"padding": 1, "pool": 2},
    {"stride": 2, "pool": 3},
]


@each("geometry", GEOMETRIES)
@each("n_inputs", [1, 8, 11])
@each("weights", ["mirror", "real"])
def test_convolutions(n_inputs, geometry, weights):
    shape = n_inputs, 9, 10
    layer = BinaryConv2d(shape, 13, 3, weights=weights, batch_norm=True, **geometry)
    layer = with_norms(layer, 9 * n_inputs)
    if weights == "real":
        layer.weight.data = layer.weight.sign()
        layer.norm.weight.data = layer.norm.weight.sign()  # thresholds are exact
    bits = np.random.default_rng(1).integers(2, size=(6, np.prod(shape)))
    on = unpack_bits(RealLayer.of(layer).read(pack_bits(bits)), layer.n_outputs)
    np.testing.assert_array_equal(on, expected_bits(layer, bits))


def network_of(layers, n_features):
    network = StochasticBinaryNetwork(layers, RealLinear(layers[-1].n_outputs, 3))
    mean = np.linspace(-1, 1, n_features)
    return network, DeterministicNetwork.of(network, np.arange(3), mean, 2.0)


def test_rows_do_not_depend_on_threads_and_other_rows(monkeypatch):
    layers = [
        BinaryLinear(10, 30, batch_norm=True),
        BinaryLinear(30, 21, weights="mirror", batch_norm=True),
    ]
    for i, layer in enumerate(layers):
        with_norms(layer, layer.n_inputs, seed=i)
    network, exported = network_of(layers, 10)
    X = np.random.default_rng(0).normal(size=(300, 10))
    x = torch.tensor((X - exported.mean) / 2, dtype=torch.float32)
    with torch.no_grad():
        units = network.units(x, deterministic=True)
        probabilities = network.head.realize()(units).softmax(dim=1)
    bits = exported.transform(X)
    np.testing.assert_array_equal(bits, units > 0)
    np.testing.assert_allclose(exported.predict_proba(X), probabilities, atol=1e-6)
    np.testing.assert_array_equal(exported.transform_packed(X), pack_bits(bits))
    whole = exported.predict_proba(X)
    alone = np.concatenate([exported.predict_proba(row[None]) for row in X])
    module = "skhash.classification._deterministic."
    monkeypatch.setattr(module + "MIN_SHARED_WORK", 1)
    with parallel_config(n_jobs=3):
        shared = exported.predict_proba(X)
    np.testing.assert_array_equal(whole, alone)
    np.testing.assert_array_equal(whole, shared)
    assert exported.transform(X[:0]).shape == (0, 21)
