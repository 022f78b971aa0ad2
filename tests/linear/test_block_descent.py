"""Descent over blocks against enumeration and direct evaluation in float64."""

import itertools

import numpy as np
import pytest

from skhash.linear import _block_descent
from skhash.linear._block_descent import BlockDescent


def problem(n_blocks, n_values, n=40, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    codebook = rng.normal(size=(n_blocks, n_values, n_features))
    codebook += rng.normal(size=n_features)
    X = 3 * rng.normal(size=(n, n_features))
    values = rng.integers(0, n_values, size=(n, n_blocks), dtype=np.uint8)
    return X, codebook.astype(np.float32), values


def errors(X, codebook, values):
    codebook = codebook.astype(np.float64)
    decoded = sum(block[own] for block, own in zip(codebook, values.T, strict=True))
    return np.square(X - decoded).sum(axis=1)


def improved(X, codebook, values, n_bits=None, anchor=None, bit_cost=0.0, **options):
    n_blocks, n_values, _ = codebook.shape
    n_bits = n_bits or n_blocks * (n_values.bit_length() - 1)
    found = values.copy()
    descent = BlockDescent(codebook, n_bits, **options)
    descent.improve(X, found, anchor, bit_cost)
    return found


def all_codes(n_blocks, n_values):
    codes = list(itertools.product(range(n_values), repeat=n_blocks))
    return np.array(codes, dtype=np.uint8)


@pytest.mark.parametrize("n_values", [16, 256])
def test_one_block_has_the_best_of_all_values(n_values):
    X, codebook, values = problem(1, n_values)
    found = improved(X, codebook, values)
    best = [
        errors(np.broadcast_to(x, (n_values, 6)), codebook, all_codes(1, n_values))
        for x in X
    ]
    np.testing.assert_array_equal(found[:, 0], np.argmin(best, axis=1))


def test_two_blocks_with_restarts_have_the_best_of_all_codes():
    X, codebook, values = problem(2, 16, n=100)
    codes = all_codes(2, 16)
    best = np.array([errors(np.broadcast_to(x, (256, 6)), codebook, codes) for x in X])
    ends = [
        errors(X, codebook, improved(X, codebook, values, n_restarts=n))
        for n in (0, 2, 200)
    ]
    optimum = best.min(axis=1)
    assert (ends[0] > optimum + 1e-3).any()
    assert (ends[1] <= ends[0] + 1e-3).all()
    np.testing.assert_allclose(ends[2], optimum, atol=1e-3)


@pytest.mark.parametrize("n_restarts", [0, 3])
@pytest.mark.parametrize(("n_blocks", "n_values"), [(1, 16), (7, 16), (4, 256)])
def test_error_never_rises_and_no_other_value_lowers_it(n_blocks, n_values, n_restarts):
    X, codebook, values = problem(n_blocks, n_values)
    found = improved(X, codebook, values, n_restarts=n_restarts)
    end, slack = errors(X, codebook, found), 1e-3
    assert (end <= errors(X, codebook, values) + slack).all()
    assert (end < errors(X, codebook, values) - slack).any()
    for block, value in itertools.product(range(n_blocks), range(n_values)):
        other = found.copy()
        other[:, block] = value
        assert (errors(X, codebook, other) >= end - slack).all()


def test_descent_is_coordinate_descent_by_hand():
    X, codebook, values = problem(5, 16)
    expected = values.copy()
    for code, x in zip(expected, X, strict=True):
        helped = True
        while helped:
            helped = False
            for block in range(5):
                others = np.repeat(code[None], 16, axis=0)
                others[:, block] = np.arange(16)
                costs = errors(np.broadcast_to(x, (16, 6)), codebook, others)
                if costs.min() < costs[code[block]]:
                    code[block] = costs.argmin()
                    helped = True
    np.testing.assert_array_equal(improved(X, codebook, values), expected)


def test_bits_that_the_last_block_lacks_stay_zero():
    X, codebook, values = problem(3, 16)
    values[:, -1] &= 0b1100
    found = improved(X, codebook, values, n_bits=10, n_restarts=20)
    assert not (found[:, -1] & 0b0011).any()
    # Of the values that are allowed, no other is better.
    for value in (0, 4, 8, 12):
        other = found.copy()
        other[:, -1] = value
        gain = errors(X, codebook, found) - errors(X, codebook, other)
        assert (gain <= 1e-3).all()
    assert len(np.unique(found[:, -1])) >= 2
    start = BlockDescent(codebook, 10).start(X)
    assert not (start[:, -1] & 0b0011).any()


def test_start_takes_the_best_value_of_each_block_in_turn():
    X, codebook, _ = problem(4, 16)
    expected = np.zeros((len(X), 4), dtype=np.uint8)
    rest = X.copy()
    for block, entries in enumerate(codebook.astype(np.float64)):
        distances = np.square(rest[:, None] - entries).sum(axis=2)
        expected[:, block] = distances.argmin(axis=1)
        rest -= entries[expected[:, block]]
    np.testing.assert_array_equal(BlockDescent(codebook, 16).start(X), expected)


@pytest.mark.parametrize("bit_cost", [0.5, 5.0])
def test_bits_that_differ_cost(bit_cost):
    """The cost is of a descent: no other value of a block has a smaller sum."""
    X, codebook, values = problem(4, 16)
    anchor = np.roll(values, 1, axis=0)

    def cost(codes):
        differing = np.bitwise_count(codes ^ anchor).sum(axis=1)
        return errors(X, codebook, codes) + bit_cost * differing

    found = improved(X, codebook, values, None, anchor, bit_cost, n_restarts=3)
    assert (cost(found) <= cost(values) + 1e-3).all()
    for block, value in itertools.product(range(4), range(16)):
        other = found.copy()
        other[:, block] = value
        assert (cost(other) >= cost(found) - 1e-3).all()
    free = improved(X, codebook, values, n_restarts=3)
    assert (
        np.bitwise_count(found ^ anchor).sum() < np.bitwise_count(free ^ anchor).sum()
    )


def test_a_large_cost_keeps_all_bits():
    X, codebook, values = problem(4, 256)
    found = improved(X, codebook, values, None, values, 1e6, n_restarts=5)
    np.testing.assert_array_equal(found, values)


def test_a_row_does_not_depend_on_chunks_threads_or_other_rows(monkeypatch):
    X, codebook, values = problem(6, 256, n=50)
    whole = improved(X, codebook, values, n_restarts=4, n_jobs=1)
    chunks = _block_descent.row_chunks
    monkeypatch.setattr(
        _block_descent,
        "row_chunks",
        lambda n, size, budget=None: chunks(n, 1, 7 if budget is None else 3),
    )
    np.testing.assert_array_equal(
        improved(X, codebook, values, n_restarts=4, n_jobs=3), whole
    )
    monkeypatch.undo()
    some = [31, 4, 4, 49]
    np.testing.assert_array_equal(
        improved(X[some], codebook, values[some], n_restarts=4), whole[some]
    )


def test_seed_draws_other_changes():
    X, codebook, values = problem(8, 16, n_features=12)
    ends = [improved(X, codebook, values, n_restarts=2, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert (ends[0] != ends[2]).any()
