"""Supervised discrete hashing against enumeration and its own equations."""

from itertools import product

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

from skhash import PCAHash
from skhash.linear import SupervisedDiscreteHash
from skhash.linear._sdh import Weights, fit_discrete_codes
from skhash.losses._discrete import discrete_codes, ridge_classifier
from skhash.metrics import mean_average_precision_score

WEIGHTS = Weights(class_ridge=0.7, projection=0.3, projection_ridge=0.2)
MAX_ITER = 20


def problem(n=40, n_bits=6, n_classes=4, seed=0):
    """Features, an indicator, and first codes."""
    rng = np.random.default_rng(seed)
    features = np.hstack([rng.random((n, 7)), np.ones((n, 1))])
    classes = np.eye(n_classes)[rng.integers(0, n_classes, n)]
    return features, classes, rng.choice([-1.0, 1.0], (n, n_bits))


def fit(features, classes, codes, weights=WEIGHTS, max_iter=MAX_ITER, tol=0.0):
    tensors = map(torch.from_numpy, (features, classes, codes))
    found = fit_discrete_codes(*tensors, weights, max_iter, tol)
    projection, class_coef, values = found
    return projection.numpy(), class_coef.numpy(), values


def sweep(pull, classes, codes):
    """One solve for W and then for each bit."""
    codes, pull, classes = map(torch.from_numpy, (codes, pull, classes))
    return discrete_codes(codes, pull, classes, 1.0, WEIGHTS.class_ridge, 1).numpy()


def solved(features, classes, codes):
    """The best projection and class weights for these codes, by scikit-learn."""

    def ridge_regression(X, Y, alpha):
        coef = Ridge(alpha, fit_intercept=False, solver="svd").fit(X, Y).coef_
        return np.atleast_2d(coef).T  # of one column it has one axis

    projection = ridge_regression(features, codes, WEIGHTS.projection_ridge)
    return projection, ridge_regression(codes, classes, WEIGHTS.class_ridge)


def objective(features, classes, codes, projection, class_coef):
    def size(values):
        return np.square(values).sum()

    to_features = size(codes - features @ projection)
    return (
        size(classes - codes @ class_coef)
        + WEIGHTS.class_ridge * size(class_coef)
        + WEIGHTS.projection
        * (to_features + WEIGHTS.projection_ridge * size(projection))
    )


@each("n_bits", [1, 3])
def test_the_last_bit_of_a_sweep_is_the_best_of_all_sign_vectors(n_bits):
    features, classes, codes = problem(n=8, n_bits=n_bits)
    projection, class_coef = solved(features, classes, codes)
    new = sweep(WEIGHTS.projection * features @ projection, classes, codes)

    def value(column):
        mixed = np.hstack([new[:, :-1], np.array(column)[:, None]])
        return objective(features, classes, mixed, projection, class_coef)

    best = min(product([-1.0, 1.0], repeat=8), key=value)
    np.testing.assert_array_equal(new[:, -1], best)


def test_bits_that_may_be_either_stay():
    codes = problem()[2]
    nothing = np.zeros((40, 4))
    np.testing.assert_array_equal(sweep(np.zeros_like(codes), nothing, codes), codes)


def test_iterations_lower_the_objective_of_the_formula():
    data = problem()
    values = fit(*data)[2]
    assert 2 < len(values) < MAX_ITER
    assert (np.diff(values) <= 1e-9).all() and values[-1] < values[0]
    assert values[0] < objective(*data, *solved(*data))
    once = fit(*data, max_iter=1)[2]
    assert once.tolist() == [values[0]]


def test_class_weights_and_projection_solve_their_normal_equations(monkeypatch):
    features, classes, codes = problem()
    seen = []
    monkeypatch.setattr(
        "skhash.losses._discrete.ridge_classifier",
        lambda codes, *rest: (seen.append(codes), ridge_classifier(codes, *rest))[1],
    )
    P, W, values = fit(features, classes, codes)
    B = seen[-1].numpy()
    assert set(np.unique(B)) == {-1, 1}
    left = B.T @ B @ W + WEIGHTS.class_ridge * W
    np.testing.assert_allclose(left, B.T @ classes, atol=1e-10)
    left = features.T @ features @ P + WEIGHTS.projection_ridge * P
    np.testing.assert_allclose(left, features.T @ B, atol=1e-9)
    value = objective(features, classes, B, P, W)
    assert values[-1] == pytest.approx(value, rel=1e-12)


def test_tol_stops_early():
    data = problem(n=200)
    lengths = [len(fit(*data, tol=tol)[2]) for tol in (0.5, 0.0)]
    assert 2 == lengths[0] < lengths[1]


def blobs():
    return make_blobs(300, 5, centers=8, cluster_std=0.3, random_state=2)


def test_logits_are_the_kernel_features_projected():
    X, y = blobs()
    encoder = SupervisedDiscreteHash(
        n_bits=5, n_anchors=40, gamma=0.1, random_state=0
    ).fit(X, y)
    anchors = encoder.anchors_ + encoder.mean_
    assert anchors.shape == (40, 5)
    nearest = euclidean_distances(anchors, X).min(axis=1)
    assert nearest.max() < 1e-5  # anchors are training rows
    features = rbf_kernel(X, anchors, gamma=encoder.gamma_)
    expected = features @ encoder.coef_.T + encoder.intercept_
    np.testing.assert_allclose(encoder.decision_function(X), expected, atol=1e-4)
    # Nothing else has a say: neither the classes nor their weights.
    bits = encoder.transform(X)
    del encoder.class_coef_, encoder.classes_, encoder.objective_
    np.testing.assert_array_equal(encoder.transform(X), bits)


@each("n_anchors", [30, 10_000])
def test_auto_gamma_is_the_mean_distance_to_the_nearest_other_anchor(n_anchors):
    X, y = (np.repeat(part, 2, axis=0) for part in blobs())
    encoder = SupervisedDiscreteHash(n_bits=2, n_anchors=n_anchors, random_state=0)
    encoder.fit(X, y)
    anchors = encoder.anchors_ + encoder.mean_
    assert len(anchors) == min(n_anchors, len(X))
    distances = euclidean_distances(X, anchors)
    distances[distances < 1e-4] = np.inf
    mean = distances.min(axis=1).mean()
    assert encoder.gamma_ == pytest.approx(0.5 / mean**2, rel=1e-5)


def test_labels_of_any_type_and_their_indicator():
    X, y = blobs()
    names = np.array([f"class {label}" for label in range(8)])
    indicator = np.eye(8, dtype=int)[y]
    make = SupervisedDiscreteHash(n_bits=12, n_anchors=50, random_state=0)
    codes = make.fit(X, y).transform(X)
    for labels in (indicator, sparse.csr_array(indicator), names[y]):
        np.testing.assert_array_equal(make.fit(X, labels).transform(X), codes)
    assert make.classes_.tolist() == names.tolist()


@each("n_bits", [16, 32])
def test_retrieval_of_digits_is_better_than_without_labels(n_bits):
    X, y = load_digits(return_X_y=True)
    train, test = slice(0, 1200), slice(1200, None)

    def score(encoder):
        codes = encoder.fit(X[train], y[train]).transform(X)
        return mean_average_precision_score(
            codes[test], codes[train], y[test], y[train]
        )

    supervised = SupervisedDiscreteHash(n_bits, n_anchors=300, random_state=0)
    assert score(supervised) > 0.8 > 0.5 > score(PCAHash(n_bits))
