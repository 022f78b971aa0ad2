"""The search for codes that a fit chooses."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from skhash import AdditiveQuantizer
from skhash.quantization import _search
from skhash.quantization._codebook import refine
from skhash.quantization._search import choose_search


def problem(overlap):
    """Return rows and a codebook whose blocks share columns, or none."""
    rng = np.random.default_rng(0)
    codebook = rng.normal(size=(4, 16, 12))
    owners = np.arange(12) % 4
    codebook *= np.where(owners == np.arange(4)[:, None, None], 1, overlap)
    X = codebook[np.arange(4), rng.integers(16, size=(300, 4))].sum(axis=1)
    return X + 0.3 * rng.normal(size=X.shape), codebook.astype(np.float32)


@pytest.mark.parametrize("overlap", [0, 0.3, 1])
def test_the_cheapest_search_whose_error_is_nearly_the_best(overlap):
    X, codebook = problem(overlap)
    offset, errors = np.full(12, 0.1), {}
    for width in _search.WIDTHS:
        for n in _search.RESTARTS:
            options = {"beam_width": width, "n_restarts": n}
            codes = refine(X, None, codebook, offset, **options)
            decoded = codebook.astype(float)[np.arange(4), codes].sum(axis=1) + offset
            errors[width, n] = ((X - decoded) ** 2).sum()
    found = choose_search(X, codebook, offset)
    most = _search.SLACK * errors[8, 8]
    assert errors[found] <= most
    costs = {(width, n): 4 * width + _search.COST * n for width, n in errors}
    cheaper = [one for one in errors if costs[one] < costs[found]]
    assert all(errors[one] > most for one in cheaper)
    assert (found == (1, 0)) == (overlap == 0)  # each block has its own best value


def test_a_fit_chooses_and_a_number_does_not():
    X = load_digits().data
    quantizer = AdditiveQuantizer(2, n_alternations=1, random_state=0)
    given = clone(quantizer).set_params(n_restarts=3).fit(X)
    assert (given.beam_width_, given.n_restarts_) == (8, 3)
    quantizer.fit(X)
    codes = quantizer.transform(X)
    for width, n in ((1, 0), (quantizer.beam_width_, quantizer.n_restarts_)):
        options = {"beam_width": width, "n_restarts": n}
        decoder = quantizer.codebook_, quantizer.offset_
        assert (refine(X, None, *decoder, **options) == codes).all() == (
            (width, n) == (quantizer.beam_width_, quantizer.n_restarts_)
        )
    few = clone(quantizer).fit(X[:3])  # of which none is held out
    assert (few.beam_width_, few.n_restarts_) == (8, 8)
