"""SpectralHash against the eigenfunctions of a box, written out."""

import numpy as np
import pytest
from cases import each
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skhash.linear import SpectralHash
from skhash.linear._spectral import smoothest_modes


def test_modes_are_those_of_smallest_eigenvalue():
    widths = np.random.default_rng(0).uniform(0.2, 3, 7)
    axes, modes = smoothest_modes(widths, 40)
    assert len({*zip(axes, modes, strict=True)}) == 40
    assert modes.min() >= 1
    # Equation 7 of the paper, for a width at which all differ.
    every = [(m, w) for m in range(1, 41) for w in widths]
    eigenvalues = sorted(
        1 - np.exp(-((0.1 * m * np.pi / w) ** 2) / 2) for m, w in every
    )
    chosen = 1 - np.exp(-((0.1 * modes * np.pi / widths[axes]) ** 2) / 2)
    np.testing.assert_allclose(chosen, eigenvalues[:40])


@each("trim", [0, 0.1])
def test_logits_are_cosines_on_the_axes(trim):
    X = load_digits().data[:500]
    encoder = SpectralHash(n_bits=20, trim=trim).fit(X)
    scores = PCA(20, svd_solver="full").fit(X).transform(X)
    low, high = np.quantile(scores, [trim, 1 - trim], axis=0)
    phases = encoder.modes_ * np.pi * ((scores - low) / (high - low))[:, encoder.axes_]
    expected = np.cos(phases)
    # The sign of an axis is free, and turns the odd modes on it around.
    signs = np.where(encoder.modes_ % 2, -1, 1)
    logits = encoder.decision_function(X)
    error = np.minimum(
        np.abs(logits - expected).max(axis=0),
        np.abs(logits - signs * expected).max(axis=0),
    )
    assert error.max() < 1e-3


def test_axes_without_width_get_no_bits():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2)) @ np.eye(2, 5)
    with np.errstate(all="raise", under="ignore"):
        encoder = SpectralHash(n_bits=12).fit(X)
    assert set(encoder.axes_) == {0, 1}
    assert np.isfinite(encoder.decision_function(X)).all()
    assert (encoder.transform(X).var(axis=0) > 0).all()


def test_trim_leaves_far_rows_outside():
    X = np.append(np.linspace(0, 1, 999), 1000.0)[:, None]
    first = SpectralHash(n_bits=1, trim=0).fit(X).transform(X)[:, 0]
    assert min(first.sum(), 1000 - first.sum()) == 1
    trimmed = SpectralHash(n_bits=1, trim=0.01).fit(X).transform(X[:-1])[:, 0]
    assert abs(trimmed.sum() - 500) < 2


def test_rows_that_do_not_differ_are_refused():
    X = np.zeros((1000, 2))
    X[0] = 1
    with pytest.raises(ValueError, match=r"trim=0\.01 at each end.*Use trim=0"):
        SpectralHash(n_bits=2, trim=0.01).fit(X)
    bits = SpectralHash(n_bits=2, trim=0).fit_transform(X)
    assert bits[0, 0] != bits[1, 0]
