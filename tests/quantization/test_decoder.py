"""LinearDecoder against least squares and direct evaluation."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from skhash import ITQHash
from skhash.quantization import LinearDecoder, _base, _codebook, _decoder, _rounding
from skhash.quantization._base import choose_ridge
from skhash.quantization._codebook import fit_codebook, refine
from skhash.quantization._decoder import choose_block_bits

plain_decoder = partial(LinearDecoder, block_bits=1, n_restarts=32)
all_block_bits = pytest.mark.parametrize("block_bits", [1, 4, 8])


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0][:600]


@pytest.fixture(scope="module")
def bits(digits):
    return ITQHash(n_bits=20, random_state=0).fit_transform(digits)


@pytest.fixture
def set_choices(monkeypatch):
    """Return a function that sets choices of `fit`, whose codebook stays in floats."""
    monkeypatch.setattr(_rounding, "MAX_ADDED", -1)

    def set_them(relaxation=None, ridge=None):
        if relaxation is not None:
            monkeypatch.setattr(_decoder, "RELAXATION", relaxation)
        if ridge is not None:
            monkeypatch.setattr(_decoder, "choose_ridge", lambda *problem: ridge)

    return set_them


def test_codebook_is_the_linear_regression(digits, bits):
    model = LinearRegression().fit(bits, digits)
    decoder = plain_decoder().fit(digits, bits)
    np.testing.assert_allclose(decoder.codebook_, model.coef_.T, atol=1e-3)
    np.testing.assert_allclose(decoder.offset_, model.intercept_, atol=1e-3)
    np.testing.assert_allclose(
        decoder.inverse_transform(bits), model.predict(bits), atol=1e-3
    )
    expected = ((digits - model.predict(bits)) ** 2).sum(axis=1)
    error = decoder.reconstruction_error(digits, bits)
    assert error.dtype == np.float64
    np.testing.assert_allclose(error, expected, rtol=1e-4)


@all_block_bits
def test_sparse_rows_make_the_same_codebook(digits, bits, block_bits):
    decoder = plain_decoder(block_bits=block_bits, n_restarts=2)
    dense = clone(decoder).fit(digits, bits)
    refined = dense.refine(digits, bits)
    for rows in (sparse.csr_array(digits), digits.astype(np.float32)):
        other = clone(decoder).fit(rows, bits)
        np.testing.assert_allclose(other.codebook_, dense.codebook_, atol=1e-5)
        np.testing.assert_array_equal(other.refine(rows, bits), refined)


@all_block_bits
def test_far_rows_decode_as_well(digits, bits, block_bits):
    options = {"n_alternations": 1, "n_restarts": 0}
    near, far = digits[:500], digits[:500] + 1.7e9
    errors = []
    for X in near, far:
        decoder = LinearDecoder(block_bits=block_bits, **options).fit(X, bits[:500])
        codes = decoder.refine(X, bits[:500])
        expected = ((X - decoder.inverse_transform(codes)) ** 2).sum(axis=1)
        error = decoder.reconstruction_error(X, codes)
        np.testing.assert_allclose(error, expected, rtol=1e-4)
        errors.append(error.mean())
    np.testing.assert_allclose(*errors, rtol=0.02)


def test_chunks_make_the_same_codebook_and_codes(digits, bits, monkeypatch):
    codebook, offset = fit_codebook(digits, bits)
    refined = refine(digits, bits, codebook, offset, n_restarts=2)

    def small_chunks(X):
        for start in range(0, len(X), 100):
            rows = slice(start, min(start + 100, len(X)))
            yield rows, X[rows]

    monkeypatch.setattr(_codebook, "dense_chunks", small_chunks)
    for ours, whole in zip(fit_codebook(digits, bits), (codebook, offset), strict=True):
        np.testing.assert_allclose(ours, whole, atol=1e-5)
    np.testing.assert_array_equal(
        refine(digits, bits, codebook, offset, n_restarts=2), refined
    )


def test_constant_and_equal_bits_do_no_harm(digits, bits):
    plain = plain_decoder().fit(digits, bits)
    columns = np.ones((len(bits), 1), dtype=np.uint8), bits[:, :1]
    odd_bits = np.hstack([bits, *columns])
    odd = plain_decoder().fit(digits, odd_bits)
    np.testing.assert_array_equal(odd.codebook_[20], 0)
    np.testing.assert_allclose(odd.codebook_[0], odd.codebook_[21], atol=1e-4)
    np.testing.assert_allclose(
        odd.inverse_transform(odd_bits), plain.inverse_transform(bits), atol=1e-3
    )


@all_block_bits
def test_alternation_lowers_the_error_at_every_turn(
    digits, bits, block_bits, set_choices
):
    set_choices(relaxation=0, ridge=0.1)

    def steps(n_alternations):
        options = {"n_alternations": n_alternations, "n_restarts": 0}
        return LinearDecoder(block_bits=block_bits, **options)

    # The codes that a codebook was fitted to are found by the steps before it.
    means, codes = [], bits
    for n_alternations in (0, 1, 2, 3):
        decoder = steps(n_alternations).fit(digits, bits)
        means.append(decoder.reconstruction_error(digits, codes).mean())
        assert decoder.error_ == pytest.approx(means[-1])
        codes = decoder.refine(digits, codes)
    for before, after in itertools.pairwise(means):
        assert after < before


def test_verbose_prints_the_error_of_each_alternation(
    digits, bits, capsys, set_choices
):
    set_choices(ridge=1.0)
    plain = LinearDecoder().fit(digits, bits)
    error = plain.fit(digits, plain.refine(digits, bits)).error_
    assert not capsys.readouterr().out
    LinearDecoder(n_alternations=1, verbose=True).fit(digits, bits)
    line = f"[LinearDecoder] alternation 1 of 1, error {error:.4g}\n"
    assert capsys.readouterr().out == line


@all_block_bits
def test_refined_codes_are_nearer_and_restarts_bring_them_nearer(
    digits, bits, block_bits
):
    decoder = plain_decoder(block_bits=block_bits).fit(digits, bits)
    error = first = decoder.reconstruction_error(digits, bits)
    for n_restarts in (0, 1, 32):
        decoder.set_params(n_restarts=n_restarts)
        better = decoder.reconstruction_error(digits, decoder.refine(digits, bits))
        assert (better <= first).all()
        assert (better <= error + 1e-3).all()
        assert better.mean() < error.mean()
        error = better


def test_ridge_is_large_for_sums_of_bits_and_small_for_vectors_of_values(monkeypatch):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, size=(2000, 8), dtype=np.uint8)
    values = np.packbits(bits, axis=1)
    noise = 0.3 * rng.normal(size=(2000, 10))
    linear = bits @ rng.normal(size=(8, 10)) + noise
    # The next decodes held-out rows nearly as well as the largest, and is taken.
    assert choose_ridge(linear, values, 8) == sorted(_base.RIDGES)[-2]
    monkeypatch.setattr(_base, "SLACK", 1)
    assert choose_ridge(linear, values, 8) == max(_base.RIDGES)
    free = 10 * rng.normal(size=(256, 10))[values[:, 0]] + noise
    assert choose_ridge(free, values, 8) == min(_base.RIDGES)
    assert choose_ridge(linear[:1], values[:1], 8) == max(_base.RIDGES)


@pytest.mark.parametrize("block_bits", [1, np.int8(8)])
def test_fit_takes_a_sample_of_many_rows(digits, bits, block_bits):
    decoder = LinearDecoder(block_bits=block_bits, max_train_samples=300)
    sampled = clone(decoder).fit(digits, bits)
    again = clone(decoder).fit(digits, bits)
    np.testing.assert_array_equal(sampled.codebook_, again.codebook_)
    whole = clone(decoder).set_params(max_train_samples=None).fit(digits, bits)
    assert (sampled.codebook_ != whole.codebook_).any()
    same = clone(decoder).set_params(max_train_samples=600).fit(digits, bits)
    np.testing.assert_array_equal(same.codebook_, whole.codebook_)


def test_rows_of_unit_length_are_known(digits, bits):
    rows = digits / np.linalg.norm(digits, axis=1, keepdims=True)
    some = np.where(np.arange(len(rows))[:, None] % 5, rows, 0)
    for X in (rows, rows.astype(np.float16), sparse.csr_array(rows), some):
        assert plain_decoder(n_restarts=0).fit(X, bits).normalized_
    rows[7] *= 1.01
    for X in (rows, digits, 0 * digits):
        assert not plain_decoder(n_restarts=0).fit(X, bits).normalized_


def test_what_does_not_fit_is_refused(digits, bits):
    decoder = plain_decoder()
    with pytest.raises(NotFittedError):
        decoder.refine(digits, bits)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        decoder.fit(digits, bits[:-1])
    with pytest.raises(ValueError, match="0 and 1 only"):
        decoder.fit(digits, bits * 2)
    with pytest.raises(ValueError, match="'block_bits' parameter"):
        LinearDecoder(block_bits=2).fit(digits, bits)
    decoder.fit(digits, bits)
    with pytest.raises(ValueError, match="have 19 bits, but this .* for 20"):
        decoder.inverse_transform(bits[:, 1:])
    with pytest.raises(ValueError, match="has 63 features"):
        decoder.refine(digits[:, 1:], bits)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        decoder.refine(digits[1:], bits)


@pytest.mark.parametrize(
    "n_bits, shape, block_bits",
    [
        *((8, (128, 4), 8), (8, (127, 4), 4), (8, (15, 4), 1), (16, (10**6, 2**16), 8)),
        *((64, (1024, 4), 8), (64, (1023, 4), 4), (64, (127, 4), 1)),
        *((256, (10**6, 384), 8), (257, (10**6, 4), 4), (2048, (10**6, 4), 4)),
        *((2049, (10**6, 4), 1), (17, (10**6, 2**16), 4), (17, (10**6, 2**19), 1)),
    ],
)
def test_decoders_stay_small(n_bits, shape, block_bits):
    assert choose_block_bits(n_bits, shape) == block_bits


@pytest.mark.parametrize("block_bits", [1, 4])
def test_noise_falls_with_the_root_of_what_is_left(
    digits, bits, block_bits, set_choices
):
    """Half of the turns are left after the first of two: noise of 0.5**0.5, then none.

    It is proportional to what the code leaves of each column, shared by the blocks.
    """
    X, options = digits[:400, 20:30], {"block_bits": block_bits, "n_restarts": 0}
    set_choices(relaxation=2.0, ridge=5.0)
    codes = bits[:400, :8]
    still = LinearDecoder(**options)
    noisy = clone(still).fit(X, codes)
    left = X - noisy.inverse_transform(codes)
    spread = ((left**2).mean(axis=0) / (8 / block_bits)) ** 0.5
    noise = np.random.RandomState(0).standard_normal(noisy.codebook_.shape)
    noisy.entries_ = noisy.entries_ + (0.5**0.5 * 2.0 * spread * noise).astype("f4")
    once = noisy.refine(X, codes)
    twice = clone(still).fit(X, once).refine(X, once)
    found = LinearDecoder(n_alternations=2, **options).fit(X, codes)
    expected = clone(still).fit(X, twice)
    np.testing.assert_allclose(found.codebook_, expected.codebook_, atol=1e-4)
    assert (once != codes).any() and (twice != once).any()
