"""The width of the beam that a fit chooses."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from skhash import AdditiveQuantizer
from skhash.quantization import _search
from skhash.quantization._codebook import find_codes
from skhash.quantization._search import choose_width


def problem(overlap):
    """Return rows and a codebook whose blocks share columns, or none."""
    rng = np.random.default_rng(0)
    codebook = rng.normal(size=(4, 16, 12))
    owners = np.arange(12) % 4
    codebook *= np.where(owners == np.arange(4)[:, None, None], 1, overlap)
    X = codebook[np.arange(4), rng.integers(16, size=(300, 4))].sum(axis=1)
    return X + 0.3 * rng.normal(size=X.shape), codebook.astype(np.float32)


@pytest.mark.parametrize("overlap", [0, 0.3, 1])
def test_the_least_width_whose_error_is_nearly_the_best(overlap):
    X, codebook = problem(overlap)
    offset, errors = np.full(12, 0.1), {}
    for width in _search.WIDTHS:
        codes = find_codes(X, codebook, offset, width)
        decoded = codebook.astype(float)[np.arange(4), codes].sum(axis=1) + offset
        errors[width] = ((X - decoded) ** 2).sum()
    found = choose_width(X, codebook, offset)
    most = _search.SLACK * errors[32]
    assert errors[found] <= most
    assert all(errors[width] > most for width in errors if width < found)
    assert (found == 1) == (overlap == 0)  # each block has its own best value


def test_a_fit_chooses_and_a_number_does_not():
    X = load_digits().data
    quantizer = AdditiveQuantizer(2, n_alternations=1, random_state=0)
    assert clone(quantizer).set_params(beam_width=3).fit(X).beam_width_ == 3
    quantizer.fit(X)
    codes = quantizer.transform(X)
    for width in (1, quantizer.beam_width_):
        again = find_codes(X, quantizer.codebook_, quantizer.offset_, width)
        assert (again == codes).all() == (width == quantizer.beam_width_)
    few = clone(quantizer).fit(X[:3])  # of which none is held out
    assert few.beam_width_ == 32
