"""Codebooks of whole numbers: what they cost, and that floats define everything."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import skhash
from skhash import AdditiveQuantizer, AsymmetricNeighbors
from skhash.neighbors import asymmetric_scores
from skhash.quantization import LinearDecoder
from skhash.quantization._rounding import MAX_ADDED, in_whole_numbers

KINDS = [np.int8, np.int16]
QUICK = {"n_alternations": 1}


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:900]


def costs(X, quantizer, codebook):
    """Return mean and median of the squared errors of rows, by a codebook."""
    codes = quantizer.transform(X).astype(int)
    if quantizer.block_bits_ == 4:
        codes = np.stack([codes >> 4, codes & 15], axis=2).reshape(len(X), -1)
    parts = [own[of_rows] for own, of_rows in zip(codebook, codes.T, strict=True)]
    errors = ((X - quantizer.offset_ - sum(parts)) ** 2).sum(axis=1)
    return np.array([errors.mean(), np.median(errors)])


@pytest.mark.parametrize(
    ("table", "width"), [("digits", 8), ("far rows", 16), ("few rows", 32)]
)
def test_the_fewest_bits_that_rows_do_not_notice(digits, table, width, monkeypatch):
    if table == "far rows":  # whose errors are far larger than those of all others
        far = 1e3 * np.random.default_rng(0).normal(size=(300, 64))
        digits = np.vstack([digits, far])
    if table == "few rows":  # most are decoded exactly
        digits = digits[:3]
    quantizer = AdditiveQuantizer(2, **QUICK).fit(digits)
    monkeypatch.setattr("skhash.quantization._rounding.MAX_ADDED", -1)
    exact = AdditiveQuantizer(2, **QUICK).fit(digits)
    assert exact.entries_.dtype == np.float32 and exact.scales_ is None
    assert 8 * quantizer.entries_.itemsize == width
    allowed = (1 + MAX_ADDED) * costs(digits, exact, exact.codebook_)
    # Codes that are found anew are as good for the rounded codebook.
    assert (costs(digits, exact, quantizer.codebook_) <= 1.001 * allowed).all()
    for kind in KINDS:
        entries, scales = in_whole_numbers(exact.codebook_, kind)
        if 8 * entries.itemsize < width:
            narrower = costs(digits, exact, entries * scales[:, None, None])
            assert (narrower > allowed).any()


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_are_the_nearest(kind):
    codebook = np.random.default_rng(0).normal(size=(3, 16, 5)).astype(np.float32)
    codebook[1], codebook[2] = 0, codebook[2] * np.float32(1e-30)
    entries, scales = in_whole_numbers(codebook, kind)
    assert entries.dtype == kind and scales.dtype == np.float32
    steps = scales.astype(float)[:, None, None]
    assert (np.abs(entries * steps - codebook) <= 0.5 * steps).all()
    largest = np.abs(codebook.astype(float)).max(axis=(1, 2))[[0, 2]]
    assert (scales[[0, 2]] <= 2.01 * largest / np.iinfo(kind).max).all()
    assert (np.frexp(scales)[0] == 0.5).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_only_whole_numbers_are_kept(digits, bits, tmp_path, monkeypatch):
    """In pickles and files, and in the memory of an index."""
    of_blocks = lambda *_: (bits, 1)  # noqa: E731
    monkeypatch.setattr("skhash.quantization._quantizer.choose_blocks", of_blocks)
    quantizer = AdditiveQuantizer(np.int64(2), **QUICK).fit(digits)
    size = quantizer.entries_.size
    assert quantizer.entries_.nbytes == size == quantizer.codebook_.nbytes / 4
    expected = quantizer.scales_[:, None, None] * quantizer.entries_.astype("f4")
    np.testing.assert_array_equal(quantizer.codebook_, expected)
    codes = quantizer.transform(digits)
    index = AsymmetricNeighbors(packed=True).fit(codes, decoder=quantizer)
    once = size + quantizer.scales_.nbytes + 8 * 64
    assert index._store.decoder.nbytes == once
    quantizer.save(tmp_path)
    loaded = skhash.load(tmp_path)
    copied = pickle.loads(pickle.dumps(quantizer))
    n_bytes = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert max(n_bytes, len(pickle.dumps(quantizer))) < size + 6000
    for other in (loaded, copied):
        np.testing.assert_array_equal(other.transform(digits), codes)
        assert other.entries_.dtype == np.int8


def test_given_codes_have_whole_numbers_too(digits):
    bits = (digits[:, :20] > 5).astype(np.uint8)
    for block_bits, kind in ((8, np.int8), (4, np.int8), (1, np.float32)):
        decoder = LinearDecoder(block_bits=block_bits, **QUICK).fit(digits, bits)
        assert decoder.entries_.dtype == kind
        assert (decoder.scales_ is None) == (block_bits == 1)
        error = decoder.reconstruction_error(digits, bits).mean()
        assert decoder.error_ <= error


@pytest.mark.parametrize("metric", ["euclidean", "inner_product", "cosine"])
@pytest.mark.parametrize("n_values", [16, 256])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_floats_to_the_last_bit(metric, n_values, kind):
    rng = np.random.default_rng(0)
    codebook = rng.normal(size=(4, n_values, 37)) * 3.0 ** np.arange(4)[:, None, None]
    entries, scales = in_whole_numbers(codebook.astype(np.float32), kind)
    fitted = SimpleNamespace(
        entries_=entries,
        scales_=scales,
        codebook_=scales[:, None, None] * entries,
        offset_=rng.normal(size=37),
    )
    floats = fitted.codebook_, fitted.offset_
    n_bytes = 4 if n_values == 256 else 2
    codes = rng.integers(256, size=(2000, n_bytes), dtype=np.uint8)
    queries = rng.normal(size=(7, 37))
    index = AsymmetricNeighbors(5, metric=metric, packed=True)
    index.fit(codes, decoder=fitted)
    for rows in (queries, queries[:1], queries[:4]):
        options = {"metric": metric, "packed": True}
        expected = asymmetric_scores(rows, codes, floats, **options)
        scores = asymmetric_scores(rows, codes, fitted, **options)
        np.testing.assert_array_equal(scores, expected)
        distances, positions = index.kneighbors(rows)
        order = np.argsort(expected, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(
            distances, np.take_along_axis(expected, order, axis=1)
        )
