"""PSA against the enumeration of all paths."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from gradients.enumeration import close
from gradients.network_enumeration import (
    X,
    all_paths,
    along_paths,
    by_path,
    exact,
    expected,
    generic_loss,
    linear_loss,
    make_network,
    path_losses,
)

from skhash.gradients import PSA, _psa_backends
from skhash.networks import BinaryConv2d, RealLinear, StochasticBinaryNetwork
from skhash.noise import NOISES


class DirectPSA(PSA):
    """PSA by its reference, which evaluates F at every flip."""

    def _backend(self, layer):
        return _psa_backends.direct


class RatioPSA(PSA):
    def _backend(self, layer):
        return _psa_backends.ratio


class ChebyshevPSA(PSA):
    def _backend(self, layer):
        degree = _psa_backends.degree_for(layer, self.tolerance)
        return partial(_psa_backends.chebyshev, degree=degree)


DIRECT = DirectPSA()
every_noise = pytest.mark.parametrize("noise", NOISES)


def layers_of(network, gradients):
    """Return the gradients of each layer as one vector, that of the head last."""
    names = [name.rpartition(".")[0] for name, _ in network.named_parameters()]
    return [
        torch.cat(
            [g.flatten() for n, g in zip(names, gradients, strict=True) if n == name]
        )
        for name in dict.fromkeys(names)
    ]


def relative_biases(network, gradient, loss=generic_loss, n_samples=1):
    """Return the relative bias in each layer, that of the head last."""
    found = layers_of(network, expected(gradient, network, loss, n_samples)[1])
    right = layers_of(network, exact(network, loss, n_samples)[1])
    return [float((f - r).norm() / r.norm()) for f, r in zip(found, right, strict=True)]


@every_noise
@pytest.mark.parametrize("widths", [[4], [1, 1], [4, 1], [3, 1, 1], [4, 1, 1]], ids=str)
def test_exact_where_all_but_the_first_layer_have_one_unit(widths, noise):
    network = make_network(widths, noise, factor=0.7)
    assert max(relative_biases(network, DIRECT)) < 1e-10


@every_noise
@pytest.mark.parametrize("widths", [[3, 3], [1, 4], [2, 3, 2]], ids=str)
def test_last_layer_and_head_are_exact(widths, noise):
    *_, last, head = relative_biases(make_network(widths, noise, factor=1), DIRECT)
    assert max(last, head) < 1e-10


@pytest.mark.parametrize("widths", [[1, 4], [1, 2], [1, 3, 1], [1, 1, 4]], ids=str)
def test_proposition_3_is_not_so(widths):
    """A wide layer above biases it, also where those below have one unit."""
    biases = relative_biases(make_network(widths), DIRECT)
    wide = len(widths) - 1 - [n > 1 for n in reversed(widths)].index(True)
    assert all(bias > 1e-4 for bias in biases[:wide])
    assert all(bias < 1e-10 for bias in biases[wide:])


@pytest.mark.parametrize("widths", [[1, 4], [3, 4]], ids=str)
def test_exact_where_the_loss_is_additive_in_the_layer_above(widths):
    network = make_network(widths)
    assert max(relative_biases(network, DIRECT, linear_loss)) < 1e-10
    assert relative_biases(network, DIRECT)[0] > 1e-3


def test_bias_is_below_that_of_straight_through():
    network = make_network([3, 3, 3])
    psa, st = relative_biases(network, DIRECT), relative_biases(network, "st")
    assert all(p < s for p, s in zip(psa[:3], st[:3], strict=True))


@pytest.mark.parametrize("loss", [generic_loss, linear_loss])
def test_value_is_the_loss_of_the_path(loss):
    network = make_network([2, 3])
    psa, st = (along_paths(gradient, network, loss)[0] for gradient in (DIRECT, "st"))
    close(psa, st)


@pytest.mark.parametrize("gamma", [None, 0.2, 1.0], ids=str)
@pytest.mark.parametrize("widths", [[3], [2, 3]], ids=str)
def test_enhancement_does_not_change_the_means(widths, gamma):
    network = make_network(widths)
    plain = expected(DIRECT, network)
    enhanced = expected(DirectPSA(enhanced=True, gamma=gamma), network)
    close(enhanced[0], exact(network)[0])
    for a, b in zip(plain[1], enhanced[1], strict=True):
        close(a, b)


def test_default_gamma_is_the_mean_over_units():
    network = make_network([1, 4])
    default = by_path(DirectPSA(enhanced=True), network)
    close(default, by_path(DirectPSA(enhanced=True, gamma=0.25), network))
    plain = by_path(DIRECT, network)
    close(plain, by_path(DirectPSA(enhanced=True, gamma=0), network))
    close(plain, by_path(DirectPSA(gamma=0.25), network))


@pytest.mark.parametrize("n_samples", [1, 2])
def test_enhanced_losses_are_means_over_one_unit(n_samples):
    """Over both values of a unit of the last layer, and then over all such units."""
    network = make_network([2, 2])
    values, _ = along_paths(DirectPSA(enhanced=True), network, n_samples=n_samples)
    paths = all_paths(network, n_samples)
    p, losses = path_losses(network, paths, generic_loss)
    means = []
    for sample in range(n_samples):
        for unit in range(2):
            below, last = paths[0], paths[1].clone()
            last[sample, :, unit] ^= True
            q, flipped = path_losses(network, [below, last], generic_loss)
            means.append((p * losses + q * flipped) / (p + q))
    close(values.detach(), torch.stack(means).mean(dim=0).detach())


def test_enhancement_lowers_the_variance():
    def variances(gradient):
        values, gradients, p = by_path(gradient, network)
        numbers = torch.cat([values[:, None], gradients], dim=1)
        return p @ (numbers - p @ numbers).square()

    network = make_network([2, 3])
    plain, enhanced = variances(DIRECT), variances(DirectPSA(enhanced=True))
    n_head = sum(parameter.numel() for parameter in network.head.parameters())
    close(plain[1:-n_head], enhanced[1:-n_head])
    changed = [0, *range(-n_head, 0)]
    # That of the head's intercept and weights, and of the value.
    assert (enhanced[changed] < 0.9 * plain[changed]).all()


def test_enhancement_of_one_unit_has_no_variance():
    network = make_network([1])
    values, gradients, _ = by_path(DirectPSA(enhanced=True), network)
    value, right = exact(network)
    close(values, value.expand(2))
    for row in gradients:
        close(row, torch.cat([g.flatten() for g in right]))
    assert by_path(DIRECT, network)[0].diff().abs() > 0.1


@every_noise
def test_one_layer_and_a_linear_loss_are_straight_through(noise):
    network = make_network([4], noise)
    close(by_path(DIRECT, network, linear_loss), by_path("st", network, linear_loss))


def test_uniform_noise_that_does_not_clip_is_straight_through():
    network = make_network([2, 2, 2], "uniform", factor=0.3)
    close(by_path(DIRECT, network, linear_loss), by_path("st", network, linear_loss))
    clipped = make_network([2, 2, 2], "uniform", factor=2)
    psa, st = (by_path(g, clipped, linear_loss)[1] for g in (DIRECT, "st"))
    assert (psa - st).abs().max() > 1e-2


@pytest.mark.parametrize("bias, order", [(0.0, 2), (0.7, 1)])
def test_small_weights_approach_straight_through(bias, order):
    """The difference is of order W, and W^2 where F'' is 0."""

    def difference(factor):
        network = make_network([3, 3])
        with torch.no_grad():
            network.layers[1].weight.mul_(factor)
            network.layers[1].bias.fill_(bias)
        psa, st = (by_path(g, network, linear_loss)[1] for g in (DIRECT, "st"))
        n_first = 3 * 3 + 3
        return (psa - st)[:, :n_first].norm() / st[:, :n_first].norm()

    ratio = difference(1e-2) / difference(1e-3)
    assert 0.9 < torch.log10(ratio) / order < 1.1


def test_gradient_is_that_of_an_explicit_product_of_differences():
    """Weights, and intercepts, of the first of two layers, one path at a time."""
    network = make_network([2, 3])
    _, gradients, _ = by_path(DIRECT, network)
    names = [name for name, _ in network.named_parameters()]
    assert names[:2] == ["layers.0.weight", "layers.0.bias"]
    first, second, head = network.realize()
    states = [2 * on[0].double() - 1 for on in all_paths(network)]
    for path, (x, y) in enumerate(zip(*(s.split(1) for s in states), strict=True)):
        cdf, pdf = first.units.noise.cdf, first.units.noise.pdf
        a = first(X)
        total = torch.zeros(2, dtype=torch.float64)
        for i in range(2):
            x_flipped = x.clone()
            x_flipped[0, i] *= -1
            for j in range(3):
                y_flipped = y.clone()
                y_flipped[0, j] *= -1
                d = generic_loss(head(y)) - generic_loss(head(y_flipped))
                delta = y[0, j] * (cdf(second(x)) - cdf(second(x_flipped)))[0, j]
                total[i] += (x[0, i] * pdf(a)[0, i] * delta * d[0]).detach()
        close(gradients[path, :6], (total[:, None] * X).flatten())


@pytest.mark.parametrize("n_samples", [2, 3])
@pytest.mark.parametrize("widths", [[2], [2, 1], [1, 1, 1]], ids=str)
def test_bound_of_several_samples_is_exact_where_the_loss_is(widths, n_samples):
    network = make_network(widths)
    assert max(relative_biases(network, DIRECT, n_samples=n_samples)) < 1e-10
    one, several = exact(network), exact(network, n_samples=n_samples)
    assert several[0] < one[0] - 1e-3


def test_bound_of_several_samples_in_last_layer_and_head():
    network = make_network([2, 2])
    first, last, head = relative_biases(network, DIRECT, n_samples=2)
    assert first > 1e-4 and max(last, head) < 1e-10


def test_enhancement_of_several_samples_does_not_change_the_means():
    network = make_network([2, 2])
    plain = expected(DIRECT, network, n_samples=2)
    enhanced = expected(DirectPSA(enhanced=True), network, n_samples=2)
    close(enhanced[0], exact(network, n_samples=2)[0])
    for a, b in zip(plain[1], enhanced[1], strict=True):
        close(a, b)


def make_convolutions(noise="logistic"):
    """Two convolutions of three units, with batch norms of both signs, and a head."""
    generator = torch.Generator().manual_seed(0)
    network = StochasticBinaryNetwork(
        [
            BinaryConv2d(
                (1, 1, 3),
                1,
                3,
                padding=1,
                noise=noise,
                batch_norm=True,
                generator=generator,
            )
            for _ in range(2)
        ],
        RealLinear(3, 2, generator=generator),
    )
    with torch.no_grad():
        network.layers[0].norm.weight.fill_(-1.3)
        network.layers[1].norm.weight.fill_(0.8)
        network.layers[1].norm.running_mean.fill_(0.2)
    return network.double().eval()


@every_noise
def test_convolutions_with_shared_weights(noise):
    network = make_convolutions(noise)
    *_, convolution, norm, head = relative_biases(network, DIRECT)
    assert max(convolution, norm, head) < 1e-10
    # An additive loss makes the first layer exact too.
    assert max(relative_biases(network, DIRECT, linear_loss)) < 1e-10


@pytest.mark.parametrize("psa", [PSA, RatioPSA, ChebyshevPSA])
@pytest.mark.parametrize("make", [make_convolutions, lambda: make_network([3, 3])])
def test_back_ends_give_the_gradient_of_direct(make, psa):
    network = make()
    direct = expected(DIRECT, network)
    found = expected(psa(tolerance=1e-12), network)
    for a, b in zip(direct[1], found[1], strict=True):
        close(a, b, 1e-10)
    # The first layer, and nothing else, goes through a back end.
    rough = expected(ChebyshevPSA(tolerance=0.5), network)
    same = [torch.equal(a, b) for a, b in zip(direct[1], rough[1], strict=True)]
    names = [name for name, _ in network.named_parameters()]
    assert same == [not name.startswith("layers.0") for name in names]


@pytest.mark.parametrize(
    "dtype, rounding", [(torch.float64, 1e-11), (torch.float32, 2e-5)]
)
@pytest.mark.parametrize("widths", [[1, 1, 1], [4, 1, 1], [3, 3]], ids=str)
def test_the_polynomial_adds_a_small_bias(widths, dtype, rounding):
    """Below the last layer; with exact flips, at a tolerance near 0, there is none."""

    def distances(gradient):
        """Return those from the mean by exact flips in float64, layer by layer."""
        found = expected(gradient, deepcopy(network).to(dtype))[1]
        right = expected(DIRECT, network)[1]
        pairs = zip(layers_of(network, found), layers_of(network, right), strict=True)
        return [float((f - r).norm() / r.norm()) for f, r in pairs]

    for seed in range(3):
        network = make_network(widths, seed=seed, factor=1)
        *below, last, head = distances("psa")
        assert max(below) < 1e-3 and max(last, head) < rounding
        assert dtype == torch.float32 or max(below) > 1e-7
        assert max(distances(PSA(tolerance=1e-12))) < rounding
