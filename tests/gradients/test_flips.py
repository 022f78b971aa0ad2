"""Local expectation and BitFlip, sample by sample; means are in test_unbiased.py."""

import pytest
import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    LOGITS,
    Loss,
    by_state,
    by_state_and_order,
    close,
    estimates,
)

from skhash.gradients import LocalExpectation, _flips

every_units = pytest.mark.parametrize("units", ALL_UNITS, ids=str)


def run(estimator, loss, units, logits=LOGITS, outcomes=by_state):
    return estimates(estimator, loss, logits, units, outcomes(logits, units))


@every_units
def test_formula(units):
    found = run(LocalExpectation(), Loss(), units)
    on = by_state(LOGITS, units).draws[0] < units.noise.cdf(LOGITS)
    for k in range(3):
        up, down = on.clone(), on.clone()
        up[:, k], down[:, k] = True, False
        rise = Loss()(units.values(up.double())) - Loss()(units.values(down.double()))
        close(found.gradients[:, k], units.noise.pdf(LOGITS)[k] * rise.detach())


@every_units
@pytest.mark.parametrize("flips_at_once", [1, 2, 16])
def test_all_flips_are_local_expectation(units, flips_at_once, monkeypatch):
    monkeypatch.setattr(_flips, "FLIPS_AT_ONCE", flips_at_once)
    found = run(LocalExpectation(3), Loss(), units, outcomes=by_state_and_order)
    local = run(LocalExpectation(), Loss(), units)
    close(found.gradients, local.gradients.repeat_interleave(6, dim=0))


@each("n_flips", [1, 2, 3, 5])
def test_flips_are_without_replacement(n_flips):
    logits = torch.zeros(300, 5, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    LocalExpectation(n_flips).surrogate(
        lambda x: x.sum(dim=-1), logits, generator
    ).sum().backward()
    flipped = logits.grad != 0
    assert (flipped.sum(dim=-1) == n_flips).all()
    assert flipped.any(dim=0).all()
    close(logits.grad[flipped], torch.full((300 * n_flips,), 0.5 * 5 / n_flips), 1e-6)


@pytest.mark.parametrize(
    "estimator", [LocalExpectation(), LocalExpectation(9)], ids=str
)
def test_flips_are_evaluated_some_at_a_time(estimator, monkeypatch):
    monkeypatch.setattr(_flips, "FLIPS_AT_ONCE", 4)
    shapes = []

    def loss(values):
        shapes.append(values.shape)
        return values.sum(dim=-1)

    estimator.surrogate(loss, torch.zeros(7, 9))
    assert shapes == [(7, 9), (4, 7, 9), (4, 7, 9), (1, 7, 9)]
