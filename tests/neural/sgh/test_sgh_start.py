"""SGHEncoder: starts in closed form, and the refitted decoder."""

import numpy as np
import torch
from cases import each
from neural.sgh.models import DIGITS

from skhash import ITQHash, PCAHash, SGHEncoder
from skhash.codes import CODINGS
from skhash.metrics import neighbor_recall_score, true_neighbors
from skhash.neural.sgh._module import SGHModule
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
def test_refitted_decoder_is_the_best_for_its_codes(coding):
    """The free energy has no slope in the decoder; the encoder is as it was."""
    options = {"n_bits": 8, "coding": coding, "weight_penalty": 0.1, "random_state": 0}
    plain = SGHEncoder(**options).partial_fit(DIGITS).partial_fit(DIGITS)
    refitted = SGHEncoder(max_epochs=2, **options).fit(DIGITS)
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
