"""Layer-wise estimators: known expectations, where they are exact, where not."""

import math

import pytest
import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    CODINGS,
    LOGITS,
    Linear,
    Loss,
    Outcomes,
    Quadratic,
    by_state,
    close,
    differs,
    estimates,
    exact,
    uniform_draws,
)
from scipy.integrate import quad

from skhash import SBNClassifier
from skhash.gradients import (
    ZGR,
    BernoulliUnits,
    DeterministicST,
    GumbelSoftmax,
    HardST,
    IdentityST,
    LayerwiseGradient,
    MeanField,
    STGumbel,
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


BOTH = [GumbelSoftmax, STGumbel]
# Log-odds are the logits.
UNITS = BernoulliUnits(Logistic(scale=2))
STANDARD = UNITS.noise


def noise_grid(center=0.0, half=34.0, n=40000):
    """Noise, and its masses; the rule converges fast for what decays on both sides.

    No node is at the center, where a hard value jumps: both sides count in full.
    """
    z = center + torch.linspace(-half, half, n, dtype=torch.float64)
    masses = STANDARD.pdf(z) * (z[1] - z[0])
    return z, masses / masses.sum()


def integrate(estimator, loss, logit, units=UNITS):
    logits = torch.tensor([logit], dtype=torch.float64)
    z, masses = noise_grid(units.noise.log_odds(logits))
    outcomes = Outcomes([STANDARD.cdf(z)[:, None]], masses)
    return estimates(estimator, loss, logits, units, outcomes)


def linear(values):
    return values[..., 0]


def slope(logit):
    """The derivative of the mean of a 0/1 unit."""
    return STANDARD.pdf(torch.tensor(logit, dtype=torch.float64)).item()


@each("estimator", BOTH)
def test_what_a_low_temperature_costs(estimator):
    """Bias, second moment and how many draws have a derivative, as documented."""
    temperature, least, p = 0.05, 0.01, slope(0.7)
    found = integrate(estimator(temperature), linear, 0.7)
    bias = (found.mean.item() - p) / temperature**2
    assert math.isclose(bias, math.pi**2 / 6 * p * (1 - 6 * p), rel_tol=0.1)
    moment = temperature * (found.weights @ found.gradients.square()).item()
    assert math.isclose(moment, p / 6, rel_tol=0.01)
    share = (found.weights @ (found.gradients >= least).double()).item()
    rough = 2 * p * temperature * math.log(1 / (temperature * least))
    assert math.isclose(share, rough, rel_tol=0.05)


@each("estimator", BOTH)
def test_mean_is_the_density_of_a_sum(estimator):
    """Of a linear loss: the density of Z + tau Z' at the logit, Z' logistic too."""
    logit, temperature = 0.7, 0.5
    z, masses = noise_grid()
    density = masses @ STANDARD.pdf(logit - temperature * z)
    mean = integrate(estimator(temperature), linear, logit).mean.item()
    assert math.isclose(mean, density.item(), rel_tol=1e-9)


def test_mean_of_any_loss_is_an_integral_over_relaxed_values():
    """Of f'(v) times the density of the noise that leads to v."""
    logit, temperature = 0.7, 0.5

    def integrand(v):
        z = torch.tensor(logit - temperature * math.log(v / (1 - v)))
        return 3 * math.cos(3 * v) * STANDARD.pdf(z.double()).item()

    expected, _ = quad(integrand, 0, 1)
    estimator = GumbelSoftmax(temperature)
    found = integrate(estimator, lambda x: torch.sin(3 * x[..., 0]), logit)
    assert math.isclose(found.mean.item(), expected, rel_tol=1e-5)


@every_units
@each("estimator", BOTH)
def test_other_noise_enters_by_its_log_odds(estimator, units):
    a = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    log_odds = torch.logit(units.noise.cdf(a))
    (chain,) = torch.autograd.grad(log_odds, a)
    here = integrate(estimator(0.5), linear, 0.4, units)
    there = integrate(estimator(0.5), linear, log_odds.item())
    close(here.gradients, units.step * chain * there.gradients, 1e-10)
    close(here.losses, units.low + units.step * there.losses, 1e-10)


@every_units
@each("estimator", BOTH)
def test_rounded_values_have_the_distribution_of_the_units(estimator, units):
    a = torch.tensor([0.4, -0.7], dtype=torch.float64)
    p = units.noise.cdf(a)
    for uniform, on in [(p * (1 - 1e-9), True), (p * (1 + 1e-9), False)]:
        with uniform_draws([uniform]):
            values = estimator(0.5).sample(a, units=units)
        assert ((values > units.low + units.step / 2) == on).all()


def test_st_gumbel_becomes_unbiased_for_a_quadratic_and_not_for_a_cubic():
    def bias(temperature, power):
        def loss(values):
            return (values[..., 0] - 0.3) ** power

        exact = slope(0.7) * (0.7**power - (-0.3) ** power)
        found = integrate(STGumbel(temperature), loss, 0.7)
        return found.mean.item() - exact

    assert abs(bias(0.0125, 2)) < 0.6 * abs(bias(0.025, 2)) < 0.01
    # The mean of the derivatives at both values instead of their difference.
    cubic = slope(0.7) * (3 * (0.7**2 + 0.3**2) / 2 - (0.7**3 + 0.3**3))
    assert math.isclose(bias(0.0125, 3), cubic, rel_tol=0.05)


def test_values_without_a_derivative_are_refused():
    class Drawn(LayerwiseGradient):
        def sample(self, logits, generator=None, *, units):
            return units.draw(logits, generator)

    logits, units = LOGITS[None], BernoulliUnits()
    assert Drawn().surrogate(torch.sum, logits, units=units) >= 0
    with pytest.raises(ValueError, match=r"Drawn\.sample .*without a derivative"):
        Drawn().surrogate(torch.sum, logits.clone().requires_grad_(), units=units)
    classifier = SBNClassifier((4,), gradient=Drawn(), max_epochs=1)
    with pytest.raises(ValueError, match="without a derivative"):
        classifier.fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
