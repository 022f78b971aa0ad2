"""SGHEncoder: step sizes and the iterate that is the result (Theorem 5)."""

import numpy as np
import pytest
import torch
from cases import each
from neural.sgh.models import DIGITS
from skorch.callbacks import Callback

from skhash import SGHEncoder, load
from skhash.neural.sgh._module import KeptIterates

WEIGHTS = np.array([1.0, 0.5, 2.0, 0.1, 0.4])
# Large steps, so that iterates differ by more than rounding.
OPTIONS = {"n_bits": 6, "max_epochs": 3, "lr": 0.1, "batch_size": 60, "random_state": 0}


class Recorder(Callback):
    """Writes down the iterate before each step, and the size of that."""

    iterates, sizes = [], []

    def initialize(self):
        self.iterates.clear()
        self.sizes.clear()
        return self

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        if training:
            self.sizes.append(net.optimizer_.param_groups[0]["lr"])
            weight = net.module_.weight.detach().numpy()
            self.iterates.append(weight.T / np.float32(net.module_.scale))


@pytest.fixture(scope="module")
def digits():
    return DIGITS[:240]


def record(digits, **options):
    encoder = SGHEncoder(callbacks=[Recorder()], **(OPTIONS | options)).fit(digits)
    return encoder, np.array(Recorder.iterates), np.array(Recorder.sizes)


@each("lr_schedule", [None, "inverse_sqrt"])
def test_result_is_last_random_or_mean_iterate(lr_schedule, digits):
    """The training is the same; the mean is weighted by the sizes of the steps."""
    last, iterates, sizes = record(digits, lr_schedule=lr_schedule)
    assert (last.components_ != iterates[-1]).any()

    mean, same, _ = record(digits, lr_schedule=lr_schedule, averaging="mean")
    np.testing.assert_array_equal(same, iterates)
    expected = np.average(iterates, axis=0, weights=sizes)
    np.testing.assert_allclose(mean.components_, expected, rtol=1e-4, atol=1e-6)

    drawn = set()
    for seed in range(4):
        random, iterates, _ = record(
            digits, lr_schedule=lr_schedule, averaging="random", random_state=seed
        )
        which = [np.array_equal(random.components_, iterate) for iterate in iterates]
        assert sum(which) == 1
        drawn.add(which.index(True))
    assert len(drawn) > 1


@each("averaging", ["random", "mean"])
def test_stream_keeps_its_steps_and_iterates(averaging, digits):
    """Epoch by epoch is the same as at once."""
    options = OPTIONS | {"averaging": averaging, "lr_schedule": "inverse_sqrt"}
    fitted = SGHEncoder(refit_decoder=False, **options).fit(digits)
    streamed = SGHEncoder(**options)
    for _ in range(3):
        streamed.partial_fit(digits)
    for name in ("components_", "codebook_", "prior_logits_"):
        np.testing.assert_array_equal(getattr(streamed, name), getattr(fitted, name))


@pytest.mark.parametrize("averaging", ["random", "mean"])
def test_the_result_is_what_is_saved_and_gone_on_from(averaging, digits, tmp_path):
    encoder = SGHEncoder(averaging=averaging, **OPTIONS).fit(digits)
    encoder.save(tmp_path / "encoder")
    loaded = load(tmp_path / "encoder")
    np.testing.assert_array_equal(loaded.components_, encoder.components_)
    loaded.set_params(lr=1e-9).partial_fit(digits)
    np.testing.assert_allclose(
        loaded.components_, encoder.components_, rtol=1e-4, atol=1e-6
    )


def keep(averaging, seed=0):
    """Feed iterates 0, 1, 2, ... of a module of one number; return what is kept."""
    module, kept = torch.nn.Linear(1, 1, bias=False), KeptIterates(averaging, seed)
    for value, weight in enumerate(WEIGHTS):
        module.weight.data.fill_(value)
        kept.add(module, weight)
    module.weight.data.fill_(-1)  # a copy is kept
    return float(kept.values["weight"])


def test_random_iterate_has_the_probability_of_its_step():
    n_draws = 3000
    counts = np.bincount([int(keep("random", seed)) for seed in range(n_draws)])
    probability = WEIGHTS / WEIGHTS.sum()
    deviation = np.sqrt(probability * (1 - probability) / n_draws)
    assert (np.abs(counts / n_draws - probability) < 4.5 * deviation).all()
