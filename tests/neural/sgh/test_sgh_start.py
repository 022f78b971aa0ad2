"""SGHEncoder: starts in closed form, iterates (Theorem 5), and the refitted decoder."""

import numpy as np
import pytest
import torch
from cases import each
from neural.sgh.models import DIGITS
from skorch.callbacks import Callback

from skhash import ITQHash, PCAHash, SGHEncoder, load
from skhash.codes import CODINGS
from skhash.metrics import neighbor_recall_score, true_neighbors
from skhash.neural.sgh._module import KeptIterates, SGHModule
from skhash.neural.sgh._start import closed_form_decoder, sgh_start
from skhash.numerics._projection import mean_and_scale
from skhash.training._module import Batch


@each("coding", ["01", "pm1"])
def test_start_is_the_least_squares_codebook(coding):
    """No other codebook, mean or spread has a lower free energy at the first logits."""
    X = DIGITS.astype(np.float64)
    mean, scale = mean_and_scale(X)
    directions = np.random.RandomState(0).randn(6, X.shape[1])
    low, step = CODINGS[coding]
    start = sgh_start(X, mean, scale, directions, coding, "cpu")
    module = SGHModule(start, mean=mean, scale=scale, coding=coding).double()
    standard = torch.from_numpy((X - mean) / scale)
    np.testing.assert_allclose(standard.square().mean(), 1.0)
    module.free_energy(module(standard), standard).mean().backward()
    # Zero gradient up to the ridge and to float32 storage of the start.
    assert module.offset.grad.abs().max() < 1e-3
    assert module.codebook.grad.abs().max() < 1e-2
    assert abs(module.log_rho.grad) < 1e-2 * X.shape[1]
    assert module.prior_logits.grad.abs().max() < 1e-3


def test_codings_decode_rare_bits_alike():
    """The ridge counts the same in both: codes of -1 and +1 are twice as far apart."""
    X = DIGITS[:, 2:6].astype(np.float64)
    mean, scale = mean_and_scale(X)
    weight, bias = np.eye(4)[:, :3] * 0.1, np.full(3, -9.0)
    ours, theirs = (
        closed_form_decoder(X, mean, scale, weight, bias, coding, "cpu")
        for coding in ("01", "pm1")
    )
    np.testing.assert_allclose(theirs["codebook"], ours["codebook"] / 2, rtol=1e-4)


def test_auto_start_takes_the_better_of_itq_and_pca():
    """With steps too small to move, "auto" has the codes of one of its candidates."""
    still = {"n_bits": 16, "max_epochs": 1, "lr": 1e-9, "random_state": 0}
    codes = {
        init: SGHEncoder(init=init, **still).fit_transform(DIGITS)
        for init in ("auto", "itq", "pca")
    }
    truth = true_neighbors(DIGITS, None, 10)
    recalls = {
        init: neighbor_recall_score(
            bits, bits, truth, n_retrieved=10, exclude_self=True
        )
        for init, bits in codes.items()
    }
    assert recalls["itq"] != recalls["pca"]
    assert recalls["auto"] == max(recalls.values())


def test_starts_are_the_baselines():
    """Before training, "pca" and "itq" encode as PCAHash and ITQHash do."""
    still = {"n_bits": 6, "max_epochs": 1, "lr": 1e-9}
    pca = SGHEncoder(init="pca", **still).fit_transform(DIGITS)
    np.testing.assert_array_equal(pca, PCAHash(n_bits=6).fit_transform(DIGITS))
    itq = SGHEncoder(init="itq", **still).fit(DIGITS)
    # Rotations are drawn apart; both span the same axes, with near-orthonormal rows.
    axes = ITQHash(n_bits=6, random_state=0).fit(DIGITS).components_
    span = axes.T @ axes
    np.testing.assert_allclose(
        itq.components_ @ span,
        itq.components_,
        atol=1e-4 * np.abs(itq.components_).max(),
    )


@each("coding", ["01", "pm1"])
@each("averaging", ["last", "mean"])
def test_refitted_decoder_is_the_best_for_its_codes(coding, averaging):
    """The free energy has no slope in the decoder; the encoder is as it was."""
    options = {"n_bits": 8, "coding": coding, "averaging": averaging}
    options |= {"weight_penalty": 0.1, "max_epochs": 2, "random_state": 0}
    plain = SGHEncoder(refit_decoder=False, **options).fit(DIGITS)
    refitted = SGHEncoder(**options).fit(DIGITS)
    np.testing.assert_array_equal(plain.components_, refitted.components_)
    standard = torch.from_numpy((DIGITS - refitted.mean_) / refitted.scale_)
    slopes = []
    for encoder in (plain, refitted):
        module = encoder._restored().double()
        loss = module.loss(module(standard), Batch.of(standard))
        decoder = [module.codebook, module.offset, module.log_rho, module.prior_logits]
        gradients = torch.autograd.grad(loss, decoder)
        slopes.append([float(gradient.norm()) for gradient in gradients])
    # Up to the ridge, float32, and the spread that the penalty was weighed with.
    assert (np.array(slopes[1]) < 0.2 * np.array(slopes[0])).all()


def test_start_is_sought_on_a_sample_of_many_rows(monkeypatch):
    """So that its cost stops growing."""
    X = DIGITS * np.where(np.arange(64) == 20, 10, 1)  # one axis that none misses
    still = {"n_bits": 6, "init": "pca", "max_epochs": 1, "lr": 1e-9, "random_state": 0}
    all_rows = SGHEncoder(**still).fit(X).components_
    monkeypatch.setattr("skhash.numerics._projection.START_ROWS", 300)
    some_rows = SGHEncoder(**still).fit(X).components_
    assert not np.allclose(some_rows, all_rows, rtol=1e-2)
    cosines = [axis[20] / np.linalg.norm(axis) for axis in (some_rows[0], all_rows[0])]
    np.testing.assert_allclose(cosines, 1, atol=0.01)


ROWS = DIGITS[:240]
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


def record(**options):
    encoder = SGHEncoder(callbacks=[Recorder()], **(OPTIONS | options)).fit(ROWS)
    return encoder, np.array(Recorder.iterates), np.array(Recorder.sizes)


@each("lr_schedule", [None, "inverse_sqrt"])
def test_result_is_last_random_or_mean_iterate(lr_schedule):
    """The training is the same; the mean is weighted by the sizes of the steps."""
    last, iterates, sizes = record(lr_schedule=lr_schedule)
    assert (last.components_ != iterates[-1]).any()

    mean, same, _ = record(lr_schedule=lr_schedule, averaging="mean")
    np.testing.assert_array_equal(same, iterates)
    expected = np.average(iterates, axis=0, weights=sizes)
    np.testing.assert_allclose(mean.components_, expected, rtol=1e-4, atol=1e-6)

    drawn = set()
    for seed in range(4):
        random, iterates, _ = record(
            lr_schedule=lr_schedule, averaging="random", random_state=seed
        )
        which = [np.array_equal(random.components_, iterate) for iterate in iterates]
        assert sum(which) == 1
        drawn.add(which.index(True))
    assert len(drawn) > 1


@each("averaging", ["random", "mean"])
def test_stream_keeps_its_steps_and_iterates(averaging):
    """Epoch by epoch is the same as at once."""
    options = OPTIONS | {"averaging": averaging, "lr_schedule": "inverse_sqrt"}
    fitted = SGHEncoder(refit_decoder=False, **options).fit(ROWS)
    streamed = SGHEncoder(**options)
    for _ in range(3):
        streamed.partial_fit(ROWS)
    for name in ("components_", "codebook_", "prior_logits_"):
        np.testing.assert_array_equal(getattr(streamed, name), getattr(fitted, name))


@pytest.mark.parametrize("averaging", ["random", "mean"])
def test_the_result_is_what_is_saved_and_gone_on_from(averaging, tmp_path):
    encoder = SGHEncoder(averaging=averaging, **OPTIONS).fit(ROWS)
    encoder.save(tmp_path / "encoder")
    loaded = load(tmp_path / "encoder")
    np.testing.assert_array_equal(loaded.components_, encoder.components_)
    loaded.set_params(lr=1e-9).partial_fit(ROWS)
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
