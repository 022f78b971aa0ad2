"""Straight-through estimators: known expectations, where they are exact, where not."""

import math

import pytest
import torch
from gradients.enumeration import (
    ALL_UNITS,
    CODINGS,
    LOGITS,
    NOISES,
    Linear,
    Loss,
    Quadratic,
    by_state,
    close,
    differs,
    estimates,
    exact,
    label,
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
from skhash.noise import Logistic, Normal, Triangular, Uniform

every_units = pytest.mark.parametrize("units", ALL_UNITS, ids=str)
every_coding = pytest.mark.parametrize("coding", CODINGS)


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
@pytest.mark.parametrize(
    "estimator, slope",
    [
        (StraightThrough(), lambda units, a: units.step * units.noise.pdf(a)),
        (IdentityST(), lambda units, a: torch.full_like(a, units.step / 2)),
        (HardST(), lambda units, a: units.step / 2 * (a.abs() <= 1)),
    ],
    ids=label,
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
def test_st_of_a_linear_loss_is_exact_at_every_draw(units):
    found = run(StraightThrough(), Linear(), units)
    _, gradient, _ = exact(Linear(), LOGITS, units)
    close(found.gradients, gradient.expand_as(found.gradients))


@every_units
def test_st_of_a_multilinear_loss_is_unbiased(units):
    def product(values):
        return values.prod(dim=-1) + product.weight * values[..., 0] * values[..., 2]

    product.weight = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    found = run(StraightThrough(), product, units)
    close(found.mean, exact(product, LOGITS, units)[1])


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_st_of_the_square(noise):
    """The example of the paper: no true gradient, and one of 4 F' (2 F - 1)."""
    units, a = BernoulliUnits(noise, "pm1"), LOGITS[:1]
    found = run(StraightThrough(), lambda x: x.square().sum(dim=-1), units, a)
    close(found.mean, 4 * noise.pdf(a) * (2 * noise.cdf(a) - 1))
    assert found.mean.abs() > 0.1


def test_st_depends_on_values_between():
    """The example of the paper with a wave that is 0 at both values."""
    units, a = BernoulliUnits(), LOGITS[:1]

    def loss(values):
        return (values - torch.sin(2 * math.pi * values)).sum(dim=-1)

    close(
        run(StraightThrough(), loss, units, a).mean, (1 - 2 * math.pi) * units.slope(a)
    )


@every_units
def test_st_is_biased_for_other_losses(units):
    found = run(StraightThrough(), Loss(), units)
    slope = units.step * units.noise.pdf(LOGITS)
    close(found.mean, slope * (found.weights @ derivatives(Loss(), units)))
    assert differs(found.mean, exact(Loss(), LOGITS, units)[1], by=0.01)


@every_units
@pytest.mark.parametrize("per_row", [False, True])
def test_debiased_st_of_a_quadratic_is_exact_in_the_mean(units, per_row):
    loss = Quadratic()
    value, gradient, parameter_gradient = exact(loss, LOGITS, units)
    plain = run(StraightThrough(), loss, units)
    assert differs(plain.mean, gradient, by=0.05)
    curvature = loss.curvature.expand(8, -1) if per_row else loss.curvature
    found = run(StraightThrough("quadratic"), loss, units, curvature=curvature)
    close(found.mean, gradient)
    close(found.losses, plain.losses, 0)
    close(found.value, value)
    close(found.parameter_gradient, parameter_gradient)


def test_debiased_st_needs_the_curvature():
    assert StraightThrough("quadratic").needs_curvature
    assert not StraightThrough().needs_curvature
    with pytest.raises(ValueError, match="pass curvature, or take debias=None"):
        run(StraightThrough("quadratic"), Quadratic(), BernoulliUnits())
    with pytest.raises(ValueError, match="'debias' parameter.*'cubic'"):
        StraightThrough("cubic").surrogate(Quadratic(), LOGITS[None])


@pytest.mark.parametrize("estimator", [StraightThrough(), DeterministicST()], ids=str)
def test_st_is_invariant_to_a_map_of_logits_and_noise(estimator):
    class Mapped(Logistic):
        """The noise 2 z - 1, for the logits 2 a - 1."""

        def cdf(self, a):
            return super().cdf((a + 1) / 2)

        def pdf(self, a):
            return super().pdf((a + 1) / 2) / 2

    results = []
    for noise, mapping in [(Logistic(), lambda a: a), (Mapped(), lambda a: 2 * a - 1)]:
        # All on the same side of 0 before and after, for the deterministic one.
        logits = torch.tensor([0.6, -0.7, 0.9], dtype=torch.float64)
        logits = logits.expand(20, 3).clone().requires_grad_()
        generator = torch.Generator().manual_seed(0)
        losses = estimator.surrogate(
            Loss(), mapping(logits), generator, units=BernoulliUnits(noise)
        )
        losses.sum().backward()
        results.append((losses.detach(), logits.grad))
    close(results[0], results[1])


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


@every_coding
def test_deterministic_st_of_uniform_noise_is_a_window(coding):
    units = BernoulliUnits(Uniform(), coding)
    logits = torch.tensor([-1.5, -0.8, 0.3, 1.0, 1.2], requires_grad=True)
    DeterministicST().sample(logits, units=units).sum().backward()
    expected = units.step / 2 * torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0])
    assert torch.equal(logits.grad, expected)


@every_coding
def test_deterministic_st_is_st_where_units_are_sure(coding):
    units = BernoulliUnits(Uniform(), coding)
    logits = torch.tensor([[-1.5, -3.0, 1.01, 9.0]])
    grads = []
    for estimator in (DeterministicST(), StraightThrough()):
        a = logits.clone().requires_grad_()
        values = estimator.sample(a, units=units)
        values.sum().backward()
        grads.append((values.detach(), a.grad))
    close(grads[0], grads[1], 0)
    assert (grads[0][1] == 0).all()


@every_coding
@pytest.mark.parametrize("estimator", [IdentityST(), HardST()], ids=str)
@pytest.mark.parametrize("family", [Logistic, Normal, Triangular, Uniform])
def test_rescaled_st_agrees_at_the_threshold(estimator, family, coding):
    units, zero = BernoulliUnits(family(), coding), torch.zeros_like(LOGITS)
    found = run(estimator, Loss(), units, zero)
    close(found.gradients, run(StraightThrough(), Loss(), units, zero).gradients)


def test_identity_st_may_descend_in_parameters():
    """Logits (t, t + 4) and loss x_1 - 2 x_2: the signs differ even in the mean."""
    units = BernoulliUnits(coding="pm1")
    logits = torch.tensor([0.0, 4.0], dtype=torch.float64)

    def loss(values):
        return values[..., 0] - 2 * values[..., 1]

    true = 1 - 2 * (1 - math.tanh(4) ** 2)
    st = run(StraightThrough(), loss, units, logits)
    identity = run(IdentityST(), loss, units, logits)
    close(st.mean.sum().item(), true)
    close(identity.mean.sum().item(), -1.0)
    assert true > 0


@every_units
def test_units_are_on_with_their_probability(units):
    p = units.noise.cdf(LOGITS)
    for uniform, expected in [(p, units.low), (p * (1 - 1e-12), units.high)]:
        with uniform_draws([uniform]):
            values = HardST().sample(LOGITS, units=units)
        assert (values == expected).all()


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


def test_mean_field_is_the_tanh():
    close(MeanField().sample(LOGITS, units=BernoulliUnits(coding="pm1")), LOGITS.tanh())


@every_units
def test_zgr_of_a_quadratic_is_unbiased(units):
    loss = Quadratic()
    found = run(ZGR(), loss, units)
    value, gradient, parameter_gradient = exact(loss, LOGITS, units)
    close(found.mean, gradient)
    close(found.value, value)
    close(found.parameter_gradient, parameter_gradient)


@every_units
def test_order_of_the_bias(units):
    """Halving the reach of the units halves st's bias twice, and zgr's three times."""
    on = by_state(LOGITS, units)
    values = units.values((on.draws[0] < units.noise.cdf(LOGITS)).double())

    def bias(estimator, reach):
        def loss(values):
            return Loss()(reach * values)

        weighted = on.weights * loss(values).detach()
        gradient = weighted @ units.score(values, LOGITS)
        return (run(estimator, loss, units).mean - gradient).norm().item()

    for estimator, order in [(StraightThrough(), 2), (ZGR(), 3)]:
        ratio = bias(estimator, 0.02) / bias(estimator, 0.01)
        assert math.isclose(math.log2(ratio), order, abs_tol=0.1)


@every_units
def test_zgr_is_biased_for_other_losses_and_varies_for_linear_ones(units):
    assert differs(run(ZGR(), Loss(), units).mean, exact(Loss(), LOGITS, units)[1])
    assert run(ZGR(), Linear(), units).variance.sum() > 1e-3


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
