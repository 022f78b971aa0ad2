"""Which iterate is kept, against its definition."""

import numpy as np
import pytest
import torch

from skhash.neural.sgh._iterates import KeptIterates

WEIGHTS = np.array([1.0, 0.5, 2.0, 0.1, 0.4])


def keep(averaging, seed=0):
    """Feed iterates 0, 1, 2, ... of a module of one number; return what is kept."""
    module, kept = torch.nn.Linear(1, 1, bias=False), KeptIterates(averaging, seed)
    for value, weight in enumerate(WEIGHTS):
        module.weight.data.fill_(value)
        kept.add(module, weight)
    module.weight.data.fill_(-1)  # what is kept is a copy
    return float(kept.values["weight"])


def test_mean_is_weighted_by_the_steps():
    expected = np.average(np.arange(len(WEIGHTS)), weights=WEIGHTS)
    assert keep("mean") == pytest.approx(expected, rel=1e-6)


def test_random_iterate_has_the_probability_of_its_step():
    n_draws = 3000
    counts = np.bincount([int(keep("random", seed)) for seed in range(n_draws)])
    probability = WEIGHTS / WEIGHTS.sum()
    deviation = np.sqrt(probability * (1 - probability) / n_draws)
    assert (np.abs(counts / n_draws - probability) < 4.5 * deviation).all()
