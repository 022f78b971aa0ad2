"""Which iterate is kept, against its definition."""

import numpy as np
import pytest
import torch

from skhash.neural.sgh._iterates import KeptIterates
from skhash.neural.sgh._module import SGHModule
from skhash.neural.sgh._start import SGHStart

WEIGHTS = np.array([1.0, 0.5, 2.0, 0.1, 0.4])


def test_a_step_belongs_to_the_point_that_it_starts_from():
    """Theorem 5: the weight of a point is the size of the step after it."""
    kept = KeptIterates("mean")
    start = SGHStart(
        weight=np.zeros((1, 1)),
        bias=np.zeros(1),
        codebook=np.zeros((1, 1)),
        offset=np.zeros(1),
        prior_logits=np.zeros(1),
        log_rho=0.0,
    )
    module = SGHModule(start, mean=np.zeros(1), scale=1.0, kept=kept)
    steps = [1.0, 0.5, 0.25]
    for size in steps:
        optimizer = torch.optim.SGD(module.parameters(), lr=size)
        module.start_step(optimizer)
        module.bias.data += size
    # The points are 0, 1 and 1.5; the last one, 1.75, has no step.
    assert float(kept.values["bias"]) == pytest.approx(
        np.average([0, 1, 1.5], weights=steps)
    )


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
