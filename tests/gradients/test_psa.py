"""PSA against the enumeration of all paths."""

from functools import partial

import torch
from cases import each
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


class ChebyshevPSA(PSA):
    def _backend(self, layer):
        degree = _psa_backends.degree_for(layer, self.tolerance)
        return partial(_psa_backends.chebyshev, degree=degree)


DIRECT = DirectPSA()
every_noise = each("noise", NOISES)


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


@each(
    "widths, n_samples, n_biased",
    [
        # All are exact where all but the first layer have one unit.
        *(([4], 1, 0), ([1, 1], 1, 0), ([4, 1], 1, 0), ([4, 1, 1], 1, 0)),
        *(([2], 3, 0), ([2, 1], 2, 0), ([1, 1, 1], 2, 0)),
        # Else the last layer and the head.
        *(([3, 3], 1, 1), ([1, 4], 1, 1), ([2, 3, 2], 1, 2), ([2, 2], 2, 1)),
    ],
)
@every_noise
def test_layers_that_are_exact(widths, n_samples, n_biased, noise):
    network = make_network(widths, noise, factor=0.7)
    biases = relative_biases(network, DIRECT, n_samples=n_samples)
    assert max(biases[n_biased:]) < 1e-10
    if noise == "logistic" and n_biased:
        assert min(biases[:n_biased]) > 1e-5


@each("widths", [[1, 4], [3, 4]])
def test_exact_where_the_loss_is_additive_in_the_layer_above(widths):
    network = make_network(widths)
    assert max(relative_biases(network, DIRECT, linear_loss)) < 1e-10
    assert relative_biases(network, DIRECT)[0] > 1e-3


@each("loss", [generic_loss, linear_loss])
def test_value_is_the_loss_of_the_path(loss):
    network = make_network([2, 3])
    psa, st = (along_paths(gradient, network, loss)[0] for gradient in (DIRECT, "st"))
    close(psa, st)


@each("gamma", [None, 0.2, 1.0])
@each("widths, n_samples", [([3], 1), ([2, 3], 1), ([2, 2], 2)])
def test_enhancement_does_not_change_the_means(widths, n_samples, gamma):
    network = make_network(widths)
    plain = expected(DIRECT, network, n_samples=n_samples)
    psa = DirectPSA(enhanced=True, gamma=gamma)
    enhanced = expected(psa, network, n_samples=n_samples)
    close(enhanced[0], exact(network, n_samples=n_samples)[0])
    close(plain[1], enhanced[1])


def test_default_gamma_is_the_mean_over_units():
    network = make_network([1, 4])
    default = by_path(DirectPSA(enhanced=True), network)
    close(default, by_path(DirectPSA(enhanced=True, gamma=0.25), network))
    plain = by_path(DIRECT, network)
    close(plain, by_path(DirectPSA(enhanced=True, gamma=0), network))
    close(plain, by_path(DirectPSA(gamma=0.25), network))


@each("n_samples", [1, 2])
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


def make_convolutions(noise="logistic"):
    """Two convolutions of three units, with batch norms of both signs, and a head."""
    generator = torch.Generator().manual_seed(0)
    options = {"noise": noise, "batch_norm": True, "generator": generator}
    layers = [BinaryConv2d((1, 1, 3), 1, 3, padding=1, **options) for _ in range(2)]
    network = StochasticBinaryNetwork(layers, RealLinear(3, 2, generator=generator))
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


@each("psa", [PSA, ChebyshevPSA])
@each("make", [make_convolutions, lambda: make_network([3, 3])])
def test_back_ends_give_the_gradient_of_direct(make, psa):
    network = make()
    direct = expected(DIRECT, network)
    found = expected(psa(tolerance=1e-12), network)
    close(direct[1], found[1], 1e-10)
    # The first layer, and nothing else, goes through a back end.
    rough = expected(ChebyshevPSA(tolerance=0.5), network)
    same = [torch.equal(a, b) for a, b in zip(direct[1], rough[1], strict=True)]
    names = [name for name, _ in network.named_parameters()]
    assert same == [not name.startswith("layers.0") for name in names]
