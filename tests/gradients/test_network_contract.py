"""Gradients of whole networks: every estimator through the same call."""

import math
from unittest import mock

import pytest
import torch
from cases import each
from gradients.enumeration import all_states, close, differs, uniform_draws
from gradients.network_enumeration import (
    X,
    all_paths,
    exact,
    forcing_draws,
    generic_loss,
    make_network,
    path_losses,
)
from page_examples import page_classes
from pretend import assert_as_on_cpu
from sklearn.base import clone
from torch.nn.functional import hardtanh, linear

import skhash.gradients as gradients
from skhash.gradients import (
    ARM,
    GRADIENTS,
    NETWORK_GRADIENTS,
    PSA,
    BernoulliUnits,
    DisARM,
    ExactNetwork,
    FunctionwiseNetwork,
    GradientEstimator,
    LayerwiseGradient,
    LayerwiseNetwork,
    LocalExpectation,
    MuProp,
    Reinforce,
    ReinforceLOO,
    StraightThrough,
    _exact_network,
    resolve_gradient,
    resolve_network_gradient,
)
from skhash.gradients._network import NetworkGradient
from skhash.networks import (
    BinaryConv2d,
    BinaryLinear,
    RealLinear,
    StochasticBinaryNetwork,
)
from skhash.noise import NOISES

NAMES = [*GRADIENTS, *NETWORK_GRADIENTS]
NAMES.remove("exact")
FUNCTIONWISE = [
    Reinforce(),
    MuProp(),
    ReinforceLOO(n_samples=3),
    ARM(n_samples=2),
    DisARM(),
    LocalExpectation(),
    LocalExpectation(n_flips=1),
]
EXAMPLES = [example() for example in page_classes(GradientEstimator)]
FUNCTIONWISE += [e for e in EXAMPLES if not isinstance(e, LayerwiseGradient)]
every_name = each("name", [*NAMES, *EXAMPLES])


def make_images_network(**layer):
    """Two convolutions, a linear layer and a head, on images of 2 x 5 x 4."""
    generator = torch.Generator().manual_seed(3)
    layer["generator"] = generator
    first = BinaryConv2d((2, 5, 4), 2, 3, stride=2, padding=1, **layer)
    second = BinaryConv2d(first.output_shape, 2, 2, stride=2, **layer)
    third = BinaryLinear(second.n_outputs, 4, **layer)
    head = RealLinear(4, 2, generator=generator)
    return StochasticBinaryNetwork([first, second, third], head)


def step(network, gradient, X, loss=generic_loss, seed=0, **told):
    """Return the losses and the gradients of all parameters of one step."""
    generator = torch.Generator().manual_seed(seed)
    losses = resolve_network_gradient(gradient).network_surrogate(
        loss, network, X, generator, **told
    )
    found = torch.autograd.grad(losses.mean(), list(network.parameters()))
    return losses.detach(), found


@every_name
@each("weights", ["real", "mirror"])
@each("dtype", [torch.float32, torch.float64])
def test_every_estimator_reaches_every_parameter(name, weights, dtype):
    network = make_images_network(weights=weights, batch_norm=True).to(dtype)
    network.train(name != "exact_network")
    X = torch.randn(6, 40, generator=torch.Generator().manual_seed(0), dtype=dtype)
    draws = [step(network, name, X, seed=seed) for seed in range(3)]
    for losses, _ in draws:
        assert losses.shape == (6,) and losses.dtype == dtype
    for draws_of_one in zip(*(found for _, found in draws), strict=True):
        every = torch.stack(draws_of_one)
        assert every.isfinite().all() and (every != 0).any()


@every_name
def test_same_generator_same_step(name):
    network = make_images_network()
    X = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    state = torch.get_rng_state()
    one, same, other = (step(network, name, X, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(state, torch.get_rng_state())
    close(one[1], same[1], 0)
    if name not in ("det_st", "tanh", "exact_network"):
        assert any(differs(a, b, 0) for a, b in zip(one[1], other[1], strict=True))


@every_name
def test_labels_broadcast_over_samples(name):
    labels = torch.arange(5) % 2

    def loss(outputs):
        target = labels.expand(outputs.shape[:-1])[..., None]
        return -outputs.log_softmax(dim=-1).gather(-1, target).squeeze(-1)

    network = make_images_network()
    X = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    assert step(network, name, X, loss)[0].shape == (5,)
    if name != "exact_network":
        assert step(network, name, X, loss, n_samples=3)[0].shape == (5,)


@every_name
@each("weights", ["real", "mirror"])
def test_devices(name, weights, device):
    def gradients_of(device):
        network = make_images_network(weights=weights, batch_norm=True).to(device)
        network.train(name != "exact_network")
        X = torch.randn(6, 40, generator=torch.Generator().manual_seed(0)).to(device)
        generator = torch.Generator(device).manual_seed(0)
        losses = resolve_network_gradient(name).network_surrogate(
            generic_loss, network, X, generator
        )
        losses.mean().backward()
        assert losses.device == X.device
        return losses.detach(), *(p.grad for p in network.parameters())

    assert_as_on_cpu(gradients_of, device)


@each("n_samples", [1, 2])
@each("gradient", [Reinforce(None), Reinforce(1.5), MuProp(None), MuProp(0.5)])
def test_score_functions_are_unbiased_in_deep_networks(gradient, n_samples):
    network = make_network([2, 2] if n_samples == 2 else [2, 1, 2])
    paths = all_paths(network, n_samples)
    p = path_losses(network, paths, generic_loss)[0].detach()
    # All samples of a row are side by side.
    draws = [draw.movedim(0, 1).flatten(1) for draw in forcing_draws(paths)]
    with uniform_draws(draws):
        losses = resolve_network_gradient(gradient).network_surrogate(
            generic_loss, network, X.expand(len(p), -1), n_samples=n_samples
        )
    value, right = exact(network, n_samples=n_samples)
    close((p @ losses).detach(), value)
    found = torch.autograd.grad(p @ losses, list(network.parameters()))
    close(found, right)


@each("gradient", FUNCTIONWISE)
def test_functionwise_estimators_are_unbiased_in_deep_networks(gradient):
    """The mean of many rows is within chance of the exact gradient."""
    network = make_network([2, 2], factor=1)
    trainer = resolve_network_gradient(gradient)
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(100):
        losses = trainer.network_surrogate(
            generic_loss, network, X.expand(500, -1), generator
        )
        found = torch.autograd.grad(losses.mean(), list(network.parameters()))
        batches.append(torch.cat([g.flatten() for g in found]))
    batches = torch.stack(batches)
    right = torch.cat([g.flatten() for g in exact(network)[1]])
    deviation = (batches.mean(dim=0) - right) / (batches.std(dim=0) / 10)
    assert deviation.abs().max() < 4
    # There is enough to see a factor of 2 in every layer.
    for name in ("layers.0.bias", "layers.1.bias"):
        at = [n for n, _ in network.named_parameters()].index(name)
        sizes = [parameter.numel() for parameter in network.parameters()]
        here = slice(sum(sizes[:at]), sum(sizes[: at + 1]))
        assert (right[here] / (batches.std(dim=0)[here] / 10)).abs().max() > 8


def test_every_layer_has_a_baseline_of_its_own():
    """A baseline that has seen the loss of this step would leave nothing of it."""
    network = make_network([2, 2])
    trainer = resolve_network_gradient("reinforce")

    def constant(outputs):
        return 3 + 0 * outputs.sum(dim=-1)

    def gradients():
        losses = trainer.network_surrogate(constant, network, X.expand(4, -1))
        found = torch.autograd.grad(losses.mean(), list(network.layers.parameters()))
        return [g.abs().max() for g in found]

    assert len({id(g) for g in trainer.__dict__.get("gradients_", [])}) == 0
    assert min(gradients()) > 1e-3
    assert max(gradients()) < 1e-12
    assert len(trainer.gradients_) == 2
    assert [g.totals_.shape for g in trainer.gradients_] == [(1,), (1,)]
    assert not hasattr(clone(trainer), "gradients_")


def test_baselines_of_rows_are_told():
    network, rows = make_network([2, 2]), torch.tensor([5, 0, 3, 1])
    trainer = resolve_network_gradient(Reinforce(baseline="row"))
    trainer.network_surrogate(generic_loss, network, X.expand(4, -1), rows=rows)
    for layer in trainer.gradients_:
        assert layer.weights_.tolist() == [1, 1, 0, 1, 0, 1]


def test_means_are_an_ordinary_network():
    """Each layer with the mean that its own noise gives."""
    network = make_network([4, 3])
    network.layers[1].units = BernoulliUnits("uniform", "pm1")
    _, found = step(network, "tanh", X)
    parts, activations = [], (torch.tanh, hardtanh, torch.nn.Identity())
    values = X
    layers = [*network.layers, network.head]
    for layer, activation in zip(layers, activations, strict=True):
        parts += [layer.weight, layer.bias]
        values = activation(linear(values, layer.weight, layer.bias))
    right = torch.autograd.grad(generic_loss(values).mean(), parts)
    close(found, right)


class TestExactNetwork:
    @each("noise", ["logistic", "uniform", "triangular"])
    @each("widths", [[3], [2, 4], [3, 1, 2]])
    def test_is_the_sum_over_paths(self, widths, noise):
        network = make_network(widths, noise)
        value, right = exact(network)
        found, gradients = step(network, "exact_network", X)
        close(found, value[None])
        close(gradients, right)

    def test_wide_layers_are_refused(self, monkeypatch):
        network = make_network([13])
        with pytest.raises(ValueError, match="13 units, .* limited to 12.*PSA"):
            step(network, "exact_network", X)
        monkeypatch.setattr(_exact_network, "MAX_UNITS", 13)
        step(network, ExactNetwork(), X)

    def test_neither_norms_of_batches_nor_bounds_have_states(self):
        with pytest.raises(TypeError, match="ExactNetwork .*eval"):
            step(make_network([2], batch_norm=True), "exact_network", X)
        with pytest.raises(ValueError, match="n_samples=2.*PSA"):
            step(make_network([2]), "exact_network", X, n_samples=2)


# Distribution function and variance of each noise, apart from the library's.
LAWS = {
    "logistic": (lambda a: (1 + torch.tanh(a)) / 2, math.pi**2 / 12),
    "normal": (lambda a: (1 + torch.erf(math.sqrt(math.pi) / 2 * a)) / 2, 2 / math.pi),
    "triangular": (lambda a: 0.5 + (a - a * a.abs() / 4).clamp(-1, 1) / 2, 2 / 3),
    "uniform": (lambda a: ((1 + a) / 2).clamp(0, 1), 1 / 3),
}


def last_probabilities(gradient, network, noise, normals):
    """Return those of the last layer by the papers' formulas, with their graph.

    `normals` are the standard normal numbers of each layer but the first, shape
    (n_samples, 1, n_units); "adf" has no use for them.
    """
    cdf, noise_variance = LAWS[noise]
    first, *layers = network.layers
    p = cdf(X @ first.weight.T + first.bias)
    for layer, normal in zip(layers, normals, strict=True):
        mean = (2 * p - 1) @ layer.weight.T + layer.bias
        variance = (1 - (2 * p - 1) ** 2) @ (layer.weight**2).T
        if gradient == "adf":
            ratio = mean / torch.sqrt((variance + noise_variance) * 3)
            p = 1 / (1 + torch.exp(-math.pi * ratio))
        else:
            p = cdf(mean + torch.sqrt(variance) * normal)
    return p.expand(len(normals[0]), -1, -1)


def drawn_from(p, on):
    """Return uniform numbers just below p where units are on, and else just above."""
    return torch.where(on, p * (1 - 1e-6), p * (1 + 1e-6)).detach()


def over_last_layer(gradient, network, noise, n_samples=1):
    """Return mean value and gradients over the last layer's draws, twice.

    First an estimator's, then those of the enumerated objective. Draws are so near the
    probabilities of `last_probabilities` that other ones lead to other values.
    """
    widths = [layer.n_outputs for layer in network.layers]
    rng = torch.Generator().manual_seed(4)
    normals = [
        torch.randn(n_samples, 1, n, generator=rng, dtype=torch.float64)
        for n in widths[1:]
    ]
    p = last_probabilities(gradient, network, noise, normals)
    on = all_states(n_samples * widths[-1]).unflatten(1, (n_samples, -1)).movedim(1, 0)
    weights = torch.where(on, p, 1 - p).prod(dim=-1).prod(dim=0)
    likelihoods = torch.exp(-generic_loss(network.realize()[-1](2 * on.double() - 1)))
    left = [normal.expand(-1, len(weights), -1) for normal in normals]

    def randn(shape, **kwargs):
        assert shape == left[0].shape
        return left.pop(0)

    with mock.patch.object(torch, "randn", randn), uniform_draws([drawn_from(p, on)]):
        losses = resolve_network_gradient(gradient).network_surrogate(
            generic_loss, network, X.expand(len(weights), -1), n_samples=n_samples
        )
    assert len(left) == (0 if gradient == "local_reparam" else len(normals))
    values = weights.detach() @ losses, -(weights @ likelihoods.mean(dim=0).log())
    parameters = list(network.parameters())
    return [(v.detach(), torch.autograd.grad(v, parameters)) for v in values]


class TestPropagation:
    @each("gradient", ["adf", "local_reparam"])
    @each("noise", LAWS)
    @each("widths, n_samples", [([3, 2], 1), ([2, 3, 2], 1), ([2, 2], 2)])
    def test_probabilities_of_the_formula(self, gradient, noise, widths, n_samples):
        """In values and gradients; the normal noise of a layer is drawn once."""
        network = make_network(widths, noise, factor=0.8)
        found, right = over_last_layer(gradient, network, noise, n_samples)
        # The library keeps the variance of a logit 1e-10 off 0.
        close(found, right, 1e-12 if gradient == "adf" else 1e-8)

    def test_local_reparam_is_finite_where_units_are_certain(self):
        network = make_network([3, 2])
        with torch.no_grad():
            network.layers[0].bias.fill_(1e4)
        _, found = step(network, "local_reparam", X)
        assert all(gradient.isfinite().all() for gradient in found)


def test_every_network_gradient_has_a_name_and_every_noise_a_law():
    families = {
        value
        for value in vars(gradients).values()
        if isinstance(value, type) and issubclass(value, NetworkGradient)
    }
    adapters = {NetworkGradient, LayerwiseNetwork, FunctionwiseNetwork}
    assert families - adapters == set(NETWORK_GRADIENTS.values())
    assert LAWS.keys() == NOISES.keys(), "LAWS needs its distribution and variance"


class TestReach:
    def test_a_layer_is_refused_what_is_for_networks(self):
        for name, family in NETWORK_GRADIENTS.items():
            for gradient in (name, family()):
                with pytest.raises(TypeError, match="network.*`surrogate`.*'zgr'") as e:
                    resolve_gradient(gradient)
                assert family.__name__ in str(e.value)

    def test_a_network_is_refused_what_is_for_layers(self):
        with pytest.raises(TypeError, match=r"Exact\(\).*single.*'exact_network'"):
            resolve_network_gradient("exact")
        with pytest.raises(TypeError, match="StraightThrough.*curvature.*ZGR"):
            resolve_network_gradient(StraightThrough(debias="quadratic"))

    @each("gradient", ["hinton", None, PSA, 3, ["st"]])
    def test_unknown_names_are_refused_with_what_there_is(self, gradient):
        with pytest.raises(ValueError, match="gradient=.* adf, arm, .*, zgr, nor"):
            resolve_network_gradient(gradient)

    @each("gradient", ["psa", "adf", "local_reparam"])
    def test_pooling_is_refused_above_the_first_layer(self, gradient):
        first = BinaryConv2d((1, 6, 6), 2, 3, padding=1, pool=2)
        second = BinaryConv2d(first.output_shape, 2, 3, padding=1, pool=3)
        X = torch.randn(4, 36)
        head = RealLinear(second.n_outputs, 2)
        network = StochasticBinaryNetwork([first, second], head)
        with pytest.raises(TypeError, match="pool=3 .*strides.*'st'"):
            step(network, gradient, X)
        step(network, "st", X)
        head = RealLinear(first.n_outputs, 2)
        step(StochasticBinaryNetwork([first], head), gradient, X)
