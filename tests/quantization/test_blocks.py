"""Blocks of bits against numpy's own packing and dense least squares."""

import numpy as np
import pytest
from scipy import sparse

from skhash.numerics._decoder import bits_to_values, sum_of_entries, values_to_bits
from skhash.quantization import _blocks
from skhash.quantization._blocks import BlockMoments, RowProducts, least_squares


def problem(n_bits, block_bits, n=300, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, size=(n, n_bits), dtype=np.uint8)
    X = rng.normal(size=(n, n_features)) + bits @ rng.normal(size=(n_bits, n_features))
    return X, bits, bits_to_values(bits, block_bits)


def one_hot(values, n_values):
    hot = [own[:, None] == np.arange(n_values) for own in values.T]
    return np.hstack(hot).astype(float)


@pytest.mark.parametrize("n_bits", [1, 4, 7, 8, 9, 16, 21])
@pytest.mark.parametrize("block_bits", [1, 4, 8])
def test_values_are_binary_numbers_and_come_back(n_bits, block_bits):
    _, bits, values = problem(n_bits, block_bits)
    for row, numbers in zip(bits[:50], values, strict=False):
        word = "".join(map(str, row))
        word += "0" * (-n_bits % block_bits)
        parts = range(0, len(word), block_bits)
        expected = [int(word[start : start + block_bits], 2) for start in parts]
        np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(values_to_bits(values, block_bits, n_bits), bits)


def walsh_ridge_rows(n_blocks, block_bits, ridge, bits_ridge):
    """Rows whose squared products with the entries add up to the penalty.

    One for each set of bits of each block: the mean over all values of the entry times
    the product of the signs of these bits.
    """
    n_values, rows = 2**block_bits, []
    signs = 1 - 2 * (
        np.arange(n_values)[:, None] >> np.arange(block_bits)[::-1] & 1
    ).astype(float)
    for block in range(n_blocks):
        for chosen in range(n_values):
            bits = [b for b in range(block_bits) if chosen >> b & 1]
            weight = bits_ridge if len(bits) == 1 else ridge
            row = np.zeros((n_blocks, n_values))
            row[block] = signs[:, bits].prod(axis=1) * np.sqrt(weight / n_values)
            rows.append(row.ravel())
    return np.array(rows)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("ridge", [0.5, 20.0])
@pytest.mark.parametrize("n_bits", [8, 11])
@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("kind", [BlockMoments, RowProducts])
def test_codebook_is_dense_least_squares_with_ridge_rows(
    kind, has_prior, n_bits, ridge, sparse_rows
):
    X, _, values = problem(n_bits, 4)
    X = np.where(np.abs(X) < 0.5, 0, X)
    rows = sparse.csr_array(X) if sparse_rows else X
    n_blocks, prior = values.shape[1], None
    if has_prior:
        shape = n_blocks, 16, X.shape[1]
        prior = np.random.default_rng(1).normal(1, size=shape).astype(np.float32)
    codebook, offset = kind(rows, values, 4).solve(ridge, prior)
    hot = one_hot(values, 16)
    # The offset is free: it is the last column, which no ridge row touches.
    design = np.hstack([hot, np.ones((len(hot), 1))])
    ridges = walsh_ridge_rows(n_blocks, 4, ridge, 1e-6 * len(X))
    wanted = np.zeros((len(ridges), X.shape[1]))
    if has_prior:
        ridges = ridge**0.5 * np.eye(16 * n_blocks)
        wanted = ridge**0.5 * prior.reshape(len(ridges), -1)
    ridges = np.hstack([ridges, np.zeros((len(ridges), 1))])
    target = np.vstack([X, wanted])
    expected = np.linalg.lstsq(np.vstack([design, ridges]), target, rcond=None)[0]
    np.testing.assert_allclose(
        sum_of_entries(values, codebook, offset), design @ expected, atol=1e-4
    )
    # Values that no row has: differences within a block are those of least squares.
    differences = expected[:-1].reshape(n_blocks, 16, -1)
    differences = differences - differences[:, :1]
    np.testing.assert_allclose(codebook - codebook[:, :1], differences, atol=1e-4)
    # Blocks add nothing in the mean, which is the offset.
    np.testing.assert_allclose(offset, X.mean(axis=0), atol=1e-6)
    means = [
        block[own].mean(axis=0) for block, own in zip(codebook, values.T, strict=True)
    ]
    np.testing.assert_allclose(means, 0, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "kind"), [(1, RowProducts), (31, RowProducts), (32, BlockMoments)]
)
def test_few_rows_make_a_system_of_as_many(n, kind):
    X, _, values = problem(16, 4, n)
    one, other = least_squares(X, values, 4), BlockMoments(X, values, 4)
    assert type(one) is kind
    for entries, expected in zip(one.solve(3.0), other.solve(3.0), strict=True):
        np.testing.assert_allclose(entries, expected, atol=1e-4)


def test_chunks_make_the_same_moments(monkeypatch):
    X, _, values = problem(16, 8)
    whole = BlockMoments(X, values, 8)

    def small_chunks(X):
        for start in range(0, len(X), 70):
            rows = slice(start, start + 70)
            yield rows, X[rows]

    monkeypatch.setattr(_blocks, "dense_chunks", small_chunks)
    parts = BlockMoments(X, values, 8)
    np.testing.assert_allclose(parts.sums, whole.sums, atol=1e-9)
    hot = one_hot(values, 256)
    hot -= hot.mean(axis=0)
    np.testing.assert_allclose(whole.moments, hot.T @ hot, atol=1e-9)
    np.testing.assert_allclose(whole.sums, hot.T @ (X - X.mean(axis=0)), atol=1e-9)


@pytest.mark.parametrize("kind", [BlockMoments, RowProducts])
def test_far_rows_have_the_same_codebook(kind):
    """Though float64 rounds their mean; whole numbers are exact."""
    X, _, values = problem(64, 4)
    near, far = (kind(np.rint(X) + at, values, 4).solve(0.1)[0] for at in (0, 2**50))
    np.testing.assert_allclose(far, near, atol=1e-6 * np.abs(near).max())
