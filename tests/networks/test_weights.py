"""Steps of binary weights against closed forms, with torch's own optimizers."""

import pytest
import torch
from cases import each
from scipy.optimize import brentq
from scipy.special import expit, logit

from skhash.classification._architectures import make_network
from skhash.classification._module import ClassifierModule
from skhash.gradients import resolve_network_gradient
from skhash.networks import BayesBiNNWeights, MirrorWeights
from skhash.networks._weights import ProjectedWeights, resolve_weights
from skhash.noise import Logistic
from skhash.training._module import Batch

LR = 0.3


def stepped(weights, optimizer=torch.optim.SGD):
    """Return parameters of a layer before and after a step, and dE/dtheta of it."""
    generator = torch.Generator().manual_seed(0)
    options = {"noise": "logistic", "batch_norm": True, "generator": generator}
    network = make_network([], (3,), [5, 4], 3, weights=weights, **options).double()
    module = ClassifierModule(network, resolve_network_gradient("st"))
    module.generator = torch.Generator().manual_seed(1)
    X = torch.randn(20, 3, dtype=torch.float64, generator=generator)
    batch = Batch.of(X, labels=torch.arange(20)[:, None] % 3)
    layer = network.layers[1]
    weights, drawn = layer.weights, []
    draw = weights.draw

    def watched(parameter, generator):
        drawn.append(draw(parameter, generator))
        drawn[-1].retain_grad()
        return drawn[-1]

    weights.draw = watched
    steps = optimizer(module.parameters(), lr=LR)
    before = layer.weight.detach().clone()
    module.loss(X, batch).backward()
    # The chance of +1 moves the mean weight twice as fast.
    slope = 2 * drawn[0].grad
    steps.step()
    module.end_step(steps)
    return before.numpy(), layer.weight.detach().numpy(), slope.numpy()


def test_mirror_is_a_step_in_relative_entropy():
    """``g theta' + KL(theta' || theta) / (2 lr)`` is least: sigmoid(2 eta) is F."""
    before, after, g = stepped("mirror")
    theta = expit(2 * before)
    shrunk = theta * torch.tensor(-2 * LR * g).exp().numpy()
    expected = shrunk / (shrunk + 1 - theta)
    assert abs(expit(2 * after) - expected).max() < 1e-12
    assert abs(expected - theta).max() > 1e-3


def test_pgd_is_a_projected_step():
    """A step of lr in eta is one of lr / 4 in theta."""
    before, after, g = stepped("pgd")
    theta = (before + 1) / 2
    expected = (theta - LR / 4 * g).clip(0, 1)
    assert abs((after + 1) / 2 - expected).max() < 1e-12
    assert abs(expected - theta).max() > 1e-4


def test_projection_keeps_parameters_in_the_support():
    weights = ProjectedWeights()
    parameter = torch.nn.Parameter(torch.tensor([-3.0, 0.5, 1.5]))
    weights.end_step(parameter, 0.1)
    assert parameter.tolist() == [-1.0, 0.5, 1.0]


@each("divergence_weight", [0.1, 2.0])
def test_the_prior_makes_the_composite_step(divergence_weight):
    """Each theta' solves the composite problem, here by search for its stationarity.

    That is ``g + lambda d/dtheta KL(theta' || 1/2) + (eta' - eta) / lr = 0``.
    """
    before, after, g = stepped(MirrorWeights(divergence_weight))
    for eta, found, slope in zip(before.flat, after.flat, g.flat, strict=True):
        theta = brentq(
            lambda theta, eta=eta, slope=slope: (
                slope + divergence_weight * logit(theta) + (logit(theta) / 2 - eta) / LR
            ),
            1e-12,
            1 - 1e-12,
            xtol=1e-14,
        )
        assert expit(2 * found) == pytest.approx(theta, abs=1e-9)


def test_without_a_gradient_the_prior_shrinks():
    weights = MirrorWeights(prior_strength=1.0)
    weights.start_training(n_rows=2)
    parameter = torch.nn.Parameter(torch.tensor([-3.0, 0.5], dtype=torch.float64))
    weights.end_step(parameter, 0.2)
    expected = torch.tensor([-3.0, 0.5], dtype=torch.float64) / (1 + 2 * 0.2 * 0.5)
    torch.testing.assert_close(parameter.detach(), expected)


def test_the_prior_after_adam_is_decoupled_decay():
    """The same step of Adam, shrunk; a decay in the gradient would be rescaled."""
    _, plain, _ = stepped(MirrorWeights(), torch.optim.Adam)
    _, decayed, _ = stepped(MirrorWeights(0.7), torch.optim.Adam)
    assert abs(decayed - plain / (1 + 2 * LR * 0.7)).max() < 1e-12


@each("name", ["mirror", "pgd"])
def test_weights_are_drawn_by_their_law(name):
    weights = resolve_weights(name)
    parameter = torch.linspace(-0.9, 0.9, 7)
    generator = torch.Generator().manual_seed(0)
    n_draws = 20_000
    drawn = weights.draw(parameter.expand(n_draws, -1), generator)
    share = (drawn > 0).double().mean(dim=0)
    theta = torch.sigmoid(2 * parameter) if name == "mirror" else (parameter + 1) / 2
    assert (share - theta).abs().max() < 5 * 0.5 / n_draws**0.5
    signs = weights.likeliest(parameter)
    # A parameter of 0 is at neither sign; the middle one is that.
    assert signs[4:].eq(1).all() and signs[:3].eq(-1).all()


def bayes_step(eta, n_rows, temperature, target, lr=0.1, steps=1):
    """Return parameters after steps on ``sum (w - target)^2 / 2``."""
    weights = BayesBiNNWeights(temperature)
    weights.start_training(n_rows)
    parameter = torch.nn.Parameter(eta.clone())
    optimizer = torch.optim.SGD([parameter], lr, weight_decay=weights.weight_decay)
    generator = torch.Generator().manual_seed(0)
    signs = []
    for _ in range(steps):
        optimizer.zero_grad()
        w = weights.draw(parameter, generator)
        (w - target).square().sum().div(2).backward()
        optimizer.step()
        signs.append(parameter.detach().sign())
    return parameter.detach(), torch.stack(signs)


def test_bayesbinn_makes_its_step():
    eta = torch.tensor([0.3, -0.8, 1.2], dtype=torch.float64)
    target = torch.tensor([1.0, 0.5, -0.7], dtype=torch.float64)
    after, _ = bayes_step(eta, 50, 0.7, target)
    noise = Logistic().sample(
        (3,), torch.Generator().manual_seed(0), dtype=torch.float64
    )
    w = torch.tanh((eta - noise) / 0.7)
    s = 50 * (1 - w**2 + 1e-10) / (0.7 * (1 - eta.tanh() ** 2 + 1e-10))
    torch.testing.assert_close(after, 0.9 * eta - 0.1 * s * (w - target))
