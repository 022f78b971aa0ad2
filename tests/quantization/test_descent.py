"""Descents over bits and over blocks, against enumeration and direct evaluation.

A block of two values, of which the first is zero, is a bit.
"""

import itertools

import numpy as np
import pytest

from skhash.quantization import _descent
from skhash.quantization._descent import BlockDescent, enumerate_codes


def problem(n_blocks, n_values, n=40, n_features=6, seed=0):
    """Rows, a codebook of correlated entries, and random values."""
    rng = np.random.default_rng(seed)
    codebook = rng.normal(size=(n_blocks, n_values, n_features))
    codebook += rng.normal(size=n_features)
    if n_values == 2:
        codebook[:, 0] = 0
    X = 3 * rng.normal(size=(n, n_features))
    values = rng.integers(0, n_values, size=(n, n_blocks), dtype=np.uint8)
    return X, codebook.astype(np.float32), values


def errors(X, codebook, values):
    codebook = codebook.astype(np.float64)
    decoded = sum(block[own] for block, own in zip(codebook, values.T, strict=True))
    return np.square(X - decoded).sum(axis=1)


def all_errors(X, codebook):
    """The error of each row by each code, and the codes."""
    n_blocks, n_values, _ = codebook.shape
    codes = list(itertools.product(range(n_values), repeat=n_blocks))
    codes = np.array(codes, dtype=np.uint8)
    return np.array([errors(x[None], codebook, codes) for x in X]), codes


def descent_of(codebook, n_bits=None, **options):
    n_blocks, n_values, _ = codebook.shape
    codebook = codebook[:, 1] if n_values == 2 else codebook
    n_bits = n_bits or n_blocks * (n_values.bit_length() - 1)
    return BlockDescent(codebook, n_bits, **options)


def improved(X, codebook, values, anchor=None, bit_cost=0.0, **options):
    found = values.copy()
    descent_of(codebook, **options).improve(X, found, anchor, bit_cost)
    return found


@pytest.mark.parametrize("n_bits", [1, 2, 7])
def test_enumeration_is_brute_force(n_bits):
    X, codebook, _ = problem(n_bits, 2)
    codewords = codebook[:, 1].astype(np.float64)
    found = enumerate_codes(X @ codewords.T, codewords @ codewords.T)
    values, codes = all_errors(X, codebook)
    np.testing.assert_array_equal(found, codes[values.argmin(axis=1)])


def test_ties_go_to_the_first_code():
    """Two equal codewords: of 01 and 10, the smaller binary number is taken."""
    bits = enumerate_codes(np.array([[1.0, 1.0]]), np.ones((2, 2)))
    np.testing.assert_array_equal(bits, [[0, 1]])


@pytest.mark.parametrize("n_blocks, n_values", [(10, 2), (2, 16)])
def test_restarts_never_lose_and_reach_the_optimum(n_blocks, n_values):
    X, codebook, values = problem(n_blocks, n_values, n=100, n_features=10)
    optimum = all_errors(X, codebook)[0].min(axis=1)
    ends = [
        errors(X, codebook, improved(X, codebook, values, n_restarts=n))
        for n in (0, 2, 8, 200)
    ]
    for fewer, more in itertools.pairwise(ends):
        assert (more <= fewer + 1e-3).all()
    assert (ends[0] > optimum + 1e-3).mean() > 0.1
    assert (ends[-1] <= optimum + 1e-3).mean() > 0.95


@pytest.mark.parametrize("bit_cost", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("n_blocks, n_values", [(1, 16), (9, 2), (70, 2), (4, 256)])
def test_descent_is_coordinate_descent_by_hand(n_blocks, n_values, bit_cost):
    """Bits that differ from those of an anchor cost."""
    X, codebook, values = problem(n_blocks, n_values, n=20)
    anchor, expected = np.roll(values, 1, axis=0), values.copy()
    for code, x, own in zip(expected, X, anchor, strict=True):
        helped = True
        while helped:
            helped = False
            for block in range(n_blocks):
                others = np.repeat(code[None], n_values, axis=0)
                others[:, block] = np.arange(n_values)
                costs = errors(x[None], codebook, others)
                costs += bit_cost * np.bitwise_count(others ^ own).sum(axis=1)
                if costs.min() < costs[code[block]]:
                    code[block] = costs.argmin()
                    helped = True
    found = improved(X, codebook, values, anchor, bit_cost)
    np.testing.assert_array_equal(found, expected)


def test_bits_that_the_last_block_lacks_stay_zero():
    X, codebook, values = problem(3, 16)
    values[:, -1] &= 0b1100
    found = improved(X, codebook, values, n_bits=10, n_restarts=20)
    assert not (found[:, -1] & 0b0011).any()
    # Of the values that are allowed, no other is better.
    least = errors(X, codebook, found)
    for value in (0, 4, 8, 12):
        other = found.copy()
        other[:, -1] = value
        assert (errors(X, codebook, other) >= least - 1e-3).all()
    assert len(np.unique(found[:, -1])) >= 2


@pytest.mark.parametrize("n_values", [2, 16])
def test_bits_that_differ_cost_restarts_too(n_values):
    X, codebook, values = problem(4, n_values)
    kept = improved(X, codebook, values, values, 1e6, n_restarts=5)
    np.testing.assert_array_equal(kept, values)


@pytest.mark.parametrize("n_values", [2, 16, 256])
def test_a_row_does_not_depend_on_chunks_threads_or_other_rows(n_values, monkeypatch):
    X, codebook, values = problem(6, n_values, n=50)
    whole = improved(X, codebook, values, n_restarts=4, n_jobs=1)
    chunks = _descent.row_chunks
    monkeypatch.setattr(
        _descent,
        "row_chunks",
        lambda n, size, budget=None: chunks(n, 1, 7 if budget is None else 3),
    )
    again = improved(X, codebook, values, n_restarts=4, n_jobs=3)
    np.testing.assert_array_equal(again, whole)
    monkeypatch.undo()
    some = [31, 4, 4, 49]
    np.testing.assert_array_equal(
        improved(X[some], codebook, values[some], n_restarts=4), whole[some]
    )


@pytest.mark.parametrize("n_blocks, n_values", [(40, 2), (8, 16)])
def test_seed_draws_other_changes(n_blocks, n_values):
    X, codebook, values = problem(n_blocks, n_values, n_features=40)
    ends = [improved(X, codebook, values, n_restarts=2, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert (ends[0] != ends[2]).any()
