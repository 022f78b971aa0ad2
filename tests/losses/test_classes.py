"""Cross-entropy against scikit-learn's, contrast against its sum."""

import math

import numpy as np
import pytest
import torch
from cases import each
from losses.fits import (
    classes,
    indicator,
    loss_of,
    make_objective,
    randn,
    several_labels,
    value,
)
from scipy import stats
from sklearn.metrics import log_loss

from skhash.losses import SupervisedContrastiveLoss


def test_cross_entropy_is_that_of_its_classifier():
    labels, logits = classes(), randn(14, 6)
    objective = make_objective("cross_entropy", labels)
    scores = logits.tanh() @ objective.weight.T + objective.bias
    expected = log_loss(labels[:, 0], scores.softmax(dim=1).detach())
    assert value(objective, logits, labels).item() == pytest.approx(expected)


def test_cross_entropy_of_several_labels_is_one_a_label():
    labels, logits = several_labels(), randn(14, 6)
    objective = make_objective("cross_entropy", labels)
    scores = logits.tanh() @ objective.weight.T + objective.bias
    chances = scores.sigmoid().detach().numpy()
    expected = [log_loss(labels[:, k], chances[:, k]) for k in range(3)]
    found = value(objective, logits, labels).item()
    assert found == pytest.approx(np.mean(expected))


def test_the_classifier_starts_as_a_linear_layer_of_torch():
    """Uniform within 1 / sqrt(n_bits) to either side of 0."""
    labels = classes(n_classes=40)
    weight = make_objective("cross_entropy", labels, 60, 40).weight.detach().ravel()
    assert stats.kstest(math.sqrt(60) * weight, "uniform", (-1, 2)).pvalue > 1e-3


@each("temperature", [0.5, 2.0])
@each("make_labels", [classes, several_labels])
def test_contrast_is_its_sum(temperature, make_labels):
    labels, logits = make_labels(), randn(14, 6)
    y = (indicator(labels) if labels.shape[1] == 1 else labels).numpy()
    b = np.sign(logits.numpy())
    agreement = b @ b.T / (temperature * math.sqrt(6))
    losses = []
    for i in range(14):
        others = [j for j in range(14) if j != i]
        total = np.logaddexp.reduce(agreement[i, others])
        near = [total - agreement[i, j] for j in others if y[i] @ y[j]]
        losses += [np.mean(near)] if near else []
    found = loss_of(SupervisedContrastiveLoss(temperature), logits, labels)
    assert found == pytest.approx(np.mean(losses), abs=1e-12)


def test_contrast_passes_signs_with_the_slope_of_tanh():
    labels, logits = classes(), randn(14, 6).requires_grad_()
    objective = make_objective(SupervisedContrastiveLoss(0.5), labels)
    (found,) = torch.autograd.grad(value(objective, logits, labels), logits)
    # The same loss as a function of codes that may take any value.
    codes = logits.detach().sign().requires_grad_()
    agreement = codes @ codes.T / (0.5 * math.sqrt(6))
    is_self = torch.eye(14, dtype=torch.bool)
    total = agreement.masked_fill(is_self, -torch.inf).logsumexp(dim=1, keepdim=True)
    similar = ((labels == labels.T) & ~is_self).double()
    shares = similar / similar.sum(dim=1, keepdim=True)
    loss = (shares * (total - agreement)).sum() / 14
    (in_codes,) = torch.autograd.grad(loss, codes)
    slope = 1 - logits.detach().tanh().square()
    torch.testing.assert_close(found, in_codes * slope)
