"""Likelihoods against SciPy's distributions, and sparse rows against dense ones."""

import numpy as np
import pytest
import torch
from scipy import sparse, stats
from scipy.special import expit, gammaln, log_softmax, softmax

from skhash.losses import _likelihoods
from skhash.losses._likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    MultinomialLikelihood,
)
from skhash.training._batches import sparse_tensor

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


@pytest.mark.parametrize("target", ["values", "presence"])
@pytest.mark.parametrize("make", [torch.from_numpy, sparse_rows])
def test_multinomial_counts_values_or_each_word_once(target, make):
    X, outputs = weights().astype(np.float32).astype(float), outputs_of()
    found = MultinomialLikelihood(target)(outputs, make(X))
    for i in range(N_ROWS):
        expected = 0.0
        for w in range(N_FEATURES):
            if X[i, w] > 0:
                times = X[i, w] if target == "values" else 1
                expected -= times * log_softmax(outputs[i].numpy())[w]
        assert found[i].item() == pytest.approx(expected, abs=1e-12)


def test_bernoulli_is_that_of_scipy():
    X, outputs = counts() > 0, outputs_of()
    found = BernoulliLikelihood()(outputs, torch.from_numpy(X.astype(float)))
    expected = -stats.bernoulli(expit(outputs.numpy())).logpmf(X).sum(axis=1)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("log_rho", [0.0, -0.7, 1.2])
def test_gaussian_is_that_of_scipy(log_rho):
    X, outputs = weights(), outputs_of()
    likelihood = GaussianLikelihood(log_rho).double()
    found = likelihood(outputs, torch.from_numpy(X))
    rho = likelihood.log_rho.exp().item()
    assert rho == pytest.approx(np.exp(log_rho), rel=1e-6)
    expected = -stats.norm(outputs.numpy(), rho).logpdf(X).sum(axis=1)
    np.testing.assert_allclose(found.detach(), expected)


def test_best_rho_is_the_root_mean_squared_error():
    X, outputs = torch.from_numpy(weights()), outputs_of()
    rms = (X - outputs).square().mean().sqrt()
    likelihood = GaussianLikelihood(rms.log()).double()
    likelihood.log_rho.data.fill_(rms.log())
    likelihood(outputs, X).mean().backward()
    assert abs(likelihood.log_rho.grad.item()) < 1e-12


LIKELIHOODS = {
    "counts": (MultinomialLikelihood(), counts()),
    "words": (MultinomialLikelihood("presence"), counts()),
    "bernoulli": (BernoulliLikelihood(), (counts() > 0).astype(float)),
    "gaussian": (GaussianLikelihood(0.4).double(), counts()),
}
each_likelihood = pytest.mark.parametrize(
    ("likelihood", "X"), LIKELIHOODS.values(), ids=LIKELIHOODS.keys()
)


def test_every_likelihood_is_tested():
    tested = {type(likelihood).__name__ for likelihood, _ in LIKELIHOODS.values()}
    defined = {name for name in vars(_likelihoods) if name.endswith("Likelihood")}
    assert defined == tested, "add it to LIKELIHOODS"


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
    for value, other in zip(*found, strict=True):
        torch.testing.assert_close(other, value)


@each_likelihood
@pytest.mark.parametrize("make", [torch.from_numpy, sparse_rows])
def test_samples_are_taken_one_by_one(likelihood, X, make):
    outputs, rows = outputs_of(2, 3), make(X)
    together = likelihood(outputs, rows)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(together[i, j], likelihood(outputs[i, j], rows))


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
    for value, other in zip(*found, strict=True):
        torch.testing.assert_close(value, other)


@each_likelihood
def test_gradient_is_that_of_finite_differences(likelihood, X):
    rows = torch.from_numpy(X)
    outputs = outputs_of().requires_grad_()
    assert torch.autograd.gradcheck(lambda o: likelihood(o, rows), outputs)


@each_likelihood
def test_mean_is_the_expected_data(likelihood, X):
    """At data equal to the mean (of one word) the outputs cannot be bettered."""
    outputs = outputs_of().requires_grad_()
    mean = likelihood.mean(outputs.detach())
    if isinstance(likelihood, MultinomialLikelihood):
        likelihood = MultinomialLikelihood()  # whole words at most
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


def test_adding_a_constant_to_all_words_changes_nothing():
    rows = torch.from_numpy(weights())
    likelihood = MultinomialLikelihood()
    torch.testing.assert_close(
        likelihood(outputs_of() + 7, rows), likelihood(outputs_of(), rows)
    )


def test_stored_zeros_are_no_words():
    X = sparse.csr_array(counts())
    explicit = X.copy()
    explicit.data[:3] = 0
    likelihood = MultinomialLikelihood("presence")
    found = likelihood(outputs_of(), sparse_tensor(explicit).double())
    expected = likelihood(outputs_of(), torch.from_numpy(explicit.toarray()))
    torch.testing.assert_close(found, expected)


@each_likelihood
def test_quadratic_is_the_one_that_says_so(likelihood, X):
    """Its second differences are the same everywhere."""
    rows, step = torch.from_numpy(X), torch.linspace(-1, 1, N_FEATURES).double()
    curvatures = []
    for start in (outputs_of(), 3 * outputs_of() + 1):
        low, middle, high = (likelihood(start + k * step, rows) for k in (-1, 0, 1))
        curvatures.append(low - 2 * middle + high)
    assert likelihood.is_quadratic == torch.allclose(*curvatures)
