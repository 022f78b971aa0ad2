"""The beam search, against the same search by errors of decoded codes in float64."""

import numpy as np
import pytest

from skhash.quantization import _beam
from skhash.quantization._beam import MAX_WIDTH, BeamSearch


def errors(X, codebook, codes):
    blocks = zip(codebook.astype(np.float64), codes.T, strict=False)
    return np.square(X - sum(block[own] for block, own in blocks)).sum(axis=1)


def by_hand(X, codebook, width):
    """Return codes of a beam search that decodes all that it compares."""
    found = []
    for x in X:
        kept = np.empty((1, 0), dtype=int)
        for block in range(len(codebook)):
            values = np.tile(np.arange(codebook.shape[1]), len(kept))
            longer = np.column_stack([kept.repeat(codebook.shape[1], axis=0), values])
            costs = errors(x, codebook[: block + 1], longer)
            kept = longer[np.argsort(costs, kind="stable")[:width]]
        found.append(kept[0])
    return np.array(found)


def search(X, codebook, width, n_jobs=None):
    values = np.empty((len(X), len(codebook)), dtype=np.uint8)
    BeamSearch(codebook, width, n_jobs).search(X, values)
    return values


def problem(n_blocks, n_values, n=40, n_features=7, seed=0):
    rng = np.random.default_rng(seed)
    codebook = rng.normal(size=(n_blocks, n_values, n_features)) + rng.normal()
    return 3 * rng.normal(size=(n, n_features)), codebook.astype(np.float32)


def axis_problem(n_blocks, n_values):
    """Every entry lies on an axis: cosines are 0, 1 and -1, which rounding keeps."""
    rng = np.random.default_rng(0)
    axes = np.eye(3)[rng.integers(3, size=(n_blocks, n_values))]
    lengths = rng.normal(size=(n_blocks, n_values, 1))
    return 2 * rng.normal(size=(30, 3)), (axes * lengths).astype(np.float32)


@pytest.mark.parametrize("n_values", [16, 256])
@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_the_best_codes_are_kept_block_by_block(n_blocks, n_values):
    X, codebook = axis_problem(n_blocks, n_values)
    for width in (1, 2, 3, 5, 17, 33, MAX_WIDTH):
        found = search(X, codebook, width)
        np.testing.assert_array_equal(found, by_hand(X, codebook, width), str(width))


@pytest.mark.parametrize("n_values", [16, 256])
def test_rounded_cosines_hardly_raise_errors(n_values):
    """Nor with entries a million times as long as others."""
    X, codebook = problem(6, n_values, n=100)
    far = codebook.copy()
    far[::2, 3] *= 1e6
    for entries in (codebook, far):
        for width in (2, 16):
            found = errors(X, entries, search(X, entries, width)).sum()
            exact = errors(X, entries, by_hand(X, entries, width)).sum()
            assert found < 1.01 * exact
        wide = errors(X, entries, search(X, entries, 32)).sum()
        assert wide < errors(X, entries, search(X, entries, 1)).sum()
    rows = far[0, 3] + X  # whose code needs such an entry
    assert (errors(rows, far, search(rows, far, 8)) < 1e-4 * (rows**2).sum(1)).all()


def test_of_equal_costs_the_first_is_taken():
    X, codebook = problem(3, 16)
    twins = np.repeat(codebook[:, ::2], 2, axis=1)
    assert not (search(X, twins, 8) % 2).any()
    assert not search(X, np.zeros_like(codebook), MAX_WIDTH).any()


def test_a_row_does_not_depend_on_chunks_threads_or_other_rows(monkeypatch):
    X, codebook = problem(4, 256, n=50)
    whole = search(X, codebook, 8, n_jobs=1)
    monkeypatch.setattr(_beam, "ROWS", 7)
    np.testing.assert_array_equal(search(X, codebook, 8, n_jobs=3), whole)
    some = [31, 4, 4, 49]
    np.testing.assert_array_equal(search(X[some], codebook, 8), whole[some])
