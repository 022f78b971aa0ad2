"""ARM and DisARM: effects of their two states. Their means are in test_unbiased.py."""

import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    CODINGS,
    LOGITS,
    Loss,
    Outcomes,
    by_cell,
    close,
    estimates,
)

from skhash.gradients import ARM, BernoulliUnits, DisARM
from skhash.noise import Normal, Triangular, Uniform

BOTH = [ARM, DisARM]
every_units = each("units", ALL_UNITS)
both = each("estimator", BOTH)


def run(estimator, units, outcomes, loss=None):
    return estimates(estimator(), loss or Loss(), LOGITS, units, outcomes)


@every_units
def test_formulas(units):
    outcomes = by_cell(LOGITS, units)
    v, p = outcomes.draws[0][0], units.noise.cdf(LOGITS)
    first, second = v > 1 - p, v < p
    losses = [Loss()(units.values(on.double())).detach() for on in (first, second)]
    difference = (losses[0] - losses[1])[:, None]
    chain = units.noise.pdf(LOGITS) / (p * (1 - p))
    arm, disarm = run(ARM, units, outcomes), run(DisARM, units, outcomes)
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
