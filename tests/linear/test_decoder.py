"""LinearDecoder against least squares and direct evaluation."""

import itertools

import numpy as np
import pytest
from checks import assert_same_state
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import skhash
from skhash import ITQHash, SGHEncoder
from skhash.linear import LinearDecoder, _decoder
from skhash.linear._decoder import fit_codebook, refine_bits


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0]


@pytest.fixture(scope="module")
def bits(digits):
    return ITQHash(n_bits=20, random_state=0).fit_transform(digits)


def test_codebook_is_the_linear_regression(digits, bits):
    model = LinearRegression().fit(bits, digits)
    decoder = LinearDecoder().fit(digits, bits)
    np.testing.assert_allclose(decoder.codebook_, model.coef_.T, atol=1e-3)
    np.testing.assert_allclose(decoder.offset_, model.intercept_, atol=1e-3)
    np.testing.assert_allclose(
        decoder.inverse_transform(bits), model.predict(bits), atol=1e-3
    )
    expected = ((digits - model.predict(bits)) ** 2).sum(axis=1)
    error = decoder.reconstruction_error(digits, bits)
    assert error.dtype == np.float64
    np.testing.assert_allclose(error, expected, rtol=1e-4)


def test_sparse_rows_and_far_rows_make_the_same_codebook(digits, bits):
    dense = LinearDecoder().fit(digits, bits)
    rows = sparse.csr_array(digits)
    thin = LinearDecoder().fit(rows, bits)
    np.testing.assert_allclose(thin.codebook_, dense.codebook_, atol=1e-5)
    np.testing.assert_array_equal(thin.refine(rows, bits), dense.refine(digits, bits))
    far = LinearDecoder().fit(digits + 1e6, bits)
    np.testing.assert_allclose(far.codebook_, dense.codebook_, atol=1e-3)
    np.testing.assert_allclose(far.offset_ - 1e6, dense.offset_, atol=0.1)


def test_chunks_make_the_same_codebook_and_codes(digits, bits, monkeypatch):
    codebook, offset = fit_codebook(digits, bits)
    refined = refine_bits(digits, bits, codebook, offset, n_restarts=2)

    def small_chunks(X):
        for start in range(0, len(X), 100):
            rows = slice(start, min(start + 100, len(X)))
            yield rows, X[rows]

    monkeypatch.setattr(_decoder, "dense_chunks", small_chunks)
    for ours, whole in zip(fit_codebook(digits, bits), (codebook, offset), strict=True):
        np.testing.assert_allclose(ours, whole, atol=1e-5)
    np.testing.assert_array_equal(
        refine_bits(digits, bits, codebook, offset, n_restarts=2), refined
    )


def test_constant_and_equal_bits_do_no_harm(digits, bits):
    plain = LinearDecoder().fit(digits, bits)
    columns = np.ones((len(bits), 1), dtype=np.uint8), bits[:, :1]
    odd_bits = np.hstack([bits, *columns])
    odd = LinearDecoder().fit(digits, odd_bits)
    np.testing.assert_array_equal(odd.codebook_[20], 0)
    np.testing.assert_allclose(odd.codebook_[0], odd.codebook_[21], atol=1e-4)
    np.testing.assert_allclose(
        odd.inverse_transform(odd_bits), plain.inverse_transform(bits), atol=1e-3
    )


def test_alternation_lowers_the_error_at_every_turn(digits, bits):
    means = []
    for n_alternations in (0, 1, 2, 3):
        decoder = LinearDecoder(n_alternations=n_alternations, n_restarts=0)
        decoder.fit(digits, bits)
        # The codes that the codebook was fitted to, found by the same steps.
        codes = bits
        for turn in range(n_alternations):
            before = LinearDecoder(n_alternations=turn, n_restarts=0).fit(digits, bits)
            codes = before.refine(digits, codes)
        means.append(decoder.reconstruction_error(digits, codes).mean())
    for before, after in itertools.pairwise(means):
        assert after < before


def test_refined_codes_are_nearer_and_restarts_bring_them_nearer(digits, bits):
    decoder = LinearDecoder(n_restarts=0).fit(digits, bits)
    error = decoder.reconstruction_error(digits, bits)
    for n_restarts in (0, 4, 32):
        decoder.set_params(n_restarts=n_restarts)
        better = decoder.reconstruction_error(digits, decoder.refine(digits, bits))
        assert (better <= error + 1e-3).all()
        assert better.mean() < error.mean()
        error = better


def test_codes_from_zeros_are_about_as_good(digits, bits):
    decoder = LinearDecoder(n_alternations=3).fit(digits, bits)
    from_bits = decoder.reconstruction_error(digits, decoder.refine(digits, bits))
    from_zeros = decoder.reconstruction_error(digits, decoder.refine(digits))
    assert abs(from_zeros.mean() / from_bits.mean() - 1) < 0.01


def test_refined_codes_of_a_subset_are_a_subset(digits, bits):
    decoder = LinearDecoder(n_restarts=4).fit(digits, bits)
    refined = decoder.refine(digits, bits)
    assert refined.dtype == np.uint8
    some = [1700, 3, 3, 41]
    np.testing.assert_array_equal(
        decoder.refine(digits[some], bits[some]), refined[some]
    )


def test_encoder_with_the_same_codebook_decodes_alike(digits):
    encoder = SGHEncoder(n_bits=12, init="pca", max_epochs=1, random_state=0)
    encoder.fit(digits)
    bits = encoder.transform(digits)
    decoder = LinearDecoder().fit(digits, bits)
    # Least squares is the best linear decoder for the training rows.
    ours = decoder.reconstruction_error(digits, bits).mean()
    assert ours < encoder.reconstruction_error(digits).mean()
    decoder.codebook_, decoder.offset_ = encoder.codebook_, encoder.offset_
    np.testing.assert_array_equal(
        decoder.inverse_transform(bits), encoder.inverse_transform(bits)
    )


def test_what_does_not_fit_is_refused(digits, bits):
    decoder = LinearDecoder()
    with pytest.raises(NotFittedError):
        decoder.refine(digits)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        decoder.fit(digits, bits[:-1])
    with pytest.raises(ValueError, match="0 and 1 only"):
        decoder.fit(digits, bits * 2)
    decoder.fit(digits, bits)
    with pytest.raises(ValueError, match="have 19 bits, but this .* for 20"):
        decoder.inverse_transform(bits[:, 1:])
    with pytest.raises(ValueError, match="has 63 features"):
        decoder.refine(digits[:, 1:], bits)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        decoder.refine(digits[1:], bits)


def test_saved_and_loaded(digits, bits, tmp_path):
    decoder = LinearDecoder(n_alternations=1, n_restarts=2).fit(digits, bits)
    decoder.save(tmp_path)
    loaded = skhash.load(tmp_path)
    assert repr(loaded) == repr(decoder)
    assert_same_state(decoder, loaded)
    np.testing.assert_array_equal(
        loaded.refine(digits[:50]), decoder.refine(digits[:50])
    )
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="damaged"):
        skhash.load(tmp_path)
    with pytest.raises(NotFittedError):
        LinearDecoder().save(tmp_path / "new")
    assert not (tmp_path / "new").exists()
