"""The discrete step of DSDH, against its objective and against enumeration."""

import itertools

import pytest
import torch
from cases import each
from losses.fits import classes, indicator, make_objective, randn, value

from skhash.losses import DSDHLoss
from skhash.losses._discrete import discrete_codes, ridge_classifier

N_ROWS, N_BITS = 14, 5
WEIGHT, RIDGE = 0.7, 0.3


def problem():
    pull = randn(N_ROWS, N_BITS, seed=1)
    return randn(N_ROWS, N_BITS).sign(), 0.1 * pull, indicator(classes()).double()


def objective(codes, pull, targets, classifier=None):
    """The objective of codes, with the best classifier where none is given."""
    if classifier is None:
        classifier = ridge_classifier(codes, targets, WEIGHT, RIDGE)
    error = (targets - codes @ classifier).square().sum()
    size = classifier.square().sum()
    return WEIGHT * error + RIDGE * size - 2 * (codes * pull).sum()


def test_the_classifier_solves_its_normal_equations():
    codes, pull, targets = problem()
    classifier = ridge_classifier(codes, targets, WEIGHT, RIDGE).requires_grad_()
    loss = objective(codes, pull, targets, classifier)
    (gradient,) = torch.autograd.grad(loss, classifier)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@each("weight", [0.3, 4.0])
@each("strength", [0.1, 1.0])
def test_a_sweep_takes_the_better_value_of_one_bit_after_the_other(weight, strength):
    codes, pull, targets = problem()
    pull = strength * weight * pull
    classifier = ridge_classifier(codes, targets, weight, RIDGE)

    def losses(codes):
        """Those of each row; the classifier's own size changes nothing."""
        error = (targets - codes @ classifier).square().sum(dim=1)
        return weight * error - 2 * (codes * pull).sum(dim=1)

    expected = codes.clone()
    for k in range(N_BITS):
        flipped = expected.clone()
        flipped[:, k] *= -1
        is_better = losses(flipped) < losses(expected)
        expected[is_better] = flipped[is_better]
    found = discrete_codes(codes, pull, targets, weight, RIDGE, n_sweeps=1)
    assert (expected != codes).any()
    torch.testing.assert_close(found, expected)


def test_no_single_bit_is_better_at_the_end():
    """At a fixed point of the sweeps every bit is the best one, given all others."""
    codes, pull, targets = problem()
    codes = discrete_codes(codes, pull, targets, WEIGHT, RIDGE, n_sweeps=50)
    classifier = ridge_classifier(codes, targets, WEIGHT, RIDGE)
    least = objective(codes, pull, targets, classifier)
    for i, k in itertools.product(range(N_ROWS), range(N_BITS)):
        flipped = codes.clone()
        flipped[i, k] *= -1
        assert objective(flipped, pull, targets, classifier) >= least - 1e-12


@pytest.fixture
def fit():
    labels = classes()
    return (
        make_objective(DSDHLoss(ridge=1.0), labels, N_BITS),
        randn(N_ROWS, N_BITS),
        labels,
    )


def gradient(objective, logits, labels):
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(value(objective, logits, labels), logits)[0]


def test_labels_reach_the_network_through_the_codes(fit):
    objective, logits, labels = fit
    objective.start_epoch(0)
    first = gradient(objective, logits, labels)
    objective.start_epoch(1)
    second = gradient(objective, logits, labels)
    codes = discrete_codes(
        logits.sign(),
        0.1 / N_BITS * logits,
        indicator(labels).double(),
        1.0,
        1.0 * N_ROWS,
        10,
    )
    # The likelihood is the same in both, and the other term (b - u)^2 / (n l).
    expected = 0.1 * 2 * (logits.sign() - codes) / (N_ROWS * N_BITS)
    torch.testing.assert_close(second - first, expected)
    assert expected.any()


def test_only_rows_that_were_met_have_codes(fit):
    objective, logits, labels = fit
    half = torch.arange(N_ROWS // 2)
    objective.start_epoch(0)
    value(objective, logits[half], labels[half], half)
    objective.eval()
    value(objective, logits, labels)  # a look at the validation rows
    objective.train()
    objective.start_epoch(1)
    assert objective.codes[half].abs().eq(1).all()
    assert not objective.codes[N_ROWS // 2 :].any()
