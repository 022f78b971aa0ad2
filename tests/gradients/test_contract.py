"""The contract of every gradient estimator, one test a promise."""

import pytest
import torch
from cases import each
from gradients.enumeration import ALL_UNITS, CODINGS, close
from page_examples import page_classes
from pretend import assert_as_on_cpu
from sklearn.base import clone

import skhash.gradients as gradients
from skhash.gradients import (
    ARM,
    GRADIENTS,
    ZGR,
    BernoulliUnits,
    DeterministicST,
    DisARM,
    Exact,
    GradientEstimator,
    GumbelSoftmax,
    HardST,
    IdentityST,
    LayerwiseGradient,
    LocalExpectation,
    MeanField,
    MuProp,
    Reinforce,
    ReinforceLOO,
    STGumbel,
    StraightThrough,
    require_layerwise,
    resolve_gradient,
)
from skhash.noise import Logistic, Normal, Triangular, Uniform

LAYERWISE = [
    StraightThrough(),
    DeterministicST(),
    IdentityST(),
    HardST(),
    MeanField(),
    GumbelSoftmax(),
    GumbelSoftmax(temperature=0.3),
    STGumbel(),
    ZGR(),
]
# They take any function of the values.
BLACK_BOX = [
    Reinforce(),
    Reinforce(baseline=1.5),
    ReinforceLOO(n_samples=3),
    ARM(),
    ARM(n_samples=4),
    DisARM(),
    DisARM(n_samples=4),
    LocalExpectation(),
    LocalExpectation(n_flips=2),
    Exact(),
]
# Examples of the pages keep the same promises.
for example in page_classes(GradientEstimator):
    is_layerwise = issubclass(example, LayerwiseGradient)
    (LAYERWISE if is_layerwise else BLACK_BOX).append(example())
TOLD = [StraightThrough(debias="quadratic"), Reinforce("row"), MuProp("row")]
ALL = [*LAYERWISE, MuProp(), *BLACK_BOX, *TOLD]
# Their values may be between the low and the high one.
BETWEEN = (MeanField, GumbelSoftmax, MuProp)

every_estimator = each("estimator", ALL)
every_coding = each("coding", CODINGS)

N_ROWS, N_BITS = 6, 4


class RowLoss:
    """A loss of values and of the row's own target, with a weight."""

    def __init__(self, dtype=torch.float64):
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.randn(N_BITS, 3, generator=generator, dtype=dtype)
        self.weight.requires_grad_()
        self.target = torch.randn(N_ROWS, 3, generator=generator, dtype=dtype)
        self.calls = []

    def __call__(self, values):
        self.calls.append((values.detach(), torch.is_grad_enabled()))
        return (torch.tanh(values @ self.weight) - self.target).square().sum(dim=-1)


def make_logits(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(N_ROWS, N_BITS, generator=generator, dtype=dtype)
    return logits.requires_grad_()


def surrogate(estimator, loss, logits, seed=2, **units):
    """Call a fresh copy of the estimator with all that it asks for."""
    told = {}
    if getattr(estimator, "baseline", None) == "row":
        told["rows"] = torch.arange(len(logits))
    if estimator.needs_curvature:
        told["curvature"] = torch.ones(logits.shape[-1], dtype=logits.dtype)
    generator = torch.Generator().manual_seed(seed)
    return clone(estimator).surrogate(loss, logits, generator, **units, **told)


@every_estimator
@every_coding
@each("dtype", [torch.float32, torch.float64])
def test_losses_have_one_value_a_row_and_gradients(estimator, coding, dtype):
    loss, logits = RowLoss(dtype), make_logits(dtype)
    units = BernoulliUnits(coding=coding)
    losses = surrogate(estimator, loss, logits, units=units)
    assert losses.shape == (N_ROWS,) and losses.dtype == dtype
    losses.sum().backward()
    assert logits.grad.dtype == dtype and logits.grad.isfinite().all()
    assert (logits.grad != 0).any() and (loss.weight.grad != 0).any()
    for values, _ in loss.calls:
        assert values.shape[-2:] == (N_ROWS, N_BITS) and values.dtype == dtype
        is_binary = (values == units.low) | (values == units.high)
        assert is_binary.all() or type(estimator) in BETWEEN


@each("estimator", [e for e in ALL if not isinstance(e, Exact)])
def test_value_and_parameter_gradient_are_those_of_the_first_values(estimator):
    loss = RowLoss()
    losses = surrogate(estimator, loss, make_logits())
    first, _ = loss.calls[0]
    again = RowLoss()
    close(losses.detach(), again(first).detach(), 0)
    weights = torch.arange(N_ROWS, dtype=torch.float64)
    found = torch.autograd.grad(weights @ losses, loss.weight)
    expected = torch.autograd.grad(weights @ again(first), again.weight)
    close(found, expected)


@each(
    "estimator, n_evaluations",
    [
        *((estimator, 1) for estimator in LAYERWISE),
        (Reinforce(), 1),
        (MuProp(), 2),
        (ReinforceLOO(3), 3),
        (ARM(3), 6),
        (DisARM(3), 6),
        (LocalExpectation(), N_BITS + 1),
        (LocalExpectation(2), 3),
        (Exact(), 2**N_BITS),
    ],
)
def test_number_of_evaluations(estimator, n_evaluations):
    loss = RowLoss()
    surrogate(estimator, loss, make_logits())
    assert sum(values[..., 0, 0].numel() for values, _ in loss.calls) == n_evaluations
    if not isinstance(estimator, MuProp | Exact):  # a graph is kept of the first alone
        assert not any(has_graph for _, has_graph in loss.calls[1:])


@each("estimator", BLACK_BOX)
def test_black_boxes_need_no_derivative(estimator):
    table = torch.randn(
        2**N_BITS, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )

    def loss(values):
        powers = 2 ** torch.arange(N_BITS, dtype=values.dtype)
        return table[(values.detach() @ powers).long()]

    logits = make_logits()
    surrogate(estimator, loss, logits).sum().backward()
    assert logits.grad.isfinite().all() and (logits.grad != 0).any()


@every_estimator
@each("noise", {str(u.noise): u.noise for u in ALL_UNITS}.values())
def test_codings_give_the_same_gradient(estimator, noise):
    """The loss is put in terms of 0 and 1, so that its derivatives are, too."""
    results = []
    for coding in CODINGS:
        loss, logits = RowLoss(), make_logits()
        units = BernoulliUnits(noise, coding)
        if estimator.needs_curvature:
            curvature = torch.ones(N_BITS, dtype=torch.float64) / units.step**2
            told = {"curvature": curvature}
        else:
            told = {"rows": torch.arange(N_ROWS)}
        losses = clone(estimator).surrogate(
            lambda x, loss=loss, units=units: loss((x - units.low) / units.step),
            logits,
            torch.Generator().manual_seed(0),
            units=units,
            **told,
        )
        losses.sum().backward()
        results.append((losses.detach(), logits.grad, loss.weight.grad))
    close(results[0], results[1])


@every_estimator
def test_misspelled_keywords_are_refused(estimator):
    told = {"row": torch.arange(N_ROWS)}
    with pytest.raises(TypeError, match="'row'"):
        estimator.surrogate(RowLoss(), make_logits(), **told)


@every_estimator
def test_same_generator_same_estimate(estimator):
    def gradient(seed):
        logits = make_logits()
        surrogate(estimator, RowLoss(), logits, seed).sum().backward()
        return logits.grad

    state = torch.get_rng_state()
    assert torch.equal(gradient(0), gradient(0))
    assert torch.equal(state, torch.get_rng_state())
    is_certain = isinstance(estimator, DeterministicST | MeanField | Exact)
    assert torch.equal(gradient(0), gradient(1)) == is_certain


@each("estimator", LAYERWISE)
@every_coding
def test_layers_take_any_leading_axes(estimator, coding):
    units = BernoulliUnits(coding=coding)
    logits = torch.randn(2, 5, N_ROWS, N_BITS, requires_grad=True)
    values = estimator.sample(logits, units=units)
    assert values.shape == logits.shape
    values.sum().backward()
    assert logits.grad.isfinite().all()
    assert estimator.sample(torch.zeros(3), units=units).shape == (3,)


@every_estimator
@each("dtype", [torch.float32, torch.float64])
@each("noise", [Logistic(), Uniform(), Triangular(), Normal(), Normal(0.01)])
def test_extreme_logits_give_finite_gradients(estimator, noise, dtype):
    extreme = torch.tensor([[0, 1, -1, 2], [-2, 40, -40, 0.1]], dtype=dtype)
    logits = torch.cat([extreme, 1e4 * extreme, 1e8 * extreme]).requires_grad_()
    for coding in CODINGS:
        loss = RowLoss(dtype)
        units = BernoulliUnits(noise, coding)
        losses = surrogate(estimator, loss, logits, units=units)
        assert losses.isfinite().all()
        found = torch.autograd.grad(losses.sum(), [logits, loss.weight])
        assert all(gradient.isfinite().all() for gradient in found)


@every_estimator
def test_devices(estimator, device):
    def gradient(device):
        logits = make_logits(torch.float32).detach().to(device).requires_grad_()
        told = {"rows": torch.arange(N_ROWS), "curvature": torch.ones(N_BITS)}
        losses = clone(estimator).surrogate(
            lambda values: values.sum(dim=-1).sin(),
            logits,
            torch.Generator(device).manual_seed(0),
            **{name: value.to(device) for name, value in told.items()},
        )
        losses.sum().backward()
        assert losses.device == logits.device
        return losses.detach(), logits.grad

    assert_as_on_cpu(gradient, device)


@each(
    "estimator",
    [
        *(ARM(0), ARM(1.5), DisARM(-1), ReinforceLOO(1), ReinforceLOO("2")),
        *(LocalExpectation(0), LocalExpectation(1.0), LocalExpectation(N_BITS + 1)),
        *(Reinforce("mean"), Reinforce(decay=1.5), MuProp(decay=-0.1)),
        *(GumbelSoftmax(0), GumbelSoftmax("warm"), STGumbel(float("nan"))),
        StraightThrough("cubic"),
    ],
)
def test_parameters_are_checked_where_they_are_used(estimator):
    name = r"n_flips=5 is more|parameter of " + type(estimator).__name__
    with pytest.raises(ValueError, match=name):
        surrogate(estimator, RowLoss(), make_logits())


def test_every_class_is_tested_and_has_a_name():
    classes = {
        found
        for found in vars(gradients).values()
        if isinstance(found, type)
        and issubclass(found, GradientEstimator)
        and found not in (GradientEstimator, LayerwiseGradient)
    }
    tested = {type(estimator) for estimator in ALL}
    assert classes == tested - set(page_classes()), "add it to the lists of this file"
    assert classes == {type(make()) for make in GRADIENTS.values()}
    assert gradients.__all__ == sorted(gradients.__all__)


@each("gradient", ["hinton", None, ARM, 3, ["st"]])
def test_unknown_gradients_are_refused_with_what_there_is(gradient):
    with pytest.raises(ValueError, match="not one of arm, bitflip, .*, zgr, nor an"):
        resolve_gradient(gradient)


@every_estimator
def test_layers_are_required(estimator):
    is_layerwise = hasattr(estimator, "sample") and not estimator.needs_curvature
    if is_layerwise:
        assert require_layerwise(estimator, "SomeModel") is estimator
        return
    with pytest.raises(TypeError, match="SomeModel .*`sample`.*ZGR") as error:
        require_layerwise(estimator, "SomeModel")
    assert type(estimator).__name__ in str(error.value)


def test_units_are_checked():
    with pytest.raises(ValueError, match="coding='10' is not one of 01, pm1"):
        BernoulliUnits(coding="10")
    with pytest.raises(ValueError, match="noise='gumbel' is not one of"):
        BernoulliUnits("gumbel")
    assert isinstance(BernoulliUnits("normal").noise, Normal)
