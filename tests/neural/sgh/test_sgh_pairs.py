"""The likelihood of pairs against enumeration of all codes, in float64."""

import itertools

import pytest
import torch
from cases import each
from torch.nn.functional import logsigmoid

from skhash.neural import GivenPairs, LabelPairs, NeighborPairs
from skhash.neural.sgh._module import PairLikelihood
from skhash.training._module import Batch

N_BITS = 2


def all_signs(n_bits):
    codes = list(itertools.product([-1.0, 1.0], repeat=n_bits))
    return torch.tensor(codes, dtype=torch.float64)


def code_probabilities(logits):
    """q of each code, of each row: shape (n, n_codes)."""
    signs = all_signs(logits.shape[-1])
    return logsigmoid(signs * logits[:, None]).sum(dim=-1).exp()


def log_likelihood(model, agreement, similar):
    """log B(y; sigmoid(s t + c)); a share between 0 and 1 is a mean of both."""
    logit = model.scale * agreement + model.offset
    return similar * logsigmoid(logit) + (1 - similar) * logsigmoid(-logit)


def enumerated_loss(model, rows, others, similar, weight):
    agreement = all_signs(rows.shape[1]) @ all_signs(rows.shape[1]).T
    loss = 0
    for i, q in enumerate(code_probabilities(rows)):
        for j, r in enumerate(code_probabilities(others)):
            loss = loss - weight[i, j] * (
                q @ log_likelihood(model, agreement, similar[i, j]) @ r
            )
    return loss


def make_model(n_bits, scale, offset):
    model = PairLikelihood(n_bits).double()
    model.scale.data.fill_(scale)
    model.offset.data.fill_(offset)
    return model


@pytest.fixture
def pairs():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    model = make_model(N_BITS, 0.7, -0.3)
    rows, others = draw(2, N_BITS).requires_grad_(), draw(2, N_BITS).requires_grad_()
    similar = torch.tensor([[1.0, 0.0], [0.25, 1.0]], dtype=torch.float64)
    return model, rows, others, similar, draw(2, 2).abs()


def expected_estimate(model, rows, others, similar, weight, monkeypatch):
    """The exact expectation over the draws of the loss and of its gradients."""
    inputs = (rows, others, model.scale, model.offset)
    total = [0.0] * (1 + len(inputs))
    codes = all_signs(N_BITS)
    q, r = code_probabilities(rows).detach(), code_probabilities(others).detach()
    chosen = itertools.product(range(len(codes)), repeat=len(rows) + len(others))
    for choice in chosen:
        own, theirs = list(choice[: len(rows)]), list(choice[len(rows) :])
        draws = iter([codes[own], codes[theirs]])
        with monkeypatch.context() as patch:
            patch.setattr(
                "skhash.neural.sgh._module.BernoulliUnits.draw",
                lambda *arguments, draws=draws: next(draws),
            )
            loss = model.loss(rows, others, similar, weight)
        probability = (
            q[range(len(own)), own].prod() * r[range(len(theirs)), theirs].prod()
        )
        gradients = torch.autograd.grad(loss, inputs)
        for i, value in enumerate([loss.detach(), *gradients]):
            total[i] = total[i] + probability * value
    return total


def test_loss_and_gradients_are_those_of_the_expectation(pairs, monkeypatch):
    model, rows, others, similar, weight = pairs
    expected = enumerated_loss(*pairs)
    gradients = torch.autograd.grad(expected, (rows, others, model.scale, model.offset))
    estimates = expected_estimate(*pairs, monkeypatch)
    for estimate, truth in zip(estimates, [expected.detach(), *gradients], strict=True):
        assert truth.abs().min() > 1e-4
        torch.testing.assert_close(estimate, truth)


def test_draws_have_the_law_that_is_differentiated():
    """Bits that agree cost next to nothing here, and bits that differ about 5."""
    model, one = make_model(1, 5.0, 0.0), torch.ones(1, 1, dtype=torch.float64)
    expected = enumerated_loss(model, 0.7 * one, 1.2 * one, one, one)
    rows, others = (logit * one.expand(20_000, 1, 1) for logit in (0.7, 1.2))
    loss = model.loss(rows, others, one, one, torch.Generator().manual_seed(0))
    # The standard error of the mean of so many draws is below 1 %.
    torch.testing.assert_close(loss / 20_000, expected, atol=0, rtol=0.05)


def test_pairs_one_by_one_are_the_same_as_in_a_block(pairs, monkeypatch):
    model, rows, others, similar, weight = pairs
    monkeypatch.setattr(
        "skhash.neural.sgh._module.BernoulliUnits.draw",
        lambda self, logits, generator: logits.sign().detach(),
    )
    block = model.loss(rows, others, similar, weight)
    expected = torch.autograd.grad(block, (rows, others))
    i, j = torch.cartesian_prod(torch.arange(2), torch.arange(2)).T
    single = model.loss(
        rows[i, None],
        others[j, None],
        similar[i, j][:, None, None],
        weight[i, j][:, None, None],
    )
    torch.testing.assert_close(single, block)
    torch.testing.assert_close(torch.autograd.grad(single, (rows, others)), expected)


@each("n_bits", [4, 64])
def test_start_gives_halfway_codes_an_even_chance(n_bits):
    model = PairLikelihood(n_bits)
    logit = model.scale * n_bits / 2 + model.offset
    torch.testing.assert_close(torch.sigmoid(logit), torch.tensor(0.5))


def one_hot_rows(n):
    return torch.eye(n, dtype=torch.float64)


def batch_of(rows, candidates, labels=None):
    """Rows at these positions, the second half the partners of the first."""
    return Batch(
        torch.zeros(len(rows), 1),
        torch.tensor(list(rows)),
        labels=None if labels is None else torch.tensor(labels),
        partners=torch.tensor(candidates)[:, :, None],
    )


def test_neighbor_pairs_are_similar_in_either_direction():
    # Rows 0, 1, 2 bring along 3, 4, 5; 5 is a neighbour of 0, and 1 one of 3.
    neighbors = {0: (3, 5), 1: (4, 7), 2: (5, 8), 3: (1, 8), 4: (7, 8), 5: (8, 7)}
    batch = batch_of(list(neighbors), list(neighbors.values()))
    logits = one_hot_rows(6)
    rows, others, similar, weight = NeighborPairs().of_batch(logits, batch)
    assert torch.equal(rows, logits[:3])
    assert torch.equal(others, logits[3:])
    expected = [[1, 0, 1], [1, 1, 0], [0, 0, 1]]
    assert torch.equal(similar, torch.tensor(expected, dtype=torch.float64))
    # Five similar pairs count 1 of 31 parts together, the four others 30.
    torch.testing.assert_close(31 * weight, similar / 5 + (1 - similar) * 30 / 4)


def test_a_row_is_no_pair_with_itself():
    # Row 0 has no neighbours and brings along itself; row 1 brings along 2.
    batch = batch_of([0, 1, 0, 2], [[0], [2], [0], [1]])
    _, _, similar, weight = NeighborPairs().of_batch(one_hot_rows(4), batch)
    assert similar.tolist() == [[0, 0], [0, 1]]
    assert ((weight > 0) == torch.tensor([[False, True], [True, True]])).all()
    batch = batch_of([0, 1, 2, 2], [[2]] * 4, [0, 0, 1, 1])
    _, _, _, weight = LabelPairs().of_batch(one_hot_rows(4), batch)
    assert not weight.any()


def test_labeled_pairs_are_similar_where_classes_are_equal():
    logits = one_hot_rows(6)
    # The first three rows have no class; they bring along the last three.
    batch = batch_of(range(6), [[3], [4], [5], [3], [3], [3]], [-1, -1, -1, 7, 9, 7])
    rows, others, similar, weight = LabelPairs().of_batch(logits, batch)
    assert torch.equal(rows, logits[3:])
    assert torch.equal(others, logits[3:])
    expected = torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=torch.float64)
    assert torch.equal(similar, expected)
    torch.testing.assert_close(weight, (1 - torch.eye(3, dtype=torch.float64)) / 6)


def test_listed_pairs_have_their_own_labels():
    logits = one_hot_rows(6)
    # Row 0 drew its second pair (4, 5), which it has twice with different labels;
    # row 1 its first, (2, 3).
    candidates = torch.zeros(6, 3, 2, dtype=torch.int64)
    candidates[0] = torch.tensor([[2, 3], [4, 5], [4, 5]])
    candidates[1] = torch.tensor([[2, 3], [4, 1], [5, 0]])
    labels = torch.zeros(6, 3, dtype=torch.int64)
    labels[0, 1] = labels[1, 0] = 1
    positions = torch.tensor([0, 1, 4, 2, 5, 3])
    batch = Batch(torch.zeros(6, 1), positions, labels=labels, partners=candidates)
    rows, others, similar, weight = GivenPairs().of_batch(logits, batch)
    assert torch.equal(rows[:, 0], logits[2:4])
    assert torch.equal(others[:, 0], logits[4:])
    assert similar.flatten().tolist() == [0.5, 1.0]
    assert weight.flatten().tolist() == [0.5, 0.5]
