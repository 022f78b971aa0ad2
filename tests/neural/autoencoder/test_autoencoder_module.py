"""The stochastic autoencoder against enumeration of all codes and quadrature over r."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse
from torch.distributions import Bernoulli, Normal

from skhash.gradients import BernoulliUnits, Exact, StraightThrough
from skhash.losses._likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
)
from skhash.networks._mlp import MLP
from skhash.neural import CorrelatedPosterior
from skhash.neural.autoencoder._module import StochasticAutoencoder, scale_rows
from skhash.neural.autoencoder._parts import Posterior
from skhash.noise import Logistic, Uniform
from skhash.numerics._perceptron import scaled_rows
from skhash.training import LinearSchedule
from skhash.training._module import Batch, sparse_tensor

USUAL = BernoulliUnits(Logistic(scale=2))  # P(on) = sigmoid(a)
N_BITS, N_FEATURES = 3, 5
STATES = torch.tensor(
    list(itertools.product([0.0, 1.0], repeat=N_BITS)), dtype=torch.float64
)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def make_module(posterior=None, likelihood=None, decoder_hidden=(4,), **options):
    """A float64 module of random weights, all large enough to matter."""
    generator = seeded(3)
    posterior = posterior or Posterior()
    heads = posterior.n_heads(N_BITS)
    options = {"gradients": [Exact()], "units": USUAL} | options
    module = StochasticAutoencoder(
        MLP([N_FEATURES, 4, heads], generator),
        MLP([N_BITS, *decoder_hidden, N_FEATURES], generator),
        likelihood or MultinomialLikelihood(),
        posterior,
        **options,
    ).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2.0)
    module.generator = seeded(0)
    return module


def counts():
    return torch.tensor(
        [[2, 0, 1, 0, 3], [0, 1, 0, 0, 0], [1, 1, 0, 4, 0]], dtype=torch.float64
    )


def gradients(loss, module):
    found = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True)
    return torch.cat([gradient.flatten() for gradient in found])


# The independent posterior

MU = torch.tensor([0.4, -0.3, 0.8], dtype=torch.float64)
LOG_LIKELIHOOD = torch.cos(1.3 * torch.arange(8, dtype=torch.float64)) - 1
# log p(x, s) of each code, the prior one half included.
LOG_JOINT = (LOG_LIKELIHOOD - N_BITS * math.log(2)).numpy()


def reconstruct(bits):
    index = bits @ torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)
    return -LOG_LIKELIHOOD[index.long()]


@each("noise", [Logistic(scale=2), Uniform(scale=1.5)])
def test_bounds_of_independent_bits_are_the_enumerated_one(noise):
    """In training without chance, and as the mean of samples; with any noise."""
    n = 20_000
    module = make_module(kl_weight=1.0, units=BernoulliUnits(noise))
    p = noise.cdf(MU).numpy()
    q = np.where(STATES.numpy() == 1, p, 1 - p).prod(axis=1)
    bound = q @ (LOG_JOINT - np.log(q))
    loss = module.losses(MU[None], reconstruct)
    assert -loss.item() == pytest.approx(bound, rel=1e-9)
    samples = module.sample_bound(MU.expand(n, -1), reconstruct)
    error = samples.std().item() / n**0.5
    assert abs(samples.mean().item() - bound) < 4 * error


# Gradients of the loss in every parameter

LIKELIHOODS = {
    "multinomial": MultinomialLikelihood,
    "bernoulli": BernoulliLikelihood,
    "gaussian": lambda: GaussianLikelihood(log_rho=-0.3),
}


def log_likelihood(module, bits, x):
    """log p(x|s) of all codes and rows, by the book: shape (n_rows, n_codes)."""
    outputs = module.decoder(bits)
    if isinstance(module.likelihood, MultinomialLikelihood):
        return x @ outputs.log_softmax(dim=-1).T
    if isinstance(module.likelihood, BernoulliLikelihood):
        x = x[:, None, :]
        return (x * outputs.sigmoid().log() + (1 - x) * (-outputs).sigmoid().log()).sum(
            dim=-1
        )
    normal = Normal(outputs, module.likelihood.log_rho.exp())
    return normal.log_prob(x[:, None, :]).sum(dim=-1)


def enumerated_loss(module, x, noise):
    """The loss of all rows from every code, with what r draws taken as given."""
    heads = module(x)
    log_p = log_likelihood(module, STATES, x)
    if not noise:
        log_q = Bernoulli(logits=heads[:, None]).log_prob(STATES).sum(dim=-1)
        log_mean = log_q
    else:
        mu, std, factor = module.posterior.parts(heads)
        eps, zeta = noise
        r = mu + std * eps + (factor * zeta[:, :, None, :]).sum(dim=-1)
        components = Bernoulli(logits=r[:, :, None]).log_prob(STATES).sum(dim=-1)
        log_q, log_mean = components[0], components.exp().mean(dim=0).log()
    divergence = log_mean + N_BITS * math.log(2)
    loss = (log_q.exp() * (module.kl_weight * divergence - log_p)).sum(dim=1)
    return loss.mean()


class FixedNormals:
    """Standard normal draws that every repetition of the rows shares, in order."""

    def __init__(self, n_rows):
        self.n_rows, self.generator, self.drawn = n_rows, seeded(9), []

    def __call__(self, tensor, generator):
        n_draws, n, width = tensor.shape
        if len(self.drawn) < 2:
            values = torch.randn(
                (n_draws, self.n_rows, width), generator=self.generator
            ).double()
            self.drawn.append(values)
        values = next(v for v in self.drawn if v.shape[2] == width)
        return values.repeat(1, n // self.n_rows, 1)


@pytest.fixture
def fixed_normals(monkeypatch):
    normals = FixedNormals(len(counts()))
    monkeypatch.setattr(
        torch.Tensor, "normal_", lambda tensor, generator: normals(tensor, generator)
    )
    return normals


def data_for(name):
    x = counts()
    return {"multinomial": x, "bernoulli": (x > 0).double(), "gaussian": x - 1}[name]


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize(
    "posterior",
    [
        Posterior(),
        CorrelatedPosterior(2, n_mixture=1, scale=0.8),
        CorrelatedPosterior(2, n_mixture=4, scale=0.8),
    ],
    ids=str,
)
def test_exact_gradient_given_r_is_the_enumerated_one(name, posterior, fixed_normals):
    module = make_module(posterior, LIKELIHOODS[name](), kl_weight=0.7)
    x = data_for(name)
    loss = module.loss(module(x), Batch.of(x))
    expected = enumerated_loss(module, x, fixed_normals.drawn)
    torch.testing.assert_close(loss, expected)
    gradient = gradients(expected, module)
    assert (gradient != 0).float().mean() > 0.2  # not all of the ReLUs are dead
    torch.testing.assert_close(gradients(loss, module), gradient)


def expected_gradient(module, x):
    """The mean of a one-sample estimator: every code drawn, with its probability."""
    p = torch.sigmoid(module(x)).detach()
    n_codes, n_rows = len(STATES), len(x)
    uniform = torch.where(STATES[:, None] == 1, p / 2, (1 + p) / 2).flatten(0, 1)
    q = torch.where(STATES[:, None] == 1, p, 1 - p).prod(dim=-1).flatten()
    x = x.repeat(n_codes, 1)
    with mock.patch.object(torch, "rand", lambda shape, **options: uniform):
        losses = module.losses(module(x), module.reconstruction(x))
    return gradients(q @ losses / n_rows, module)


def test_quadratic_correction_makes_straight_through_exact():
    likelihood = GaussianLikelihood(log_rho=-0.3)
    module = make_module(None, likelihood, decoder_hidden=(), kl_weight=0.7)
    x = data_for("gaussian")
    exact = gradients(module.loss(module(x), Batch.of(x)), module)
    module.gradient = StraightThrough(debias="quadratic")
    torch.testing.assert_close(expected_gradient(module, x), exact)
    module.gradient = StraightThrough()
    assert (expected_gradient(module, x) - exact).abs().max() > 0.01


# Schedules, and what the encoder sees


def test_weights_follow_the_steps_of_training_only():
    x, seen = counts(), []

    def loss(module):
        return module.loss(module(x), Batch.of(x)).item()

    none, full = (loss(make_module(kl_weight=weight)) for weight in (0.0, 1.0))
    module = make_module(kl_weight=LinearSchedule(0.0, 0.6, n_steps=3))
    for training in (True, True, False, False, True, True, True):
        module.train(training)
        seen.append((loss(module) - none) / (full - none))
        if training:
            module.end_step(None)
    np.testing.assert_allclose(seen, [0, 0.2, 0.4, 0.4, 0.4, 0.6, 0.6], atol=1e-12)
    assert module.n_steps == 5


def sparse_rows(x):
    return sparse_tensor(sparse.csr_array(np.asarray(x))).double()


@each("kind", ["values", "unit", "frequency", "presence"])
def test_rows_are_scaled_alike_dense_and_sparse(kind):
    x = torch.cat([counts(), torch.zeros(1, N_FEATURES)]).float()
    x *= torch.logspace(-35, 35, len(x))[:, None]
    found, wide = scale_rows(x, kind), x.double().numpy()
    shares = wide / np.maximum(wide.sum(axis=1, keepdims=True), 1e-300)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    units = wide / np.maximum(lengths, 1e-300)
    scaled = {"frequency": shares, "unit": units, "presence": wide > 0}
    expected = scaled.get(kind, wide)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(scaled_rows(x.numpy(), kind), expected, rtol=1e-6)
    from_sparse = scale_rows(sparse_tensor(sparse.csr_array(x.numpy())), kind)
    assert from_sparse.layout == torch.sparse_csr
    np.testing.assert_allclose(from_sparse.to_dense(), expected, rtol=1e-6)


def test_sparse_rows_give_the_same_loss_and_gradient():
    x = torch.cat([counts(), torch.zeros(1, N_FEATURES)])
    found = []
    for rows in (x, sparse_rows(x)):
        module = make_module(
            CorrelatedPosterior(2, n_mixture=3, scale=0.8),
            kl_weight=0.7,
            encoder_input="frequency",
        )
        loss = module.loss(module(rows), Batch.of(rows))
        found.append(torch.cat([loss[None], gradients(loss, module)]))
    torch.testing.assert_close(*found)
