"""`merge_neighbors` against a sort of everything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skhash.neighbors import HammingNeighbors, merge_neighbors


@given(seed=st.integers(0, 10**6), n_parts=st.integers(1, 5), k=st.integers(0, 12))
def test_equals_a_sort_of_all(seed, n_parts, k):
    rng = np.random.default_rng(seed)
    widths = rng.integers(0, 6, n_parts)
    places = rng.permutation(widths.sum())
    parts = []
    for start, width in zip(np.cumsum(widths) - widths, widths, strict=True):
        distances = rng.integers(0, 4, (3, width))
        positions = np.tile(places[start : start + width], (3, 1))
        parts.append((distances, positions))
    if k > widths.sum():
        with pytest.raises(ValueError, match=f"n_neighbors={k}"):
            merge_neighbors(parts, k)
        return
    found = merge_neighbors(parts, k)
    for query in range(3):
        pairs = sorted(
            pair for d, p in parts for pair in zip(d[query], p[query], strict=True)
        )
        expected = np.array(pairs[:k], dtype=int).reshape(k, 2)
        assert_array_equal(np.stack(found, axis=2)[query], expected)


def test_default_is_the_widest_part():
    a = np.array([[1, 5]]), np.array([[3, 4]])
    b = np.array([[2]]), np.array([[9]])
    assert_array_equal(merge_neighbors([a, b])[1], [[3, 9]])
    assert merge_neighbors([(np.empty((1, 0)),) * 2, a])[1].dtype == int
    ids = np.array([["c", "a"]])
    assert_array_equal(merge_neighbors([(np.array([[1, 1]]), ids)])[1], [["a", "c"]])


def test_errors():
    good = np.zeros((2, 3)), np.zeros((2, 3), int)
    with pytest.raises(ValueError, match="no parts"):
        merge_neighbors([])
    for other in (
        (np.zeros((1, 3)), np.zeros((1, 3), int)),
        (np.zeros((2, 3)), np.zeros((2, 2), int)),
        (np.zeros(2), np.zeros(2, int)),
        (np.zeros((2, 3)),) * 3,
    ):
        with pytest.raises(ValueError, match="same number of queries"):
            merge_neighbors([good, other])
    with pytest.raises(ValueError, match="one kind, got .*int64.*uint64"):
        merge_neighbors([good, (good[0], good[1].astype(np.uint64))])
    codes = np.eye(8, dtype=int)
    index = HammingNeighbors(2).fit(codes)
    distances, positions = merge_neighbors([index.kneighbors(codes)] * 2, 4)
    assert_array_equal(distances[:, :2], 0)
    assert_array_equal(positions[:, 0], range(8))
