"""Expectations of gradient estimators without chance: every outcome, weighted.

A row of logits is repeated once for each outcome, and `torch.rand` gives the rows the
uniform numbers that lead there. So one call of `surrogate` sees all outcomes.
"""

import itertools
import math
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import torch

from skhash import noise
from skhash.gradients import BernoulliUnits
from skhash.noise import Logistic, Normal, Triangular, Uniform

LOGITS = torch.tensor([0.4, -0.7, 0.9], dtype=torch.float64)
NOISES = [
    Logistic(),
    Logistic(scale=2),
    Uniform(scale=1.5),
    Triangular(),
    Normal(scale=0.7),
]
# A family that is registered and not listed above.
NOISES += [f() for f in noise.NOISES.values() if f not in map(type, NOISES)]
CODINGS = ["01", "pm1"]
ALL_UNITS = [BernoulliUnits(noise, coding) for noise in NOISES for coding in CODINGS]


class Loss:
    """A loss with parameters that is no polynomial in any unit."""

    def __init__(self, n_bits=3):
        weight = torch.tensor([1.3, -0.8, 1.9], dtype=torch.float64)[:n_bits]
        self.weight = weight.requires_grad_()
        self.rate = torch.tensor([0.5, 0.9, -0.3], dtype=torch.float64)[:n_bits]

    def __call__(self, values):
        return torch.sin(values @ self.weight) + torch.exp(values @ self.rate)


class Quadratic:
    """The squared distance of a linear decoder to a target."""

    def __init__(self, n_bits=3):
        generator = torch.Generator().manual_seed(1)
        self.weight = torch.randn(
            n_bits, 4, generator=generator, dtype=torch.float64
        ).requires_grad_()
        self.target = torch.randn(4, generator=generator, dtype=torch.float64)

    def __call__(self, values):
        return (values @ self.weight - self.target).square().sum(dim=-1)

    @property
    def curvature(self):
        return self.weight.square().sum(dim=-1)


class Linear:
    """A loss that is linear in the units."""

    def __init__(self, n_bits=3):
        self.weight = LOGITS.new_tensor([1.0, -2.0, 0.5])[:n_bits].requires_grad_()

    def __call__(self, values):
        return values @ self.weight


@dataclass
class Outcomes:
    """Uniform numbers of every outcome, and its probability.

    `draws` are the tensors that successive calls of `torch.rand` return.
    """

    draws: list
    weights: torch.Tensor


def all_states(n_bits):
    """Return which units are on in each state, shape (2**n_bits, n_bits), bool."""
    return torch.tensor(list(itertools.product([False, True], repeat=n_bits)))


def state_probabilities(on, p):
    return torch.where(on, p, 1 - p).prod(dim=-1)


def by_state(logits, units):
    """Every state once."""
    on, p = all_states(len(logits)), units.noise.cdf(logits)
    uniform = torch.where(on, p / 2, (1 + p) / 2)
    return Outcomes([uniform], state_probabilities(on, p))


def by_cell(logits, units):
    """Two Gauss nodes in every cell of [0, 1]^n that p and 1 - p cut.

    Exact for the mean and the variance of what is linear in the uniform numbers of a
    cell.
    """
    nodes, masses = [], []
    for p in units.noise.cdf(logits).tolist():
        edges = [0.0, min(p, 1 - p), max(p, 1 - p), 1.0]
        node, mass = [], []
        for low, high in itertools.pairwise(edges):
            middle, half = (low + high) / 2, (high - low) / 2
            node += [middle - half / math.sqrt(3), middle + half / math.sqrt(3)]
            mass += [half, half]
        nodes.append(torch.tensor(node, dtype=torch.float64))
        masses.append(torch.tensor(mass, dtype=torch.float64))
    uniform = torch.cartesian_prod(*nodes).reshape(-1, len(logits))
    weights = torch.cartesian_prod(*masses).reshape(-1, len(logits)).prod(dim=-1)
    return Outcomes([uniform[None]], weights)


def independent(outcomes, n_samples):
    """Every tuple of `n_samples` outcomes, as a first axis of the first draws."""
    uniform, weights = outcomes.draws[0].squeeze(0), outcomes.weights
    grid = torch.cartesian_prod(*[torch.arange(len(weights))] * n_samples)
    return Outcomes([uniform[grid.T]], weights[grid].prod(dim=-1))


def by_state_and_order(logits, units):
    """Every state with every order of the units."""
    states, n_bits = by_state(logits, units), len(logits)
    orders = torch.tensor(list(itertools.permutations(range(n_bits))))
    order = (orders.double() + 0.5) / n_bits
    n_states, n_orders = len(states.weights), len(orders)
    return Outcomes(
        [states.draws[0].repeat_interleave(n_orders, dim=0), order.repeat(n_states, 1)],
        states.weights.repeat_interleave(n_orders) / n_orders,
    )


@contextmanager
def uniform_draws(draws):
    """Let `torch.rand` return these, one a call."""
    left = list(draws)

    def rand(shape, dtype=None, **kwargs):
        assert tuple(shape) == tuple(left[0].shape)
        return left.pop(0).to(dtype, copy=True)

    with mock.patch.object(torch, "rand", rand):
        yield
    assert not left


@dataclass
class Estimates:
    """Estimates at each outcome, and their expectations."""

    losses: torch.Tensor
    gradients: torch.Tensor
    weights: torch.Tensor
    parameter_gradient: torch.Tensor | None = None

    @property
    def value(self):
        return self.weights @ self.losses

    @property
    def mean(self):
        return self.weights @ self.gradients

    @property
    def expected(self):
        """The three that `exact` returns."""
        return self.value, self.mean, self.parameter_gradient

    @property
    def variance(self):
        """The variance of the estimate in each unit."""
        return self.weights @ (self.gradients - self.mean).square()


def estimates(estimator, function, logits, units, outcomes, **told):
    """Run an estimator through all outcomes."""
    weights = outcomes.weights
    assert abs(weights.sum() - 1) < 1e-12
    rows = logits.expand(len(weights), -1).clone().requires_grad_()
    with uniform_draws(outcomes.draws):
        losses = estimator.surrogate(function, rows, units=units, **told)
    inputs = [rows]
    if isinstance(getattr(function, "weight", None), torch.Tensor):
        inputs.append(function.weight)
    gradient, *parameter = torch.autograd.grad(weights @ losses, inputs)
    return Estimates(losses.detach(), gradient / weights[:, None], weights, *parameter)


def exact(function, logits, units):
    """Return the expected loss, and its gradients in logits and the weight."""
    logits = logits.clone().requires_grad_()
    on = all_states(len(logits))
    p = state_probabilities(on, units.noise.cdf(logits))
    loss = p @ function(units.values(on.double()))
    return loss.detach(), *torch.autograd.grad(loss, [logits, function.weight])


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


def differs(a, b, by=1e-3):
    return (a - b).abs().max() > by
