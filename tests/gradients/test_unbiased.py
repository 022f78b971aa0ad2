"""Function-wise estimators: means over all outcomes, and each outcome's formula."""

import copy
import pickle

import pytest
import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    CODINGS,
    LOGITS,
    Loss,
    Outcomes,
    by_cell,
    by_state,
    by_state_and_order,
    close,
    estimates,
    exact,
    independent,
)
from page_examples import page_classes
from sklearn.base import clone

from skhash.gradients import (
    ARM,
    BernoulliUnits,
    DisARM,
    Exact,
    GradientEstimator,
    LayerwiseGradient,
    LocalExpectation,
    MuProp,
    Reinforce,
    ReinforceLOO,
    _exact,
    _flips,
)
from skhash.noise import Normal, Triangular, Uniform

every_units = each("units", ALL_UNITS)


def run(estimator, loss, units, outcomes=by_state, **told):
    return estimates(estimator, loss, LOGITS, units, outcomes(LOGITS, units), **told)


def states_twice(logits, units):
    return independent(by_state(logits, units), 2)


def states_thrice(logits, units):
    return independent(by_state(logits[:2], units), 3)


def cells_twice(logits, units):
    return independent(by_cell(logits[:2], units), 2)


UNBIASED = [
    (Reinforce(None), by_state),
    (Reinforce(0.7), by_state),
    (Reinforce("batch"), by_state),
    (MuProp(None), by_state),
    (MuProp(-0.4), by_state),
    (ReinforceLOO(2), states_twice),
    (ReinforceLOO(3), states_thrice),
    (ARM(), by_cell),
    (ARM(2), cells_twice),
    (DisARM(), by_cell),
    (DisARM(2), cells_twice),
    (LocalExpectation(), by_state),
    (LocalExpectation(n_flips=1), by_state_and_order),
    (LocalExpectation(2), by_state_and_order),
    # A page that shows a function-wise one says that it is unbiased.
    *(
        (example(), by_state)
        for example in page_classes(GradientEstimator)
        if not issubclass(example, LayerwiseGradient)
    ),
]


@every_units
@each("estimator, outcomes", UNBIASED)
def test_unbiased(estimator, outcomes, units):
    n_bits = 2 if outcomes in (states_thrice, cells_twice) else 3
    logits, loss = LOGITS[:n_bits], Loss(n_bits)
    found = estimates(estimator, loss, logits, units, outcomes(logits, units))
    close(found.expected, exact(loss, logits, units))


@every_units
@pytest.mark.parametrize("states_at_once", [1, 3, 100])
def test_exact_is_exact(units, states_at_once, monkeypatch):
    monkeypatch.setattr(_exact, "STATES_AT_ONCE", states_at_once)
    loss = Loss()
    logits = torch.stack([LOGITS, -0.5 * LOGITS]).requires_grad_()
    losses = Exact().surrogate(loss, logits, units=units)
    found = torch.autograd.grad(losses[0], [logits, loss.weight])
    value, gradient, parameter_gradient = exact(loss, LOGITS, units)
    close(losses[0].detach(), value)
    close(found[0], torch.stack([gradient, 0 * gradient]))
    close(found[1], parameter_gradient)
    close(losses[1].detach(), exact(loss, -0.5 * LOGITS, units)[0])


def test_exact_has_second_derivatives(monkeypatch):
    monkeypatch.setattr(_exact, "STATES_AT_ONCE", 3)
    logits = torch.stack([LOGITS, -LOGITS]).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda a: Exact().surrogate(Loss(), a), logits)


def test_exact_at_sure_units():
    units = BernoulliUnits("uniform")
    logits = torch.tensor([[-3.0, 3.0, 0.5]], dtype=torch.float64, requires_grad=True)
    loss = Exact().surrogate(lambda x: x @ x.new_tensor([1, 2, 4]), logits, units=units)
    close(loss.detach(), torch.tensor([5.0], dtype=torch.float64))
    loss.backward()
    close(logits.grad, torch.tensor([[0.0, 0.0, 2.0]], dtype=torch.float64))


def test_exact_refuses_too_many_units():
    with pytest.raises(ValueError, match=r"2\*\*17 states.*limited to 16.*LocalExp"):
        Exact().surrogate(lambda x: x.sum(dim=-1), torch.zeros(1, 17))


@each("estimator", [ARM(2), DisARM(2), ReinforceLOO(2)])
def test_samples_are_averaged(estimator):
    """Twice the samples, half the variance; leave-one-out at least gains."""
    units, logits, loss = BernoulliUnits(), LOGITS[:2], Loss(2)
    if isinstance(estimator, ReinforceLOO):
        one, outcomes = Reinforce(None), by_state(logits, units)
        single = estimates(one, loss, logits, units, outcomes).variance.sum()
        double = estimates(estimator, loss, logits, units, independent(outcomes, 2))
        assert double.variance.sum() < single
    else:
        outcomes = by_cell(logits, units)
        single = estimates(type(estimator)(), loss, logits, units, outcomes).variance
        double = estimates(estimator, loss, logits, units, independent(outcomes, 2))
        close(double.variance, single / 2)


# ARM and DisARM: effects of their two states

BOTH = [ARM, DisARM]
both = each("estimator", BOTH)


@every_units
def test_formulas_of_arm_and_disarm(units):
    outcomes = by_cell(LOGITS, units)
    v, p = outcomes.draws[0][0], units.noise.cdf(LOGITS)
    first, second = v > 1 - p, v < p
    losses = [Loss()(units.values(on.double())).detach() for on in (first, second)]
    difference = (losses[0] - losses[1])[:, None]
    chain = units.noise.pdf(LOGITS) / (p * (1 - p))
    arm, disarm = (run(family(), Loss(), units, by_cell) for family in BOTH)
    close(arm.gradients, chain * difference * (v - 0.5))
    apart = 0.5 * (-1.0) ** second.double() * (first != second)
    larger = torch.maximum(p, 1 - p)
    close(disarm.gradients, chain * difference * apart * larger)
    close(arm.losses, losses[0])
    close(disarm.losses, losses[0])


@both
@each("coding", CODINGS)
@each("noise", [Normal(), Triangular(), Uniform()])
@each("dtype", [torch.float32, torch.float64])
def test_sure_units_get_no_gradient(noise, coding, dtype, estimator):
    units = BernoulliUnits(noise, coding)
    logits = torch.tensor([0.1, 50.0, -50.0, 1e4, -0.3], dtype=dtype)
    logits = logits.expand(200, 5).clone().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    estimator(2).surrogate(
        lambda x: x.sum(dim=-1).square(), logits, generator, units=units
    ).sum().backward()
    sure = logits.detach()[0].abs() > 10
    assert logits.grad.isfinite().all()
    assert (logits.grad[:, sure] == 0).all()
    assert (logits.grad[:, ~sure] != 0).any(dim=0).all()


@both
def test_ends_of_rand_make_no_impossible_value(estimator):
    """A draw of 0 is possible; neither state may leave the support for it."""
    units = BernoulliUnits(Uniform())
    logits = torch.tensor([-5.0, 5.0], dtype=torch.float64)
    outcomes = Outcomes(
        [torch.zeros(1, 1, 2, dtype=torch.float64)], torch.ones(1).double()
    )

    def loss(values):
        assert (values == torch.tensor([0.0, 1.0])).all()
        return values.sum(dim=-1)

    estimates(estimator(), loss, logits, units, outcomes)


@every_units
def test_formula_of_local_expectation(units):
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


ROWS = torch.arange(8)


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
    estimator = Reinforce("row", decay=decay)
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
