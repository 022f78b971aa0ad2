"""The beam search, against the same search by errors of decoded codes in float64."""

import numpy as np
import pytest
import torch

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


@pytest.mark.parametrize("n_values", [16, 256])
@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_the_best_codes_are_kept_block_by_block(n_blocks, n_values):
    X, codebook = problem(n_blocks, n_values)
    for width in (1, 2, 3, 5, 17, 33, MAX_WIDTH):
        found = search(X, codebook, width)
        np.testing.assert_array_equal(found, by_hand(X, codebook, width), str(width))


def test_entries_may_have_any_length():
    """One in each second block is a million times as long as others."""
    X, codebook = problem(6, 16, n=100)
    codebook[::2, 3] *= 1e6
    np.testing.assert_array_equal(search(X, codebook, 8), by_hand(X, codebook, 8))
    rows = codebook[0, 3] + X
    found = errors(rows, codebook, search(rows, codebook, 8))
    assert (found < 1e-4 * np.square(rows).sum(axis=1)).all()


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


@pytest.mark.parametrize("n_values", [16, 256])
@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_a_device_finds_the_same_codes(n_blocks, n_values, device, monkeypatch):
    from skhash.quantization import _beam_torch

    X, codebook = problem(n_blocks, n_values)
    monkeypatch.setattr(_beam_torch, "BLOCK_BYTES", 2**17)  # some rows at a time
    for width in (1, 3, MAX_WIDTH):
        found = np.empty((len(X), n_blocks), dtype=np.uint8)
        search = _beam_torch.TorchBeamSearch(codebook, width, torch.device(device))
        search.search(X, found)
        np.testing.assert_array_equal(found, by_hand(X, codebook, width), str(width))
