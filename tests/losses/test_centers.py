"""Centres and the losses that draw rows to them: exact values and other formulas."""

import math
from math import comb

import numpy as np
import pytest
import torch
from cases import each
from losses.fits import (
    N_FEATURES,
    classes,
    indicator,
    linear_encoder,
    loss_of,
    make_objective,
    randn,
    several_labels,
    value,
)
from scipy import stats
from scipy.special import expit, log_softmax, softmax

from skhash.losses import CSQLoss, MDSHCLoss, OrthoHashLoss, hash_centers
from skhash.losses._centers import gilbert_varshamov_distance, multilabel_centers

METHODS = ["hadamard", "bernoulli", "distance"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def distances(centers):
    """Return the Hamming distances of all pairs, as a set and the least."""
    n_bits = centers.shape[1]
    pairs = torch.triu_indices(len(centers), len(centers), offset=1)
    found = ((n_bits - centers @ centers.T) / 2)[tuple(pairs)]
    return set(found.tolist()), found.min()


@each("method", METHODS)
@each("n_classes, n_bits", [(3, 1), (10, 16), (40, 19), (2, 64)])
def test_centers_are_codes_and_follow_the_seed(method, n_classes, n_bits):
    centers = hash_centers(n_classes, n_bits, method, generator())
    assert centers.shape == (n_classes, n_bits) and centers.abs().eq(1).all()
    again = hash_centers(n_classes, n_bits, method, generator())
    assert torch.equal(centers, again)
    if n_bits > 1:
        other = hash_centers(n_classes, n_bits, method, generator(1))
        assert not torch.equal(centers, other)


@each("n_bits", [2, 16, 64])
def test_hadamard_centers_differ_in_half_of_the_bits_or_in_all(n_bits):
    half, whole = n_bits / 2, float(n_bits)
    assert distances(hash_centers(n_bits, n_bits, "hadamard", generator()))[0] == {half}
    twice = hash_centers(2 * n_bits, n_bits, "hadamard", generator())
    assert distances(twice)[0] == {half, whole}


def test_hadamard_centers_of_other_lengths_are_put_together():
    """48 = 32 + 16: up to 16 classes differ in 16 + 8 bits, beyond in 16 at least."""
    few = hash_centers(16, 48, "hadamard", generator())
    assert distances(few)[0] == {24.0}
    assert distances(hash_centers(64, 48, "hadamard", generator()))[1] >= 16


def test_hadamard_centers_have_random_signs_and_order():
    """A single centre is each row of the matrix, or its negation, about as often."""
    rng = generator()
    found = [tuple(hash_centers(1, 4, "hadamard", rng)[0].tolist()) for _ in range(800)]
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == 8 and stats.chisquare(counts).pvalue > 1e-3


def test_random_centers_are_balanced():
    """The mean of 64 000 signs has a standard deviation of 0.004."""
    centers = hash_centers(1000, 64, "bernoulli", generator())
    assert abs(centers.mean()) < 0.02
    assert centers.mean(dim=0).abs().max() < 0.2


def ball(n_bits, radius):
    return sum(comb(n_bits, j) for j in range(radius + 1))


@each("n_classes", [2, 10, 100])
@each("n_bits", [8, 16, 48])
def test_the_distance_is_that_of_the_rule(n_classes, n_bits):
    """V(d - 1) >= 2^l / C > V(d - 2), by exact integers."""
    d = gilbert_varshamov_distance(n_classes, n_bits)
    assert n_classes * ball(n_bits, d - 1) >= 2**n_bits
    assert d == 1 or n_classes * ball(n_bits, d - 2) < 2**n_bits


@each(
    "n_classes, n_bits", [(10, 16), (10, 48), (21, 12), (100, 16), (100, 19), (100, 48)]
)
def test_distant_centers_keep_the_distance(n_classes, n_bits):
    target = gilbert_varshamov_distance(n_classes, n_bits)
    least = distances(hash_centers(n_classes, n_bits, "distance", generator()))[1]
    assert least >= target
    random = distances(hash_centers(n_classes, n_bits, "bernoulli", generator()))[1]
    assert random < target


def test_centers_of_several_labels_are_signs_of_sums():
    centers = hash_centers(3, 16, "bernoulli", generator())
    ties = hash_centers(1, 16, "bernoulli", generator(1))[0]
    one = multilabel_centers(torch.eye(3), centers, ties)
    assert torch.equal(one, centers)
    (two,) = multilabel_centers(torch.tensor([[1.0, 1.0, 0.0]]), centers, ties)
    agree = centers[0] == centers[1]
    assert torch.equal(two[agree], centers[0][agree])
    assert torch.equal(two[~agree], ties[~agree])
    (three,) = multilabel_centers(torch.ones(1, 3), centers, ties)
    assert torch.equal(three, centers.sum(dim=0).sign())


@each("loss", [CSQLoss, MDSHCLoss, OrthoHashLoss])
def test_unknown_centers_are_refused(loss):
    with pytest.raises(ValueError, match="'centers'.*'paley'"):
        make_objective(loss(centers="paley"), classes())
    with pytest.raises(ValueError, match="centers='paley'.*'bernoulli'"):
        hash_centers(3, 8, "paley", torch.Generator())


def centers_of(loss, n_bits, n_classes):
    """The centres that a fit starts with, in float64."""
    labels = classes(n_classes, n_classes)
    return make_objective(loss, labels, n_bits, n_classes).centers


@each("margin_type", ["cos", "arc"])
@each("make_labels", [classes, several_labels])
def test_orthohash_is_its_formula(margin_type, make_labels):
    loss = OrthoHashLoss("bernoulli", margin=0.3, margin_type=margin_type, scale=5.0)
    labels, logits = make_labels(), randn(14, 6)
    y = (indicator(labels) if labels.shape[1] == 1 else labels).numpy()
    centers = centers_of(loss, 6, 3).numpy()
    h = logits.numpy()
    q = h @ centers.T / np.linalg.norm(h, axis=1, keepdims=True) / math.sqrt(6)
    raised = q - 0.3 if margin_type == "cos" else np.cos(np.arccos(q) + 0.3)
    surprise = -log_softmax(5 * np.where(y, raised, q), axis=1)
    has_label = y.any(axis=1)
    losses = (y * surprise).sum(axis=1)[has_label] / y.sum(axis=1)[has_label]
    found = loss_of(loss, logits, labels)
    assert found == pytest.approx(losses.mean(), abs=1e-12)


def test_orthohash_has_finite_gradients_at_its_centers():
    loss = OrthoHashLoss("hadamard", margin_type="arc")
    for sign in (1, -1):
        codes = (sign * centers_of(loss, 4, 3)).requires_grad_()
        found = value(make_objective(loss, classes(3), 4), codes, classes(3))
        (gradient,) = torch.autograd.grad(found, codes)
        assert gradient.isfinite().all()


def test_csq_is_its_formula():
    loss = CSQLoss(quantization_weight=0.3)
    labels, logits = classes(), randn(14, 8)
    p = expit(2 * logits.numpy())
    c = (centers_of(loss, 8, 3)[labels[:, 0]].numpy() + 1) / 2
    entropies = -(c * np.log(p) + (1 - c) * np.log(1 - p))
    to_signs = np.log(np.cosh(np.abs(2 * p - 1) - 1))
    expected = (entropies + 0.3 * to_signs).mean()
    assert loss_of(loss, logits, labels) == pytest.approx(expected, abs=1e-12)


def test_csq_breaks_ties_by_a_random_code():
    """Two centres that are opposite in a bit leave its sign to the code."""
    ties = make_objective("csq", several_labels(), 400).ties
    assert ties.abs().eq(1).all() and abs(ties.mean()) < 4 / 400**0.5


def test_csq_leaves_rows_without_a_label_out():
    labels, logits = several_labels(), randn(14, 8)
    objective = make_objective("csq", labels, 8)
    has_label = labels.any(dim=1)
    assert not has_label.all()
    torch.testing.assert_close(
        value(objective, logits, labels),
        value(objective, logits[has_label], labels[has_label]),
    )


def test_mdshc_is_its_formula_before_there_are_pairs():
    loss = MDSHCLoss(quantization_weight=0.3)
    labels, logits = classes(), randn(14, 8)
    u = np.tanh(logits.numpy())
    centers = centers_of(loss, 8, 3).numpy()
    p = softmax(u @ centers.T / np.linalg.norm(u, axis=1, keepdims=True), axis=1)
    terms = np.where(indicator(labels), np.log(p), np.log(1 - p))
    expected = -terms.mean() + 0.3 * ((np.abs(u) - 1) ** 2).mean()
    assert loss_of(loss, logits, labels) == pytest.approx(expected, abs=1e-12)


def test_mdshc_stays_finite_where_a_probability_is_1():
    """At 1024 bits q = (1 - p) / (C - 1) is e^{-32}, below the rounding of 1 - p."""
    codes = (50 * centers_of("mdshc", 1024, 3)).float().requires_grad_()
    labels = torch.tensor([[1], [1], [2]])  # the first row is at a wrong centre
    objective = make_objective("mdshc", labels, 1024).float().eval()
    found = value(objective, codes, labels)
    (gradient,) = torch.autograd.grad(found, codes)
    # Twice 32 for the first row (its own log p, and log(1 - p) of the wrong centre).
    assert found.item() == pytest.approx(64 / 9, rel=0.05)
    assert gradient.isfinite().all()


@pytest.fixture
def pairs():
    """An objective of pairs only, its encoder, and a batch."""
    encoder, labels, X = linear_encoder(), classes(), randn(14, N_FEATURES)
    loss = MDSHCLoss(pair_epoch=2, momentum=0.75, quantization_weight=0.0)
    return make_objective(loss, labels, encoder=encoder), encoder, X, labels


def pair_loss(objective, encoder, X, labels, epoch=2):
    """Return the second term alone: what starts with its epoch."""
    logits = encoder(X).detach()
    objective.start_epoch(0)
    without = value(objective, logits, labels, X=X)
    objective.start_epoch(epoch)
    return value(objective, logits, labels, X=X) - without


def expected_pair_loss(u, m, labels):
    u, m = (x / x.norm(dim=1, keepdim=True) for x in (u, m))
    similar = labels == labels.T
    return torch.nn.functional.softplus((1 - u @ m.T) / 2)[similar].mean()


def test_pairs_count_from_their_epoch_on(pairs):
    assert pair_loss(*pairs, epoch=1) == 0
    # Between equal and opposite codes: log 2 and log(1 + e).
    assert math.log(2) < pair_loss(*pairs) < math.log1p(math.e)


def test_pairs_are_with_outputs_of_an_average_of_the_encoder(pairs):
    objective, encoder, X, labels = pairs
    start = encoder.weight.data.clone()
    encoder.weight.data = randn(*start.shape, seed=11)
    # The average moves by a quarter of what is left, once for each batch.
    average = start
    for _ in range(2):
        average = average + 0.25 * (encoder.weight.data - average)
    found = pair_loss(*pairs)
    expected = expected_pair_loss(encoder(X).tanh(), (X @ average.T).tanh(), labels)
    torch.testing.assert_close(found, expected.detach())


def test_the_average_of_the_encoder_drops_nothing_out(pairs):
    _, linear, X, labels = pairs
    encoder = torch.nn.Sequential(torch.nn.Dropout(0.9), linear)
    objective = make_objective(MDSHCLoss(pair_epoch=0), labels, encoder=encoder)
    assert objective.training and objective.follower.training
    value(objective, encoder(X), labels, X=X)
    torch.testing.assert_close(objective.bank, linear(X).tanh().detach())


def test_pairs_are_with_the_rows_of_earlier_batches_too(pairs):
    objective, encoder, X, labels = pairs
    first, second = torch.arange(5), torch.arange(5, 9)
    objective.start_epoch(2)
    value(objective, encoder(X[first]), labels[first], first, X[first])
    start = objective.bank[first].clone()
    assert start.any() and not objective.bank[5:].any()
    value(objective, encoder(X[second]), labels[second], second, X[second])
    assert torch.equal(objective.bank[first], start)
    assert objective.bank[second].any() and not objective.bank[9:].any()


def test_the_average_is_no_part_of_what_is_trained(pairs):
    objective, encoder, _, _ = pairs
    assert not any(weight.requires_grad for weight in objective.parameters())
    own = {id(weight) for weight in objective.parameters()}
    assert id(encoder.weight) not in own
