"""Rows of unit length against plain division, at every magnitude."""

import numpy as np
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skhash.utils.arrays import unit_rows


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
