"""The likelihood of pairs against sums written out, worked values and gradients."""

import math

import numpy as np
import pytest
import torch

from skhash.losses._likelihood_of_pairs import PairwiseLikelihood, jaccard

RNG = np.random.default_rng(0)
CODES = torch.from_numpy(RNG.uniform(-1, 1, size=(7, 5)))
CLASSES = torch.tensor([[0], [1], [0], [2], [1], [0], [3]])
SETS = torch.from_numpy(RNG.integers(0, 2, size=(7, 3)))
SETS[4] = 0  # a row without labels


def by_hand(codes, labels, scale, balanced=False, similarity=None):
    pairs = []
    for i in range(len(codes)):
        for j in range(len(codes)):
            if i == j:
                continue
            if labels.shape[1] == 1:
                similar = float(labels[i] == labels[j])
            else:
                shared = int((labels[i] & labels[j]).sum())
                either = int((labels[i] | labels[j]).sum())
                similar = float(shared > 0)
                if similarity == "jaccard":
                    similar = shared / either if either else 0.0
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


@pytest.mark.parametrize("labels", [CLASSES, SETS], ids=["classes", "sets"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("similarity", [None, "jaccard"])
def test_against_the_sum_over_pairs(labels, scale, balanced, similarity):
    loss = PairwiseLikelihood(
        5,
        logit_scale=scale,
        pair_weights="balanced" if balanced else None,
        similarity=similarity,
    )
    expected = by_hand(CODES, labels, scale, balanced, similarity)
    assert loss(CODES, labels).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n_bits", [16, 32, 64])
def test_worked_values(n_bits):
    """theta is m/2 for the same code: log(1 + exp(-m/2)), 1.3e-14 for 64 bits."""
    loss = PairwiseLikelihood(n_bits, logit_scale=1.0)
    ones = torch.ones(1, n_bits, dtype=torch.float64)
    same = torch.zeros(2, 1, dtype=torch.int64)
    tail = math.log1p(math.exp(-n_bits / 2))
    assert loss(torch.cat([ones, ones]), same).item() == pytest.approx(tail, rel=1e-9)
    opposite = loss(torch.cat([ones, -ones]), same).item()
    assert opposite == pytest.approx(n_bits / 2 + tail)
    half = torch.cat([ones[:, ::2], -ones[:, ::2]], dim=1)
    assert loss(torch.cat([ones, half]), same).item() == pytest.approx(math.log(2))


def test_auto_scale_bounds_theta():
    """The same code then costs log(1 + e^2.5) if it should not be, of any length."""
    for n_bits in (8, 64):
        other = torch.tensor([[0], [1]])
        loss = PairwiseLikelihood(n_bits)(torch.ones(2, n_bits).double(), other)
        assert loss.item() == pytest.approx(math.log1p(math.exp(2.5)))


def test_theta_counts_differing_bits():
    """At distance m/2 - 1 and scale 1 theta is 1, so p(similar) is sigmoid(1)."""
    codes = torch.ones(2, 10, dtype=torch.float64)
    codes[1, :4] = -1
    loss = PairwiseLikelihood(10, logit_scale=1.0)(codes, torch.zeros(2, 1).long())
    assert math.exp(-loss.item()) == pytest.approx(1 / (1 + math.exp(-1)))


def test_gradient_in_closed_form():
    """a / (n (n - 1)) (sigmoid(Theta) - S) H without the diagonal."""
    codes, n, scale = CODES.clone().requires_grad_(), len(CODES), 1.7
    PairwiseLikelihood(5, logit_scale=scale)(codes, CLASSES).backward()
    similar = (CLASSES == CLASSES.T).double()
    residual = torch.sigmoid(scale / 2 * CODES @ CODES.T) - similar
    expected = scale / (n * (n - 1)) * residual.fill_diagonal_(0) @ CODES
    torch.testing.assert_close(codes.grad, expected)


def test_a_similarity_of_ones_own():
    def nearness(labels):
        return torch.exp(-(labels - labels.T).abs().double())

    loss = PairwiseLikelihood(5, logit_scale=1.0, similarity=nearness)
    theta = CODES @ CODES.T / 2
    terms = torch.log1p(theta.exp()) - nearness(CLASSES) * theta
    expected = terms.fill_diagonal_(0).sum() / (7 * 6)
    torch.testing.assert_close(loss(CODES, CLASSES), expected)


def test_jaccard_of_classes_is_equality():
    np.testing.assert_array_equal(jaccard(CLASSES), CLASSES == CLASSES.T)


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_batches_of_one_kind_or_one_row_stay_finite(weights):
    loss = PairwiseLikelihood(5, pair_weights=weights)
    for labels in (torch.zeros(7, 1).long(), torch.arange(7)[:, None]):
        codes = CODES.clone().requires_grad_()
        loss(codes, labels).backward()
        assert torch.isfinite(codes.grad).all() and codes.grad.abs().sum() > 0
    assert loss(CODES[:1], CLASSES[:1]) == 0
