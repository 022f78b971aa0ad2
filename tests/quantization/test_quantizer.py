"""AdditiveQuantizer against brute force, k-means, and quantizers of its parts."""

import pickle

import numpy as np
import pandas as pd
import pytest
from cases import each
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skhash
from skhash import AdditiveQuantizer
from skhash.quantization import _base, _quantizer, _rounding
from skhash.utils.chunks import dense_chunks, row_chunks

QUICK = {"n_alternations": 1, "beam_width": 2}


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:900]


def use_blocks(monkeypatch, block_bits, n_parts=1):
    monkeypatch.setattr(_quantizer, "choose_blocks", lambda *_: (block_bits, n_parts))


def test_one_byte_is_k_means():
    X = load_digits().data
    X = np.vstack([X, X + 1])
    quantizer = AdditiveQuantizer(1, n_alternations=3).fit(X)
    vectors = quantizer.offset_ + quantizer.codebook_[0]
    distances = cdist(X, vectors, "sqeuclidean")
    codes = quantizer.transform(X)
    own = distances[np.arange(len(X)), codes[:, 0]]
    np.testing.assert_allclose(own, distances.min(axis=1), rtol=1e-4)
    np.testing.assert_allclose(quantizer.reconstruction_error(X), own, rtol=1e-4)
    assert own.sum() < 1.15 * KMeans(256, n_init=1, random_state=0).fit(X).inertia_


@pytest.mark.parametrize("block_bits", [4, 8])
def test_codes_decode_to_sums_of_their_entries(digits, block_bits, monkeypatch):
    use_blocks(monkeypatch, block_bits)
    quantizer = AdditiveQuantizer(3, **QUICK).fit(digits)
    assert quantizer.codebook_.shape == (24 // block_bits, 2**block_bits, 64)
    assert quantizer.n_bits_ == 24
    codes = quantizer.transform(digits)
    assert codes.dtype == np.uint8
    decoded, entries = quantizer.inverse_transform(codes), quantizer.codebook_
    for code, vector in zip(codes[:50], decoded, strict=False):
        word = code.tobytes().hex()
        step = block_bits // 4  # the first digit of a byte is the high half
        values = [int(word[i : i + step], 16) for i in range(0, 6, step)]
        expected = sum(entries[m, v].astype(float) for m, v in enumerate(values))
        np.testing.assert_allclose(vector - quantizer.offset_, expected, atol=1e-4)
    expected = ((digits - decoded) ** 2).sum(axis=1)
    for error in (
        quantizer.reconstruction_error(digits),
        quantizer.reconstruction_error(digits, codes),
    ):
        np.testing.assert_allclose(error, expected, rtol=1e-4)
    assert quantizer.score(digits) == pytest.approx(-expected.mean())
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quantizer.reconstruction_error(digits[1:], codes)


def test_alternations_and_width_lower_the_error(digits, monkeypatch):
    use_blocks(monkeypatch, 4)
    scores = [
        AdditiveQuantizer(4, n_alternations=n, beam_width=width)
        .fit(digits)
        .score(digits)
        for n, width in ((0, 1), (0, 8), (4, 8))
    ]
    assert scores == sorted(scores)


@each("n_rows", [500, 501])
def test_many_rows_have_more_alternations(digits, n_rows, monkeypatch):
    monkeypatch.setattr(_quantizer, "MANY_ROWS", 500)
    rest = {"max_train_samples": n_rows, "beam_width": 1}
    n = 4 if n_rows == 500 else 10
    expected = AdditiveQuantizer(1, n_alternations=n, **rest).fit(digits)
    found = AdditiveQuantizer(1, **rest).fit(digits)
    np.testing.assert_array_equal(found.codebook_, expected.codebook_)


def test_the_seed_decides(digits):
    def codes(random_state):
        options = {"max_train_samples": 500, **QUICK}
        quantizer = AdditiveQuantizer(2, random_state=random_state, **options)
        return quantizer.fit(digits).transform(digits)

    before = np.random.get_state()[1].copy()
    expected = codes(AdditiveQuantizer().random_state)
    np.testing.assert_array_equal(codes(0), expected)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert (codes(None) != codes(None)).any()
    one, other = np.random.RandomState(3), np.random.RandomState(3)
    np.testing.assert_array_equal(codes(one), codes(other))
    assert (codes(one) != codes(0)).any() and (codes(1) != expected).any()


@pytest.mark.parametrize("rows", [np.asfortranarray, sparse.csr_array])
def test_parts_are_quantizers_of_some_axes(rows, monkeypatch, tmp_path):
    """Parts have no axis in common: the best codes of each are the best of the sum."""
    monkeypatch.setattr(_rounding, "MAX_ADDED", -1)
    X = load_digits().data[:500] + np.random.default_rng(0).normal(100, 1, (500, 64))
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2]
    use_blocks(monkeypatch, 8, n_parts=3)
    quantizer = AdditiveQuantizer(3, **QUICK).fit(rows(X))
    codes = quantizer.transform(rows(X))
    use_blocks(monkeypatch, 8)
    error = 0
    for part, entries in enumerate(quantizer.codebook_):
        turned = X @ axes[part::3].T
        alone = AdditiveQuantizer(1, **QUICK).fit(turned)
        decoded = alone.codebook_[0] @ axes[part::3]
        np.testing.assert_allclose(entries, decoded, rtol=0, atol=1e-3)
        nearest = cdist(turned, alone.offset_ + alone.codebook_[0], "sqeuclidean")
        error += nearest.min(axis=1)
    found = quantizer.reconstruction_error(X, codes)
    np.testing.assert_allclose(found, error, rtol=1e-4, atol=1e-6)
    assert quantizer.error_ == pytest.approx(error.mean(), rel=1e-4)
    quantizer.save(tmp_path / "quantizer")
    loaded = skhash.load(tmp_path / "quantizer")
    np.testing.assert_array_equal(loaded.transform(rows(X)), codes)


@pytest.mark.parametrize("n_parts", [1, 2])
def test_far_rows_decode_as_well(digits, n_parts, monkeypatch):
    use_blocks(monkeypatch, 4, n_parts)
    near, errors = digits[:500], []
    for X in (near, near + 1.7e9):
        errors.append(-AdditiveQuantizer(2, **QUICK).fit(X).score(X))
    np.testing.assert_allclose(*errors, rtol=0.02)


def test_forms_of_rows_make_the_same_codes(digits, tmp_path, monkeypatch):
    """Digits are exact in float16, of which a file is read chunk by chunk."""
    quantizer = AdditiveQuantizer(2, **QUICK).fit(digits)
    expected = quantizer.transform(digits)
    np.save(tmp_path / "rows.npy", digits.astype(np.float16))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    few = [800, 3, 3, 41]
    np.testing.assert_array_equal(quantizer.transform(digits[few]), expected[few])
    for chunks in (row_chunks, dense_chunks):
        monkeypatch.setattr(chunks, "__defaults__", (5000,))
    for rows in (mapped, digits.astype(np.float32), sparse.csr_array(digits)):
        np.testing.assert_array_equal(quantizer.transform(rows), expected)
    monkeypatch.undo()
    for rows in (mapped, np.asfortranarray(digits), pd.DataFrame(digits)):
        other = clone(quantizer).fit(rows)
        np.testing.assert_allclose(other.codebook_, quantizer.codebook_, atol=1e-3)
    mapped = mapped.copy()
    mapped[7, 7] = np.nan
    for method in (quantizer.transform, clone(quantizer).fit):
        with pytest.raises(ValueError, match="contains NaN"):
            method(mapped)


def test_a_map_of_float16_is_not_converted_whole(digits, monkeypatch):
    quantizer = AdditiveQuantizer(1, **QUICK).fit(digits)
    rows, shapes = np.tile(digits, (10, 1)).astype(np.float16), []
    convert = _base.contiguous_rows

    def converted(X):
        shapes.append(len(X))
        return convert(X)

    monkeypatch.setattr(_base, "contiguous_rows", converted)
    monkeypatch.setattr(dense_chunks, "__defaults__", (10**5,))
    quantizer.transform(rows)
    assert 0 < max(shapes) < 1000 and sum(shapes) >= len(rows)
    shapes.clear()
    clone(quantizer).set_params(max_train_samples=1100).fit(rows)
    assert max(shapes) <= 1100


def test_some_rows_are_drawn(digits):
    drawn = np.sort(np.random.RandomState(5).permutation(len(digits))[:600])
    options = {"random_state": 5, **QUICK}
    some = AdditiveQuantizer(1, max_train_samples=600, **options).fit(digits)
    alone = AdditiveQuantizer(1, **options).fit(digits[drawn])
    np.testing.assert_array_equal(some.codebook_, alone.codebook_)


def test_rows_of_unit_length_are_known(digits):
    rows = digits[:300] / np.linalg.norm(digits[:300], axis=1, keepdims=True)
    assert AdditiveQuantizer(1, **QUICK).fit(rows).normalized_
    assert not AdditiveQuantizer(1, **QUICK).fit(digits[:300]).normalized_


@pytest.mark.parametrize("n_bytes", [1, 8, np.int8(96)])
@pytest.mark.parametrize("kind", ["a row", "three rows", "a column", "few values"])
def test_little_data_is_encoded_nearly_exactly(kind, n_bytes):
    rng = np.random.default_rng(0)
    X = {
        "a row": rng.normal(size=(1, 5)),
        "three rows": rng.normal(size=(3, 50)),
        "a column": rng.integers(0, 10, size=(60, 1)).astype(float),
        "few values": np.hstack([np.ones((90, 1)), np.repeat(np.eye(3), 30, axis=0)]),
    }[kind]
    quantizer = AdditiveQuantizer(n_bytes, n_alternations=1, beam_width=1).fit(X)
    codes = quantizer.transform(X)
    assert codes.shape == (len(X), n_bytes)
    decoded = quantizer.inverse_transform(codes)
    np.testing.assert_allclose(decoded, X, atol=0.05 * max(np.ptp(X), 1))


@pytest.mark.parametrize(
    "n_bytes, shape, block_bits, n_parts",
    [
        *((1, (128, 4), 8, 1), (1, (127, 4), 4, 1), (1, (1, 4), 4, 1)),
        *((8, (1024, 4), 8, 1), (8, (1023, 4), 4, 1), (32, (10**6, 384), 8, 1)),
        *((33, (10**6, 4), 8, 2), (64, (4096, 9), 8, 2), (64, (4095, 9), 4, 1)),
        *((256, (10**6, 4), 4, 1), (256, (10**6, 8), 8, 8), (257, (10**6, 4), 4, 2)),
        *((2, (10**6, 2**16), 8, 1), (3, (10**6, 2**16), 4, 1)),
    ],
)
def test_codebooks_stay_small(n_bytes, shape, block_bits, n_parts):
    assert _quantizer.choose_blocks(n_bytes, shape) == (block_bits, n_parts)


@pytest.mark.parametrize("shape, most", [((9, 1), 256), ((9, 2**17), 8)])
def test_too_many_bytes_for_the_columns_are_refused(shape, most):
    X = sparse.random_array(shape, density=0.1, format="csr")
    with pytest.raises(ValueError, match=f"n_bytes={most + 1} .* at most {most} bytes"):
        AdditiveQuantizer(most + 1).fit(X)
    assert _quantizer.choose_blocks(most, shape) == (4, 1)


@pytest.mark.parametrize("unit", [1e-20, 1e20, 1e200])
def test_magnitudes_that_cannot_be_squared_are_refused(unit, digits):
    with pytest.raises(ValueError, match="largest magnitude in X is"):
        AdditiveQuantizer(1).fit(unit * digits)
    quantizer = AdditiveQuantizer(1, **QUICK).fit(digits)
    if unit > 1:
        with pytest.raises(ValueError, match="largest magnitude in X is"):
            quantizer.transform(unit * digits)
    else:
        code = quantizer.transform(np.zeros((1, 64)))
        assert (quantizer.transform(unit * digits) == code).all()


def test_pipelines_and_grids_choose_the_bytes(digits):
    pipeline = make_pipeline(StandardScaler(), AdditiveQuantizer(**QUICK))
    pipeline.set_output(transform="pandas")
    name = "additivequantizer__n_bytes"
    search = GridSearchCV(pipeline, {name: [1, 2]}, cv=2, error_score="raise")
    search.fit(digits)
    assert search.best_params_ == {name: 2}
    pipeline = search.best_estimator_
    frame = pipeline.transform(digits)
    assert [*frame.columns] == [f"additivequantizer{i}" for i in range(2)]
    assert (frame.dtypes == np.uint8).all()
    rows, quantizer = pipeline[0].transform(digits), pipeline[-1]
    left = quantizer.reconstruction_error(rows, frame)
    np.testing.assert_array_equal(left, quantizer.reconstruction_error(rows))
    back = pipeline.inverse_transform(frame)
    np.testing.assert_allclose(
        back, pipeline[0].inverse_transform(quantizer.inverse_transform(frame))
    )


def test_what_does_not_fit_is_refused(digits):
    quantizer = AdditiveQuantizer(2, **QUICK)
    for method in (quantizer.transform, quantizer.inverse_transform, quantizer.score):
        with pytest.raises(NotFittedError):
            method(digits)
    with pytest.raises(ValueError, match="'n_bytes' parameter"):
        AdditiveQuantizer(0).fit(digits)
    quantizer.fit(digits)
    codes = quantizer.transform(digits)
    with pytest.raises(ValueError, match="16 bits need 2 bytes, got 1"):
        quantizer.inverse_transform(codes[:, 1:])
    with pytest.raises(ValueError, match="dtype uint8, got float64"):
        quantizer.inverse_transform(codes.astype(float))
    with pytest.raises(ValueError, match="has 63 features"):
        quantizer.transform(digits[:, 1:])
    quantizer.set_params(n_bytes=5)  # codes stay those of the fit
    np.testing.assert_array_equal(quantizer.transform(digits), codes)
    copy = pickle.loads(pickle.dumps(quantizer))
    np.testing.assert_array_equal(copy.transform(digits), codes)
    with pytest.raises(ValueError, match="'beam_width' parameter"):
        quantizer.set_params(beam_width=65).transform(digits)


def test_verbose_prints_the_error_of_each_alternation(digits, capsys, monkeypatch):
    monkeypatch.setattr(_rounding, "MAX_ADDED", -1)
    quantizer = AdditiveQuantizer(1, n_alternations=2, verbose=True).fit(digits)
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("[AdditiveQuantizer] alternation 1 of 2, error ")
    assert last.startswith("[AdditiveQuantizer] alternation 2 of 2, error ")
    # That of the codes of the alternation, where error_ is that of codes found anew.
    assert float(last.split()[-1]) == pytest.approx(quantizer.error_, rel=0.02)


@pytest.mark.parametrize("n_rows", [300, 2100])
def test_error_is_that_of_transform(digits, n_rows):
    """With few rows, the codes that `fit` ends with are far nearer."""
    rows = np.vstack([digits, digits + 0.5, digits - 0.5])[:n_rows]
    quantizer = AdditiveQuantizer(4, **QUICK).fit(rows)
    errors = quantizer.reconstruction_error(rows)
    drawn = np.random.RandomState(0).permutation(n_rows)[:2000]
    assert quantizer.error_ == pytest.approx(errors[drawn].mean())


def test_a_device_that_is_not_there(digits):
    with pytest.raises(ValueError, match="device='nowhere'"):
        AdditiveQuantizer(device="nowhere").fit(digits)


@each("n_used", [None, 399])
def test_a_row_far_away_from_all_others_is_named(digits, n_used):
    far, equal = digits[:400].copy(), np.ones((400, 64))
    far[37] *= 1e7
    equal[37] *= 1e7
    with pytest.warns(UserWarning, match="Row 37 of X") as caught:
        for rows in far, equal:  # equal rows lose nothing
            AdditiveQuantizer(2, max_train_samples=n_used, **QUICK).fit(rows)
    assert [warning.filename for warning in caught] == [__file__]
