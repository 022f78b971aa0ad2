"""Score-function estimators: their baselines, and what each baseline does."""

import copy
import pickle

import pytest
import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    LOGITS,
    Loss,
    Outcomes,
    by_state,
    close,
    estimates,
    exact,
)
from sklearn.base import clone

from skhash.gradients import (
    BernoulliUnits,
    MuProp,
    Reinforce,
    ReinforceLOO,
)

every_units = each("units", ALL_UNITS)
ROWS = torch.arange(8)


def run(estimator, loss, units, **told):
    return estimates(estimator, loss, LOGITS, units, by_state(LOGITS, units), **told)


def scores(units):
    """Derivatives of log F or log (1 - F), at every state, by autograd."""
    on = by_state(LOGITS, units).draws[0] < units.noise.cdf(LOGITS)
    logits = LOGITS.expand(8, 3).clone().requires_grad_()
    p = units.noise.cdf(logits)
    log_p = torch.where(on, p, 1 - p).log()
    return torch.autograd.grad(log_p.sum(), logits)[0]


@every_units
@each("baseline", [None, 0.0, 0.7, -3])
def test_estimate_is_the_loss_less_a_constant_times_the_score(units, baseline):
    found = run(Reinforce(baseline), Loss(), units)
    expected = (found.losses - (baseline or 0.0))[:, None] * scores(units)
    close(found.gradients, expected)


def test_rows_have_baselines_of_their_own():
    """Read before they take a new loss in, corrected for their start, 0 before it."""
    decay, units = 0.8, BernoulliUnits()
    estimator = Reinforce("row", decay)
    losses = torch.tensor([1.0, 5.0, -2.0, 0.5], dtype=torch.float64)
    rows = torch.tensor([6, 2, 9, 0])

    def signal(weight, rows):
        """The loss less the baseline, read off the estimate."""
        logits = LOGITS.expand(len(rows), 3).clone().requires_grad_()
        generator = torch.Generator().manual_seed(0)
        values = units.draw(logits, torch.Generator().manual_seed(0))
        estimator.surrogate(
            lambda x: weight * losses[: len(rows)], logits, generator, rows=rows
        ).sum().backward()
        ratio = logits.grad / units.score(values, logits.detach())
        close(ratio, ratio[:, :1].expand_as(ratio))
        return ratio[:, 0]

    close(signal(1.0, rows), losses)  # No baseline yet.
    close(signal(3.0, rows), 3 * losses - losses)
    average = (decay * losses + 3 * losses) / (decay + 1)
    close(signal(2.0, rows), 2 * losses - average)
    # A row that was never seen starts by itself; the others continue.
    newer = (decay**2 + 3 * decay + 2) * losses / (decay**2 + decay + 1)
    seen = torch.tensor([6, 2, 5])
    expected = 4 * losses[:3] - torch.stack([newer[0], newer[1], newer[0] * 0])
    close(signal(4.0, seen), expected)
    # Rows that were left out keep theirs.
    expected = torch.stack([losses[0] - newer[2], losses[1] - newer[3]])
    close(signal(1.0, torch.tensor([9, 0])), expected)


def test_batches_share_one_baseline():
    decay, units = 0.5, BernoulliUnits()
    estimator = Reinforce(decay=decay)
    first = run(estimator, Loss(), units)
    close(first.gradients, first.losses[:, None] * scores(units))
    mean = first.losses.mean()
    second = run(estimator, Loss(), units)
    close(second.gradients, (first.losses - mean)[:, None] * scores(units))
    third = run(estimator, lambda x: 2 * Loss()(x), units)
    close(third.gradients, (2 * first.losses - mean)[:, None] * scores(units))
    fourth = run(estimator, Loss(), units)
    average = (decay**2 + decay + 2) / (decay**2 + decay + 1) * mean
    close(fourth.gradients, (first.losses - average)[:, None] * scores(units))


@every_units
@each("baseline", ["batch", "row"])
@each("family", [Reinforce, MuProp])
def test_unbiased_with_a_baseline_that_has_learned(family, baseline, units):
    estimator, row = family(baseline), torch.tensor([5])
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        logits = LOGITS[None].clone().requires_grad_()
        estimator.surrogate(Loss(), logits, generator, units=units, rows=row)
    assert (estimator.totals_[-1] != 0).all()
    # All outcomes of the next step of this one row.
    found = run(estimator, Loss(), units, rows=row.expand(8))
    close(found.expected, exact(Loss(), LOGITS, units))


@each("family", [Reinforce, MuProp])
def test_rows_are_asked_for(family):
    with pytest.raises(ValueError, match=f"{family.__name__}.*pass rows, or use"):
        family("row").surrogate(Loss(), LOGITS[None])


def test_baselines_are_state_and_no_parameter():
    estimator = Reinforce("row")
    run(estimator, Loss(), BernoulliUnits(), rows=ROWS)
    assert not hasattr(clone(estimator), "totals_")
    assert estimator.get_params() == {"baseline": "row", "decay": 0.9}
    for copied in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        assert torch.equal(copied.totals_, estimator.totals_)
        assert copied.totals_ is not estimator.totals_


def test_evaluation_leaves_baselines_alone():
    estimator = Reinforce()
    run(estimator, Loss(), BernoulliUnits())
    before = estimator.totals_.clone()
    estimator.surrogate(Loss(), LOGITS[None])
    assert torch.equal(estimator.totals_, before)


@every_units
def test_muprop_has_the_remainder_in_the_score_only(units):
    def loss(values):
        """Quadratic, with mean-field derivative and remainder in closed form."""
        return values.square() @ weight + values @ weight

    weight = LOGITS.new_tensor([1.0, -2.0, 0.5])
    found = run(MuProp(None), loss, units)
    on = by_state(LOGITS, units).draws[0] < units.noise.cdf(LOGITS)
    mean = units.mean(LOGITS)
    remainder = (units.values(on.double()) - mean).square() @ weight
    linear = units.slope(LOGITS) * (2 * mean + 1) * weight
    close(found.gradients, remainder[:, None] * scores(units) + linear)


def test_leave_one_out_is_by_the_other_samples():
    """Each sample's baseline is the mean loss of the others."""
    units, k = BernoulliUnits(), 4
    uniform = torch.rand(k, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    outcomes = Outcomes([uniform], torch.full((5,), 0.2, dtype=torch.float64))
    found = estimates(ReinforceLOO(k), Loss(), LOGITS, units, outcomes)
    values = units.values((uniform < units.noise.cdf(LOGITS)).double())
    losses = Loss()(values).detach()
    others = (losses.sum(dim=0) - losses) / (k - 1)
    score = units.score(values, LOGITS)
    close(found.gradients, ((losses - others)[..., None] * score).mean(dim=0))
    close(found.losses, losses[0])
