"""Unbiased estimators against the exact gradient, every outcome enumerated."""

import pytest
import torch
from cases import each
from gradients.enumeration import (
    ALL_UNITS,
    LOGITS,
    Loss,
    by_cell,
    by_state,
    by_state_and_order,
    close,
    estimates,
    exact,
    independent,
)
from page_examples import page_classes

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
)

every_units = pytest.mark.parametrize("units", ALL_UNITS, ids=str)


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
