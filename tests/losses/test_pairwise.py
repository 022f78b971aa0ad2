"""Losses of pairs and triplets against sums over all of them, and exact values."""

import math

import numpy as np
import pytest
import torch
from cases import each
from losses.fits import classes, loss_of, make_objective, randn, several_labels, value

from skhash.losses import DHNLoss, DSHLoss, DTSHLoss, HashNetLoss, _pairwise

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
