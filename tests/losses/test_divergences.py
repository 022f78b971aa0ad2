"""Divergences of bits from a prior, against plain sums."""

import itertools
import math

import pytest
import torch
from scipy.special import expit
from torch.distributions import Bernoulli

from skhash.losses._divergences import log_mixture, log_prior

N_BITS = 3
STATES = torch.tensor(
    list(itertools.product([0.0, 1.0], repeat=N_BITS)), dtype=torch.float64
)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("n_mixture", [1, 2, 5, 10])
def test_log_mixture_is_the_log_of_the_plain_mean(n_mixture):
    log_odds = torch.randn(
        n_mixture, 4, N_BITS, generator=seeded(0), dtype=torch.float64
    )
    bits = (torch.rand(6, 4, N_BITS, generator=seeded(1)) < 0.5).double()
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
    log_odds = torch.tensor([[[800.0, -900.0, 0.0]], [[-700.0, 3.0, 1.0]]]).double()
    log_q = log_mixture(STATES[:, None, :], log_odds)
    assert torch.isfinite(log_q).all()
    assert log_q.logsumexp(dim=0).item() == pytest.approx(0, abs=1e-12)


def test_straight_through_sees_the_prior_as_it_is():
    """log p(s) is linear in a bit, so its derivative is the difference: the logit."""
    prior_logit = torch.tensor(-1.2).double()
    bits = STATES.clone().requires_grad_()
    found = log_prior(bits, prior_logit)
    expected = Bernoulli(logits=prior_logit).log_prob(STATES).sum(-1)
    torch.testing.assert_close(found.detach(), expected)
    slope = torch.autograd.grad(found.sum(), bits)[0]
    torch.testing.assert_close(slope, torch.full_like(slope, -1.2))
