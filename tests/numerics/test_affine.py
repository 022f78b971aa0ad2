"""Products of rows and weights against float64, and a row against the same row alone.

Sizes are those at which tiles, blocks and panels end, one less and one more.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse

from skhash.numerics import _perceptron
from skhash.numerics._affine import affine
from skhash.numerics._affine_kernels import BLOCK_ROWS, DEPTH, PANEL, TILE_ROWS
from skhash.numerics._perceptron import mlp_forward, run_on_device

FLOATS = [np.float16, np.float32, np.float64]
SHAPES = [
    (1, 1, 1),
    (TILE_ROWS - 1, 15, 7),
    (TILE_ROWS, 16, PANEL - 1),
    (TILE_ROWS + 1, 17, PANEL),
    (BLOCK_ROWS - 1, 40, PANEL + 1),
    (BLOCK_ROWS, DEPTH - 1, 20),
    (BLOCK_ROWS + 1, DEPTH, 2 * PANEL + 3),
    (2 * BLOCK_ROWS + 5, DEPTH + 1, 5),
    (3, 2 * DEPTH + 18, PANEL + 20),
]


def problem(shape, dtype=np.float32, seed=0):
    """Rows whose mean is far from 0, weights, an intercept and the mean."""
    n, n_features, n_outputs = shape
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, n_features)) + 3).astype(dtype)
    weights = rng.normal(size=(n_features, n_outputs)).astype(np.float32)
    intercept = rng.normal(size=n_outputs).astype(np.float32)
    return X, weights, intercept, rng.normal(size=n_features) + 3


@each("dtype", FLOATS)
@each("shape", SHAPES)
def test_whole_numbers_are_multiplied_without_an_error(shape, dtype):
    rng = np.random.default_rng(1)
    n, n_features, n_outputs = shape
    X = rng.integers(-20, 20, (n, n_features))
    weights = rng.integers(-9, 9, (n_features, n_outputs))
    mean = rng.integers(-5, 5, n_features)
    intercept = rng.integers(-99, 99, n_outputs)
    exact = (X - mean) @ weights + intercept
    given = [weights.astype(np.float32), intercept.astype(np.float32)]
    found = affine(X.astype(dtype), *given, mean)
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(
        affine(X.astype(dtype), *given, mean, relu=True), exact.clip(min=0)
    )
    np.testing.assert_array_equal(
        affine(X.astype(dtype), *given), X @ weights + intercept
    )


@each("dtype", FLOATS)
@each("shape", SHAPES)
def test_rounding_is_that_of_a_sum_in_float32(shape, dtype):
    """Of values that are centred in the precision of the rows."""
    X, weights, intercept, mean = problem(shape, dtype)
    own = np.float64 if dtype == np.float64 else np.float32
    centered = (X.astype(own) - mean.astype(own)).astype(np.float32).astype(np.float64)
    exact = centered @ weights + intercept
    sizes = np.abs(centered) @ np.abs(weights) + np.abs(intercept)
    bound = (shape[1] + 1) * np.finfo(np.float32).eps / 2 * sizes
    assert (np.abs(affine(X, weights, intercept, mean) - exact) <= bound).all()


@each("dtype", FLOATS)
def test_a_row_and_an_output_are_the_same_alone(dtype):
    n, n_features, n_outputs = shape = (2 * BLOCK_ROWS + 5, DEPTH + 30, PANEL + 9)
    X, weights, intercept, mean = problem(shape, dtype)
    all_ = affine(X, weights, intercept, mean)
    for first, last in pairwise([0, 1, 3, TILE_ROWS + 3, BLOCK_ROWS + 4, n]):
        part = affine(X[first:last], weights, intercept, mean)
        np.testing.assert_array_equal(part, all_[first:last])
    for first, last in pairwise([0, 1, PANEL - 1, PANEL + 2, n_outputs]):
        some = slice(first, last)
        part = affine(X, weights[:, some], intercept[some], mean)
        np.testing.assert_array_equal(part, all_[:, some])


@each("relu", [False, True])
@each("value", [np.nan, np.inf, -np.inf])
@each("dtype", FLOATS)
def test_what_is_not_finite_shows_in_all_outputs(dtype, value, relu):
    """Weights of 0, too, and hidden units that are far below 0."""
    X, weights, intercept, mean = problem((20, 40, 30), dtype)
    weights[7], weights[8] = 0, np.abs(weights[8])
    for feature in (7, 8, 39):
        wrong = X.copy()
        wrong[3, feature] = value
        found = affine(wrong, weights, intercept, mean, relu=relu)
        assert not np.isfinite(found[3]).any()
        assert np.isfinite(np.delete(found, 3, axis=0)).all()
        layers = [weights, np.zeros((30, 2), np.float32)], [intercept, np.ones(2)]
        assert not np.isfinite(mlp_forward(wrong, *layers, mean)[3]).any()
        on_device = run_on_device(
            torch.device("cpu"), wrong, list(zip(*layers, strict=True)), mean
        )
        assert not np.isfinite(on_device[3]).any()


def perceptron(widths, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [rng.normal(size=shape).astype(np.float32) for shape in pairwise(widths)],
        [rng.normal(size=width).astype(np.float32) for width in widths[1:]],
    ]


def forward_in_float64(X, coefs, intercepts, mean):
    values = X - mean
    for i, (coef, intercept) in enumerate(zip(coefs, intercepts, strict=True)):
        values = (np.maximum(values, 0) if i else values) @ coef + intercept
    return values


@pytest.mark.parametrize("widths", [(30, 5), (30, 80, 5), (30, 20, 90, 7)])
def test_layers_follow_each_other(widths, monkeypatch):
    X, _, _, mean = problem((200, 30, 1), np.float64)
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0
    layers = perceptron(widths)
    exact = forward_in_float64(X, *layers, mean)
    tolerance = 1e-5 * np.abs(exact).max()
    found = mlp_forward(X, *layers, mean)
    np.testing.assert_allclose(found, exact, atol=tolerance)
    for kind in (sparse.csr_array, sparse.csr_matrix):
        rows = kind(X)
        np.testing.assert_allclose(
            mlp_forward(rows, *layers, mean), exact, atol=tolerance
        )
    on_device = run_on_device(
        torch.device("cpu"), X, list(zip(*layers, strict=True)), mean
    )
    np.testing.assert_allclose(on_device, exact, atol=tolerance)
    monkeypatch.setattr(_perceptron, "HIDDEN_BYTES", 1000)
    np.testing.assert_array_equal(mlp_forward(X, *layers, mean), found)


ROWS, COEF, BIAS = np.ones((3, 4)), np.ones((4, 5), "f4"), np.ones(5, "f4")


@pytest.mark.parametrize(
    ("coefs", "intercepts", "mean"),
    [
        ([COEF[:3]], [BIAS], None),
        ([COEF.T], [BIAS[:4]], None),
        ([COEF[None]], [BIAS], None),
        ([COEF.ravel()], [BIAS], None),
        ([COEF[:, :0]], [BIAS[:0]], None),
        ([COEF], [BIAS[:4]], None),
        ([COEF], [BIAS[:1]], None),
        ([COEF], [BIAS[None]], None),
        ([COEF], [BIAS], np.ones(3)),
        ([COEF], [BIAS], np.ones((1, 4))),
        ([COEF, COEF], [BIAS, BIAS], None),
    ],
)
def test_layers_that_do_not_fit_are_refused(coefs, intercepts, mean):
    """The kernel takes their shapes for granted."""
    for rows in (ROWS, sparse.csr_array(ROWS)):
        with pytest.raises(ValueError, match="features"):
            mlp_forward(rows, coefs, intercepts, mean)
