"""Straight-through estimators: known expectations, where they are exact, where not."""

import pytest
import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    CODINGS,
    LOGITS,
    Linear,
    Loss,
    Quadratic,
    by_state,
    close,
    differs,
    estimates,
    exact,
    uniform_draws,
)

from skhash.gradients import (
    ZGR,
    BernoulliUnits,
    DeterministicST,
    HardST,
    IdentityST,
    MeanField,
    StraightThrough,
)
from skhash.noise import Logistic

every_units = each("units", ALL_UNITS)
every_coding = each("coding", CODINGS)


def run(estimator, loss, units, logits=LOGITS, **told):
    return estimates(estimator, loss, logits, units, by_state(logits, units), **told)


def no_draws(estimator, loss, units, logits=LOGITS):
    logits = logits[None].clone().requires_grad_()
    with uniform_draws([]):
        losses = estimator.surrogate(loss, logits, units=units)
    losses.sum().backward()
    return losses.detach()[0], logits.grad[0]


def derivatives(loss, units):
    """The derivatives of the loss at every state, in the order of `by_state`."""
    (uniform,) = by_state(LOGITS, units).draws
    on = uniform < units.noise.cdf(LOGITS)
    values = units.values(on.double()).requires_grad_()
    return torch.autograd.grad(loss(values).sum(), values)[0]


@every_units
@each(
    "estimator, slope",
    [
        (StraightThrough(), lambda units, a: units.step * units.noise.pdf(a)),
        (IdentityST(), lambda units, a: torch.full_like(a, units.step / 2)),
        (HardST(), lambda units, a: units.step / 2 * (a.abs() <= 1)),
    ],
)
def test_slopes(estimator, slope, units):
    logits = torch.tensor([0.3, -0.9, 1.1], dtype=torch.float64)
    found = run(estimator, Linear(), units, logits)
    expected = slope(units, logits) * Linear().weight.detach()
    close(found.gradients, expected.expand_as(found.gradients))
    value, _, parameter_gradient = exact(Linear(), logits, units)
    close(found.value, value)
    close(found.parameter_gradient, parameter_gradient)


@every_units
def test_st_is_biased_for_other_losses(units):
    found = run(StraightThrough(), Loss(), units)
    slope = units.step * units.noise.pdf(LOGITS)
    close(found.mean, slope * (found.weights @ derivatives(Loss(), units)))
    assert differs(found.mean, exact(Loss(), LOGITS, units)[1], by=0.01)


@every_units
@each("per_row", [False, True])
def test_debiased_st_of_a_quadratic_is_exact_in_the_mean(units, per_row):
    loss = Quadratic()
    expected = exact(loss, LOGITS, units)
    plain = run(StraightThrough(), loss, units)
    assert differs(plain.mean, expected[1], by=0.05)
    curvature = loss.curvature.expand(8, -1) if per_row else loss.curvature
    found = run(StraightThrough("quadratic"), loss, units, curvature=curvature)
    close(found.expected, expected)
    close(found.losses, plain.losses, 0)


def test_debiased_st_needs_the_curvature():
    with pytest.raises(ValueError, match="pass curvature, or use debias=None"):
        run(StraightThrough("quadratic"), Quadratic(), BernoulliUnits())


@every_units
def test_deterministic_st(units):
    value, gradient = no_draws(DeterministicST(), Loss(), units)
    values = units.values((LOGITS > 0).double()).requires_grad_()
    loss = Loss()(values)
    (derivative,) = torch.autograd.grad(loss, values)
    close(value, loss.detach())
    close(gradient, units.slope(LOGITS) * derivative)
    linear = no_draws(DeterministicST(), Linear(), units)[1]
    close(linear, exact(Linear(), LOGITS, units)[1])
    assert differs(gradient, exact(Loss(), LOGITS, units)[1], by=0.01)


@every_coding
def test_deterministic_st_takes_the_low_value_at_a_tie(coding):
    units = BernoulliUnits(coding=coding)
    values = DeterministicST().sample(torch.zeros(2, 3), units=units)
    assert (values == units.low).all()


@every_units
def test_mean_field(units):
    value, gradient = no_draws(MeanField(), Loss(), units)
    logits = LOGITS.clone().requires_grad_()
    expected = Loss()(units.low + units.step * units.noise.cdf(logits))
    close(value, expected.detach())
    close(gradient, torch.autograd.grad(expected, logits)[0])
    exact_value, exact_gradient, _ = exact(Linear(), LOGITS, units)
    close(no_draws(MeanField(), Linear(), units), (exact_value, exact_gradient))
    assert differs(gradient, exact(Loss(), LOGITS, units)[1], by=0.01)


@every_units
def test_zgr_of_a_quadratic_is_unbiased(units):
    loss = Quadratic()
    close(run(ZGR(), loss, units).expected, exact(loss, LOGITS, units))


def test_zgr_coefficients():
    """2 P(other value) for logistic noise and pm1; ReinMax's at p = 0.3 for 0/1."""
    units = BernoulliUnits(coding="pm1")
    found = run(ZGR(), lambda x: x.sum(dim=-1), units)
    on = by_state(LOGITS, units).draws[0] < units.noise.cdf(LOGITS)
    p = units.noise.cdf(LOGITS)
    close(found.gradients, 2 * torch.where(on, 1 - p, p))

    units = BernoulliUnits(Logistic(scale=2))
    logit = torch.logit(torch.tensor([0.3], dtype=torch.float64))
    found = run(ZGR(), lambda x: x.sum(dim=-1), units, logit)
    off_and_on = torch.tensor([[0.3 / 2], [0.7 / 2]], dtype=torch.float64)
    close(found.gradients, off_and_on)
