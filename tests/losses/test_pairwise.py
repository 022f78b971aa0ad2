"""Losses of pairs, triplets and classes against sums, scikit-learn and exact values."""

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

from skhash.losses import (
    DHNLoss,
    DSHLoss,
    DTSHLoss,
    HashNetLoss,
    SupervisedContrastiveLoss,
    _pairwise,
)
from skhash.losses._objective import pairwise_likelihood

RNG = np.random.default_rng(0)
CODES = torch.from_numpy(RNG.uniform(-1, 1, size=(7, 5)))
CLASSES = torch.tensor([[0], [1], [0], [2], [1], [0], [3]])
SETS = torch.from_numpy(RNG.integers(0, 2, size=(7, 3)))
SETS[4] = 0  # a row without labels


def by_hand(codes, labels, scale, balanced=False):
    pairs = []
    for i in range(len(codes)):
        for j in range(len(codes)):
            if i == j:
                continue
            if labels.shape[1] == 1:
                similar = float(labels[i] == labels[j])
            else:
                similar = float(int((labels[i] & labels[j]).sum()) > 0)
            theta = scale / 2 * float(codes[i] @ codes[j])
            pairs.append((similar, math.log(1 + math.exp(theta)) - similar * theta))
    n_similar = sum(similar > 0 for similar, _ in pairs)
    if not balanced:
        return sum(loss for _, loss in pairs) / len(pairs)
    means = [
        sum(loss for similar, loss in pairs if (similar > 0) == kind) / count
        for kind, count in [(True, n_similar), (False, len(pairs) - n_similar)]
    ]
    return sum(means) / 2


@each("labels", [CLASSES, SETS])
@each("scale", [0.3, 1.0, 4.0])
@each("balanced", [False, True])
def test_against_the_sum_over_pairs(labels, scale, balanced):
    loss = pairwise_likelihood(CODES, labels, scale, "balanced" if balanced else None)
    expected = by_hand(CODES, labels, scale, balanced)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("weights", "theta"), [(None, 2.5), ("balanced", 7.5)])
def test_auto_scale_bounds_theta(weights, theta):
    """The same code then costs log(1 + e^2.5) if it should not be, of any length.

    With weights there is one pair of a kind, which then counts half.
    """
    share = 1.0 if weights is None else 0.5
    for n_bits in (8, 64):
        other = torch.tensor([[0], [1]])
        codes = torch.ones(2, n_bits, dtype=torch.float64)
        loss = pairwise_likelihood(codes, other, pair_weights=weights)
        assert loss.item() == pytest.approx(share * math.log1p(math.exp(theta)))


@each("weights", [None, "balanced"])
def test_batches_of_one_kind_or_one_row_stay_finite(weights):
    for labels in (torch.zeros(7, 1).long(), torch.arange(7)[:, None]):
        codes = CODES.clone().requires_grad_()
        pairwise_likelihood(codes, labels, pair_weights=weights).backward()
        assert torch.isfinite(codes.grad).all() and codes.grad.abs().sum() > 0
    assert pairwise_likelihood(CODES[:1], CLASSES[:1], pair_weights=weights) == 0


N_BITS = 8
# Two rows of one class and two of another.
TWO_PAIRS = torch.tensor([[0], [0], [1], [1]])


def pairs_of(labels):
    """Yield i, j and whether they share a label, for all i != j."""
    sets = [set(row.nonzero()[:, 0].tolist()) for row in labels]
    if labels.shape[1] == 1:
        sets = [{label} for label in labels[:, 0].tolist()]
    for i, own in enumerate(sets):
        for j, other in enumerate(sets):
            if i != j:
                yield i, j, own, other


def likelihood(theta, is_similar):
    return math.log1p(math.exp(theta)) - is_similar * theta


@each("make_labels", [classes, several_labels])
def test_dhn_is_its_sum_over_pairs(make_labels):
    labels, logits = make_labels(), randn(14, N_BITS)
    z = np.tanh(logits.numpy())
    losses = [
        likelihood(0.3 / 2 * z[i] @ z[j], bool(own & other))
        for i, j, own, other in pairs_of(labels)
    ]
    expected = np.mean(losses) + 0.7 * np.log(np.cosh(np.abs(z) - 1)).mean()
    found = loss_of(DHNLoss(quantization_weight=0.7, logit_scale=0.3), logits, labels)
    assert found == pytest.approx(expected, abs=1e-12)


def test_automatic_scales_bound_theta_for_any_length():
    """Equal codes of two rows without a common label have <h, h> = l.

    theta then is 5 / l * l / 2 for DHN, and 10 / l * l for HashNet.
    """
    labels = torch.tensor([[0], [1]])
    for loss, theta in ((DHNLoss(), 2.5), (HashNetLoss(), 10)):
        for n_bits in (4, 64):
            found = loss_of(loss, torch.full((2, n_bits), 50.0), labels)
            assert found == pytest.approx(math.log1p(math.exp(theta)))


@each("make_labels", [classes, several_labels])
def test_dsh_is_its_sum_over_pairs(make_labels):
    labels, logits = make_labels(), randn(14, N_BITS)
    u = logits.numpy()
    losses = []
    for i, j, own, other in pairs_of(labels):
        d = ((u[i] - u[j]) ** 2).sum()
        to_signs = np.abs(np.abs(u[[i, j]]) - 1).sum()
        losses.append((d if own & other else max(11 - d, 0)) / 2 + 0.3 * to_signs)
    found = loss_of(DSHLoss(margin=11, quantization_weight=0.3), logits, labels)
    assert found == pytest.approx(np.mean(losses), abs=1e-12)


def test_dsh_of_codes():
    """Codes of signs have d = 4 d_H; the margin 2 l ends at d_H = l / 2."""
    code = randn(N_BITS).sign()
    half = torch.cat([code[: N_BITS // 2], -code[N_BITS // 2 :]])
    # Equal codes in a class, and d_H = l / 2 to the other class: all is well.
    good = torch.stack([code, code, half, half])
    assert loss_of("dsh", good, TWO_PAIRS) == pytest.approx(0, abs=1e-12)
    # Two rows of different classes with one code lose m / 2 = l.
    found = loss_of("dsh", torch.stack([code, code]), torch.tensor([[0], [1]]))
    assert found == pytest.approx(N_BITS)


@each("make_labels", [classes, several_labels])
def test_dtsh_is_its_sum_over_triplets(make_labels):
    labels, logits = make_labels(), randn(14, N_BITS)
    u = logits.numpy()
    theta = u @ u.T / 2
    similar, different = {}, {}
    for i, j, own, other in pairs_of(labels):
        (similar if own & other else different).setdefault(i, []).append(j)
    losses = [
        np.mean(
            [
                np.logaddexp(0, -(theta[q, p] - theta[q, n] - 2))
                for p in similar[q]
                for n in different[q]
            ]
        )
        for q in similar
        if q in different
    ]
    expected = np.mean(losses) + 0.3 * ((u - np.sign(u)) ** 2).mean()
    found = loss_of(DTSHLoss(margin=2, quantization_weight=0.3), logits, labels)
    assert found == pytest.approx(expected, abs=1e-12)


def test_dtsh_in_parts_is_dtsh_at_once(monkeypatch):
    labels = classes()

    def found():
        logits = randn(14, N_BITS).requires_grad_()
        loss = value(make_objective("dtsh", labels, N_BITS), logits, labels)
        return loss.detach(), torch.autograd.grad(loss, logits)[0]

    at_once = found()
    held = []
    sum_of_triplets = DTSHLoss._sum_of_triplets

    def watch(self, theta, weights, different, pairs):
        held.append(len(pairs) * len(theta))
        return sum_of_triplets(self, theta, weights, different, pairs)

    monkeypatch.setattr(_pairwise, "TRIPLET_TERMS", 3 * 14)
    monkeypatch.setattr(DTSHLoss, "_sum_of_triplets", watch)
    torch.testing.assert_close(found(), at_once)
    assert max(held) == 3 * 14


@each("make_labels", [classes, several_labels])
def test_hashnet_is_its_weighted_sum_over_pairs(make_labels):
    labels, logits = make_labels(), randn(14, N_BITS)
    h = np.tanh(logits.numpy())
    losses = {True: [], False: []}
    for i, j, own, other in pairs_of(labels):
        is_similar = bool(own & other)
        share = len(own & other) / len(own | other) if is_similar else 1
        losses[is_similar].append(share * likelihood(0.4 * h[i] @ h[j], is_similar))
    n_pairs = len(losses[True]) + len(losses[False])
    expected = sum(n_pairs / len(kind) * sum(kind) for kind in losses.values())
    found = loss_of(HashNetLoss(logit_scale=0.4), logits, labels)
    assert found == pytest.approx(expected / n_pairs)


def test_hashnet_sharpens_by_stages():
    """beta is sqrt(1 + stages): 1, sqrt 2 and sqrt 3 at epochs 0, 20 and 40."""
    logits, labels = randn(6, N_BITS), classes(6)
    for epoch, square in ((0, 1), (19, 1), (20, 2), (40, 3)):
        found = loss_of("hashnet", logits, labels, epoch=epoch)
        expected = loss_of("hashnet", math.sqrt(square) * logits, labels)
        assert found == pytest.approx(expected, abs=1e-12)
    found = loss_of(HashNetLoss(stage_epochs=5), logits, labels, epoch=5)
    assert found == pytest.approx(loss_of("hashnet", logits, labels, epoch=20))


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
    agreement = b @ b.T / (temperature * 6)
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
    agreement = codes @ codes.T / (0.5 * 6)
    is_self = torch.eye(14, dtype=torch.bool)
    total = agreement.masked_fill(is_self, -torch.inf).logsumexp(dim=1, keepdim=True)
    similar = ((labels == labels.T) & ~is_self).double()
    shares = similar / similar.sum(dim=1, keepdim=True)
    loss = (shares * (total - agreement)).sum() / 14
    (in_codes,) = torch.autograd.grad(loss, codes)
    slope = 1 - logits.detach().tanh().square()
    torch.testing.assert_close(found, in_codes * slope)
