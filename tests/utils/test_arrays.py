"""Rows of unit length against plain division, at every magnitude."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import normalize

from skhash import AdditiveQuantizer, ITQHash
from skhash.utils.arrays import check_array, is_checked, unit_rows


@each("norm", ["l1", "l2"])
@each("make", [np.asarray, sparse.csr_array])
@each("dtype", [np.float32, np.float64])
def test_unit_rows_of_all_magnitudes(dtype, make, norm):
    """A power of two changes no bit, from subnormal rows to the largest."""
    X = np.random.default_rng(0).integers(-7, 8, (300, 9)).astype(dtype)
    X[[0, 7]] = 0
    found = unit_rows(make(X), norm)
    ord_ = int(norm[1])
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(X / np.linalg.norm(X, ord_, axis=1, keepdims=True))
    finfo = np.finfo(dtype)
    powers = np.linspace(finfo.minexp - finfo.nmant, finfo.maxexp - 3, len(X))
    scaled = unit_rows(make(np.ldexp(X, powers.astype(int)[:, None])), norm)
    if make is sparse.csr_array:
        found, scaled = found.toarray(), scaled.toarray()
    assert_allclose(found, expected, rtol=4 * finfo.eps)
    assert_array_equal(scaled, found, strict=True)


@each("dtype", ["f2", "f4", "f8", ">f4", "i4", "u1"])
@each("n", [1, 40, 400])
def test_rows_of_unit_length_are_those_of_scikit_learn(dtype, n):
    """Few rows are not checked by it, nor any rows twice."""
    X = np.random.default_rng(n).integers(0, 90, size=(n, 300)).astype(dtype)
    X[n // 2] = 0
    expected = normalize(X.astype("f4") if dtype in ("f2", ">f4", "u1") else X)
    for rows in (X, np.asfortranarray(X), X[::-1][::-1]):
        found = unit_rows(rows)
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
    wrong = expected.copy()
    wrong[-1, -1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        unit_rows(wrong)


@each("estimator", [ITQHash(4), AdditiveQuantizer(1, n_alternations=1)])
def test_a_row_is_checked_as_many_are(estimator):
    X = np.random.default_rng(0).standard_normal((300, 9)).astype(np.float32)
    estimator = clone(estimator).fit(X)
    for row in (X[:1] * np.nan, X[:1] * np.inf, X[:1, :8], X[0], X[:0]):
        with pytest.raises(ValueError, match="NaN|infinity|9 features|2D|0 sample"):
            estimator.transform(row)
    assert_array_equal(estimator.transform(X[:1]), estimator.transform(X)[:1])
    assert is_checked(object(), X)  # without n_features_in_, any width passes


def test_float64_is_kept_in_all_kinds_of_columns():
    frame = pd.DataFrame({"a": [0.1, 1 / 3], "b": [1.0, 2.0]})
    kinds = [frame.astype(kind) for kind in ("double[pyarrow]", "Float64", object)]
    for form in (*kinds, kinds[-1].to_numpy(), pyarrow.Table.from_pandas(frame)):
        found = check_array(form, dtype=[np.float32, np.float64])
        assert_array_equal(found, frame.to_numpy(), strict=True)
