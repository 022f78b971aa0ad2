"""Likelihoods against SciPy's distributions, and sparse rows against dense ones."""

import itertools
import math

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse, stats
from scipy.special import expit, gammaln, softmax

from skhash.losses._likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
    log_mixture,
)
from skhash.training._module import sparse_tensor

N_ROWS, N_FEATURES = 4, 6


def outputs_of(*samples):
    rng = np.random.default_rng(0)
    return torch.from_numpy(2 * rng.normal(size=(*samples, N_ROWS, N_FEATURES)))


def counts():
    """Counts; the third row is empty."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (N_ROWS, N_FEATURES)) * (
        rng.random((N_ROWS, N_FEATURES)) < 0.6
    )
    X[2] = 0
    return X.astype(float)


def weights():
    """Counts by words of unequal weight, as tf-idf makes them."""
    return counts() * np.linspace(0.3, 1.7, N_FEATURES)


def sparse_rows(X):
    return sparse_tensor(sparse.csr_array(X)).double()


def test_multinomial_is_that_of_scipy_up_to_its_coefficient():
    X, outputs = counts(), outputs_of()
    found = MultinomialLikelihood()(outputs, torch.from_numpy(X))
    n_words = X.sum(axis=1)
    log_pmf = [
        stats.multinomial(n, p).logpmf(x)
        for n, p, x in zip(n_words, softmax(outputs, axis=1), X, strict=True)
    ]
    log_coefficient = gammaln(n_words + 1) - gammaln(X + 1).sum(axis=1)
    np.testing.assert_allclose(found, log_coefficient - log_pmf, atol=1e-12)
    assert found[2] == 0


def test_bernoulli_is_that_of_scipy():
    X, outputs = counts() > 0, outputs_of()
    found = BernoulliLikelihood()(outputs, torch.from_numpy(X.astype(float)))
    expected = -stats.bernoulli(expit(outputs.numpy())).logpmf(X).sum(axis=1)
    np.testing.assert_allclose(found, expected)


@each("log_rho", [0.0, -0.7, 1.2])
def test_gaussian_is_that_of_scipy(log_rho):
    X, outputs = weights(), outputs_of()
    likelihood = GaussianLikelihood(log_rho).double()
    found = likelihood(outputs, torch.from_numpy(X))
    rho = likelihood.log_rho.exp().item()
    assert rho == pytest.approx(np.exp(log_rho), rel=1e-6)
    expected = -stats.norm(outputs.numpy(), rho).logpdf(X).sum(axis=1)
    np.testing.assert_allclose(found.detach(), expected)


LIKELIHOODS = {
    "counts": (MultinomialLikelihood(), counts()),
    "shares": (MultinomialLikelihood(), counts() / 4),
    "bernoulli": (BernoulliLikelihood(), (counts() > 0).astype(float)),
    "gaussian": (GaussianLikelihood(0.4).double(), counts()),
}
each_likelihood = pytest.mark.parametrize(
    ("likelihood", "X"), LIKELIHOODS.values(), ids=LIKELIHOODS.keys()
)


@each_likelihood
@pytest.mark.parametrize("samples", [(), (3,), (2, 3)])
def test_sparse_rows_have_the_values_and_gradients_of_dense_ones(
    likelihood, X, samples
):
    found = []
    for rows in (torch.from_numpy(X), sparse_rows(X)):
        outputs = outputs_of(*samples).requires_grad_()
        losses = likelihood(outputs, rows)
        assert losses.shape == (*samples, N_ROWS)
        assert losses.dtype == torch.float64
        weight = torch.arange(1.0, 1 + losses.numel()).reshape(losses.shape)
        found.append((losses, torch.autograd.grad((weight * losses).sum(), outputs)[0]))
    torch.testing.assert_close(*found)


@each_likelihood
@pytest.mark.parametrize("make", [torch.from_numpy, sparse_rows])
@pytest.mark.parametrize("samples", [(), (3,), (2, 3)])
def test_outputs_for_all_rows_are_those_of_each(likelihood, X, make, samples):
    one = outputs_of(*samples)[..., :1, :].requires_grad_()
    rows, found = make(X), []
    for outputs in (one, one.expand(*samples, N_ROWS, N_FEATURES)):
        losses = likelihood(outputs, rows)
        assert losses.shape == (*samples, N_ROWS)
        weight = torch.arange(1.0, 1 + losses.numel()).reshape(losses.shape)
        found.append((losses, torch.autograd.grad((weight * losses).sum(), one)[0]))
    torch.testing.assert_close(*found)


@each_likelihood
def test_mean_is_the_expected_data(likelihood, X):
    """At data equal to the mean (of one word) the outputs cannot be bettered."""
    outputs = outputs_of().requires_grad_()
    mean = likelihood.mean(outputs.detach())
    if isinstance(likelihood, MultinomialLikelihood):
        torch.testing.assert_close(mean.sum(dim=-1), torch.ones(N_ROWS).double())
    gradient = torch.autograd.grad(likelihood(outputs, mean).sum(), outputs)[0]
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@each_likelihood
def test_extreme_outputs_stay_finite(likelihood, X):
    outputs = torch.full((N_ROWS, N_FEATURES), 500.0, requires_grad=True)
    outputs = torch.cat([outputs[:, :3], -outputs[:, 3:]], dim=1)
    losses = likelihood(outputs, torch.from_numpy(X).float())
    assert torch.isfinite(losses).all()
    assert torch.isfinite(torch.autograd.grad(losses.sum(), outputs)[0]).all()


# Divergences

N_BITS = 3


@each("n_mixture", [1, 2, 5, 10])
def test_log_mixture_is_the_log_of_the_plain_mean(n_mixture):
    generator = torch.Generator().manual_seed(0)
    log_odds = torch.randn(n_mixture, 4, N_BITS, generator=generator).double()
    bits = (torch.rand(6, 4, N_BITS, generator=generator) < 0.5).double()
    found = log_mixture(bits, log_odds)
    assert found.shape == (6, 4)
    for sample, row in itertools.product(range(6), range(4)):
        mean = 0.0
        for component in range(n_mixture):
            p = 1.0
            for j in range(N_BITS):
                on = expit(log_odds[component, row, j].item())
                p *= on if bits[sample, row, j] == 1 else 1 - on
            mean += p / n_mixture
        assert found[sample, row].item() == pytest.approx(math.log(mean), abs=1e-12)


def test_log_mixture_of_all_codes_sums_to_one_and_survives_extremes():
    states = torch.tensor([*itertools.product([0.0, 1.0], repeat=N_BITS)]).double()
    log_odds = torch.tensor([[[800.0, -900.0, 0.0]], [[-700.0, 3.0, 1.0]]]).double()
    log_q = log_mixture(states[:, None, :], log_odds)
    assert torch.isfinite(log_q).all()
    assert log_q.logsumexp(dim=0).item() == pytest.approx(0, abs=1e-12)
