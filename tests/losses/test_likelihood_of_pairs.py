"""The likelihood of pairs against sums written out, worked values and gradients."""

import math

import numpy as np
import pytest
import torch
from cases import each

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
