"""BinaryAutoencoderHash against brute force, scikit-learn's machines and its theory."""

import itertools

import numpy as np
import pytest
import torch
from cases import each
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from skhash import PCAHash
from skhash.linear import BinaryAutoencoderHash, _binary_autoencoder
from skhash.linear._binary_autoencoder import (
    SupportVectorMachines,
    penalized_error,
    z_step,
)
from skhash.quantization._codebook import fit_codebook


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0][:500].astype(np.float32)


def problem(n_bits, n=60, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(n, n_features)).astype(np.float32)
    codebook = rng.normal(size=(n_bits, n_features)).astype(np.float32)
    offset = rng.normal(size=n_features).astype(np.float32)
    bits, hashed = rng.integers(0, 2, size=(2, n, n_bits), dtype=np.uint8)
    return X, bits, codebook, offset, hashed


def row_values(X, bits, codebook, offset, hashed, penalty):
    residual = X - offset - bits.astype(float) @ codebook
    return (residual**2).sum(axis=1) + penalty * (bits != hashed).sum(axis=1)


@each("penalty", [0.0, 0.7, 5.0, 1e4])
def test_exact_z_step_is_brute_force_and_no_descent_beats_it(penalty, monkeypatch):
    X, bits, codebook, offset, hashed = problem(n_bits=5)
    codes = np.array(list(itertools.product([0, 1], repeat=5)), dtype=np.uint8)
    exact = z_step(X, bits, codebook, offset, hashed, penalty)
    for i in range(len(X)):
        row = [np.broadcast_to(part[i], (32, part.shape[1])) for part in (X, hashed)]
        values = row_values(row[0], codes, codebook, offset, row[1], penalty)
        np.testing.assert_array_equal(exact[i], codes[values.argmin()])
    with monkeypatch.context() as patch:
        patch.setattr(_binary_autoencoder, "MAX_EXACT_BITS", 0)
        descent = z_step(X, bits, codebook, offset, hashed, penalty)
    rest = codebook, offset, hashed, penalty
    assert (row_values(X, exact, *rest) <= row_values(X, descent, *rest) + 1e-6).all()
    assert (row_values(X, descent, *rest) <= row_values(X, bits, *rest) + 1e-6).all()
    if penalty == 1e4:  # the codes are those of the hash
        np.testing.assert_array_equal([exact, descent], [hashed, hashed])
    error = penalized_error(X, bits, *rest)
    np.testing.assert_allclose(error, row_values(X, bits, *rest).mean(), rtol=1e-5)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_machines_are_those_of_scikit_learn(C, monkeypatch):
    monkeypatch.setattr(_binary_autoencoder, "SVM_STEPS", 1000)
    X, bits, *_ = problem(n_bits=3, n=100)
    bits[:, 0] = X[:, 0] > 1
    machines = SupportVectorMachines(X, C, torch.device("cpu"))
    coef = machines.minimize_hinge(bits, np.zeros((7, 3)))
    for k in range(3):
        model = LinearSVC(C=C, dual=False, tol=1e-8).fit(X, bits[:, k])
        expected = np.append(model.coef_, model.intercept_)
        np.testing.assert_allclose(coef[:, k], expected, atol=3e-3)


def test_a_machine_that_predicts_worse_is_not_taken():
    X, bits, *_ = problem(n_bits=3)
    perfect = np.random.default_rng(1).normal(size=(7, 3))
    machines = SupportVectorMachines(X, 1.0, torch.device("cpu"))
    bits = machines.predict(perfect)
    np.testing.assert_array_equal(machines.fit(bits, perfect), perfect)
    fitted = machines.fit(bits, -perfect)
    assert (machines.predict(fitted) != bits).mean() < 0.1


@each("options", [{"n_bits": 6}, {"n_bits": 20}, {"penalty_growth": 1}])
def test_no_iteration_raises_the_penalised_objective(digits, options):
    options = {"n_bits": 12, "max_iter": 6, "random_state": 0} | options
    encoder = BinaryAutoencoderHash(**options).fit(digits)
    before, after = encoder.objective_.T
    assert len(before) == encoder.n_iter_ == len(encoder.errors_) - 1
    assert (after <= before * (1 + 1e-5)).all()
    assert after[0] < 0.99 * before[0]
    if encoder.penalty_growth == 1:  # one weight: one iteration continues the last
        np.testing.assert_allclose(before[1:], after[:-1])


def test_the_weight_starts_in_units_of_the_variance_per_bit(digits, monkeypatch):
    weights = []

    def recorded(*problem):
        weights.append(problem[5])
        return z_step(*problem)

    monkeypatch.setattr(_binary_autoencoder, "z_step", recorded)
    options = {"penalty": 0.5, "penalty_growth": 3.0, "max_iter": 3}
    BinaryAutoencoderHash(4, random_state=0, **options).fit(digits)
    variance_per_bit = digits.shape[1] / 4  # of data of mean variance 1
    growth = 3.0 ** np.arange(len(weights))  # it may come to rest before
    np.testing.assert_allclose(weights, 0.5 * variance_per_bit * growth)
    assert len(weights) >= 1


def best_error(X, bits):
    """The least error that a linear decoder can have, on data of mean variance 1."""
    codebook, offset = fit_codebook(X, bits)
    error = ((X - offset - bits @ codebook) ** 2).sum(axis=1).mean()
    return error / (X - X.mean(axis=0)).var()


def test_errors_go_from_the_start_down_to_the_result(digits):
    encoder = BinaryAutoencoderHash(n_bits=8, max_iter=8, random_state=0)
    bits = encoder.fit_transform(digits)
    at_start = best_error(digits, PCAHash(8).fit_transform(digits))
    assert abs(encoder.errors_[0] / at_start - 1) < 1e-3
    np.testing.assert_allclose(
        encoder.errors_.min(), best_error(digits, bits), rtol=1e-3
    )
    assert encoder.errors_.min() < 0.99 * encoder.errors_[0]


def test_it_ends_when_the_hash_gives_the_codes(digits):
    options = {"n_bits": 8, "max_iter": 60, "random_state": 0}
    encoder = BinaryAutoencoderHash(penalty=1.0, penalty_growth=4.0, **options).fit(
        digits
    )
    assert encoder.n_iter_ < 60
    # Then both forms of the objective are the reconstruction error of the hash.
    np.testing.assert_allclose(
        encoder.objective_[-1, 1], encoder.errors_[-1], rtol=1e-5
    )


def test_decoder_is_the_least_squares_fit_to_the_codes(digits):
    encoder = BinaryAutoencoderHash(n_bits=9, max_iter=3, random_state=0).fit(digits)
    codebook, offset = fit_codebook(digits, encoder.transform(digits))
    np.testing.assert_allclose(encoder.codebook_, codebook, atol=1e-3)
    np.testing.assert_allclose(encoder.offset_, offset, atol=1e-3)
    decoded = encoder.inverse_transform(encoder.transform(digits))
    np.testing.assert_allclose(
        encoder.reconstruction_error(digits),
        ((digits - decoded) ** 2).sum(axis=1),
        rtol=1e-4,
    )


def test_held_out_rows_choose_the_iterate(digits):
    options = {"n_bits": 8, "random_state": 0, "validation_fraction": 0.2}
    encoder = BinaryAutoencoderHash(max_iter=10, **options).fit(digits)
    best = int(np.argmin(encoder.errors_))
    assert 0 < best
    short = BinaryAutoencoderHash(max_iter=best, **options).fit(digits)
    np.testing.assert_array_equal(short.components_, encoder.components_)
    other = BinaryAutoencoderHash(max_iter=best, **options | {"random_state": 1})
    assert np.abs(other.fit(digits).components_ - short.components_).max() > 1e-4
