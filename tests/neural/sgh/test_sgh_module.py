"""What the loss of stochastic generative hashing adds to the free energy."""

import numpy as np
import pytest
import torch

from skhash.neural.sgh._module import SGHModule
from skhash.neural.sgh._start import SGHStart
from skhash.training._batches import Batch


@pytest.mark.parametrize("weight_penalty", [0.3, 2.0])
def test_weight_penalty_is_half_the_squared_norm_of_the_codebook(weight_penalty):
    rng = np.random.default_rng(0)
    start = SGHStart(
        weight=rng.normal(size=(5, 3)),
        bias=rng.normal(size=3),
        codebook=rng.normal(size=(3, 5)),
        offset=rng.normal(size=5),
        prior_logits=rng.normal(size=3),
        log_rho=0.4,
    )
    X = torch.from_numpy(rng.normal(size=(7, 5)))
    plain, penalized = (
        SGHModule(start, mean=np.zeros(5), scale=1.0, weight_penalty=weight).double()
        for weight in (0.0, weight_penalty)
    )
    logits = plain(X)
    expected = plain.free_energy(logits, X).mean()
    torch.testing.assert_close(plain.loss(logits, Batch.of(X)), expected)
    norm = plain.codebook.norm() ** 2
    expected = expected + weight_penalty / 2 * norm
    torch.testing.assert_close(penalized.loss(logits, Batch.of(X)), expected)
