"""Likelihoods: sparse rows, one output for all; formulas are tested by autoencoders."""

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse

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


def sparse_rows(X):
    return sparse_tensor(sparse.csr_array(X)).double()


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
def test_extreme_outputs_stay_finite(likelihood, X):
    outputs = torch.full((N_ROWS, N_FEATURES), 500.0, requires_grad=True)
    outputs = torch.cat([outputs[:, :3], -outputs[:, 3:]], dim=1)
    losses = likelihood(outputs, torch.from_numpy(X).float())
    assert torch.isfinite(losses).all()
    assert torch.isfinite(torch.autograd.grad(losses.sum(), outputs)[0]).all()


# Divergences

N_BITS = 3


def test_log_mixture_of_all_codes_sums_to_one_and_survives_extremes():
    states = torch.tensor([*itertools.product([0.0, 1.0], repeat=N_BITS)]).double()
    log_odds = torch.tensor([[[800.0, -900.0, 0.0]], [[-700.0, 3.0, 1.0]]]).double()
    log_q = log_mixture(states[:, None, :], log_odds)
    assert torch.isfinite(log_q).all()
    assert log_q.logsumexp(dim=0).item() == pytest.approx(0, abs=1e-12)
