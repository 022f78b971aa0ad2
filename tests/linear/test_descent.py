"""Descent over bits against enumeration and direct evaluation."""

import itertools

import numpy as np
import pytest

from skhash.linear import _descent
from skhash.linear._descent import descend, enumerate_codes


def problem(n_bits, n=40, seed=0):
    """Products and Gram matrix of random rows and correlated codewords."""
    rng = np.random.default_rng(seed)
    codebook = rng.normal(size=(n_bits, n_bits)) + rng.normal(size=n_bits)
    X = 3 * rng.normal(size=(n, n_bits))
    bits = rng.integers(0, 2, size=(n, n_bits), dtype=np.uint8)
    return X @ codebook.T, codebook @ codebook.T, bits


def value(bits, products, gram):
    bits = bits.astype(float)
    return np.einsum("ij,jk,ik->i", bits, gram, bits) - 2 * (products * bits).sum(1)


def all_codes(n_bits):
    return np.array(list(itertools.product([0, 1], repeat=n_bits)), dtype=np.uint8)


@pytest.mark.parametrize("n_bits", [1, 2, 7])
def test_enumeration_is_brute_force(n_bits):
    products, gram, _ = problem(n_bits)
    codes = all_codes(n_bits)
    found = enumerate_codes(products, gram)
    for row, bits in zip(products, found, strict=True):
        values = value(codes, np.broadcast_to(row, (len(codes), n_bits)), gram)
        np.testing.assert_array_equal(bits, codes[values.argmin()])


def test_ties_go_to_the_first_code():
    """Two equal codewords: of 01 and 10, the smaller binary number is taken."""
    bits = enumerate_codes(np.array([[1.0, 1.0]]), np.ones((2, 2)))
    np.testing.assert_array_equal(bits, [[0, 1]])


@pytest.mark.parametrize("n_restarts", [0, 3])
@pytest.mark.parametrize("n_bits", [1, 9, 70])
def test_value_never_rises_and_no_single_flip_lowers_it(n_bits, n_restarts):
    products, gram, bits = problem(n_bits)
    found = descend(products, gram, bits, n_restarts=n_restarts)
    end = value(found, products, gram)
    slack = 1e-6 * np.trace(gram)
    assert (end <= value(bits, products, gram) + slack).all()
    assert (end < value(bits, products, gram) - slack).any()
    for bit in range(n_bits):
        flipped = found.copy()
        flipped[:, bit] ^= 1
        assert (value(flipped, products, gram) >= end - slack).all()


def test_descent_is_coordinate_descent_by_hand():
    products, gram, bits = problem(6)
    expected = bits.copy()
    for code, row in zip(expected, products, strict=True):
        helped = True
        while helped:
            helped = False
            for bit in range(6):
                other = code.copy()
                other[bit] ^= 1
                before, after = value(np.array([code, other]), row, gram)
                if after < before:
                    code[:] = other
                    helped = True
    np.testing.assert_array_equal(descend(products, gram, bits), expected)


def test_restarts_never_lose_and_reach_the_optimum():
    products, gram, bits = problem(10, n=200)
    optimum = value(enumerate_codes(products, gram), products, gram)
    values = [
        value(descend(products, gram, bits, n_restarts=n), products, gram)
        for n in (0, 2, 8, 200)
    ]
    slack = 1e-6 * np.trace(gram)
    for fewer, more in itertools.pairwise(values):
        assert (more <= fewer + slack).all()
    assert (values[0] > optimum + slack).mean() > 0.1
    assert (values[-1] <= optimum + slack).mean() > 0.95


def test_a_row_does_not_depend_on_blocks_threads_or_other_rows(monkeypatch):
    products, gram, bits = problem(20, n=50)
    whole = descend(products, gram, bits, n_restarts=4, n_jobs=1)
    monkeypatch.setattr(_descent, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(
        descend(products, gram, bits, n_restarts=4, n_jobs=3), whole
    )
    some = [31, 4, 4, 49]
    np.testing.assert_array_equal(
        descend(products[some], gram, bits[some], n_restarts=4), whole[some]
    )


def test_seed_draws_other_flips():
    products, gram, bits = problem(40)
    ends = [descend(products, gram, bits, n_restarts=2, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert (ends[0] != ends[2]).any()


def test_start_is_not_written_to():
    products, gram, bits = problem(9)
    before = bits.copy()
    descend(products, gram, bits, n_restarts=2)
    np.testing.assert_array_equal(bits, before)
