"""Noise against its identities, in float64."""

import math

import pytest
import torch
from cases import each
from page_examples import page_classes
from scipy import integrate, stats
from sklearn.base import clone

import skhash.noise
from skhash.noise import (
    NOISES,
    Logistic,
    Noise,
    Normal,
    Triangular,
    Uniform,
    resolve_noise,
)

# All registered families, and those of the pages.
FAMILIES = [*NOISES.values(), *page_classes(Noise)]
SCALES = [1.0, 0.3, 2.5]
# Ends of supports, zero, and the inside.
GRID = torch.tensor([-2, -1.7, -1, -0.6, -0.01, 0, 0.3, 1, 1.2, 2], dtype=torch.float64)
EXTREME = [-1e30, -1e8, -1e3, -40.0, -2.0, -1.0, 0.0, 1.0, 2.0, 40.0, 1e3, 1e8, 1e30]

every_family = pytest.mark.parametrize("family", FAMILIES)
every_scale = each("scale", SCALES)


def support(noise):
    half = {Uniform: 1.0, Triangular: 2.0}.get(type(noise), 40.0)
    return noise.scale * half


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


@every_family
def test_slope_of_a_unit_is_one_at_the_threshold(family):
    zero = torch.zeros(1, dtype=torch.float64)
    close(2 * family().pdf(zero), zero + 1)


@every_family
@every_scale
def test_scale_stretches(family, scale):
    noise = family(scale)
    close(noise.cdf(scale * GRID), family().cdf(GRID))
    close(noise.pdf(scale * GRID) * scale, family().pdf(GRID))
    close(noise.log_odds(scale * GRID), family().log_odds(GRID))
    close(noise.hazard(scale * GRID) * scale, family().hazard(GRID), 1e-9)
    assert math.isclose(noise.variance, scale**2 * family().variance)


@every_family
@every_scale
def test_cdf_is_symmetric_and_inverted(family, scale):
    noise = family(scale)
    close(noise.cdf(-GRID), 1 - noise.cdf(GRID))
    p = torch.linspace(0.001, 0.999, 201, dtype=torch.float64)
    close(noise.cdf(noise.icdf(p)), p)
    close(noise.icdf(1 - p), -noise.icdf(p), 1e-11)


@every_family
@every_scale
def test_pdf_is_the_derivative_of_the_cdf_also_to_autograd(family, scale):
    noise = family(scale)
    a = (scale * GRID).requires_grad_()
    noise.cdf(a).sum().backward()
    if family is Uniform:  # At the ends of its support it has no derivative.
        inside = GRID.abs() != 1
        close(a.grad[inside], noise.pdf(scale * GRID)[inside])
    else:
        close(a.grad, noise.pdf(scale * GRID))


@every_family
@each("scale", [1.0, 2.0])
def test_variance(family, scale):
    noise = family(scale)

    def density(z):
        return noise.pdf(torch.tensor(z, dtype=torch.float64)).item()

    end = support(noise)
    mass, _ = integrate.quad(density, 0, end)
    second, _ = integrate.quad(lambda z: z**2 * density(z), 0, end)
    assert math.isclose(2 * mass, 1, rel_tol=1e-9)
    assert math.isclose(2 * second, noise.variance, rel_tol=1e-7)


@every_family
def test_log_odds_and_hazard(family):
    noise = family(1.3)
    a = GRID[GRID.abs() < 1].clone().requires_grad_()
    p = noise.cdf(a.detach())
    log_odds = noise.log_odds(a)
    close(log_odds.detach(), torch.logit(p))
    log_odds.sum().backward()
    close(a.grad, noise.pdf(a.detach()) / (p * (1 - p)), 1e-10)
    close(noise.hazard(a.detach()), noise.pdf(a.detach()) / p)


def test_known_functions():
    close(2 * Logistic().cdf(GRID) - 1, torch.tanh(GRID))
    close(Logistic(scale=2).cdf(GRID), torch.sigmoid(GRID))
    close(2 * Uniform().cdf(GRID) - 1, GRID.clamp(-1, 1))
    close(Triangular().cdf(GRID[:6]), (2 + GRID[:6]) ** 2 / 8)
    standard = Normal(scale=math.sqrt(math.pi / 2))
    close(standard.cdf(GRID), torch.from_numpy(stats.norm.cdf(GRID.numpy())))


@every_family
@each("dtype", [torch.float32, torch.float64])
@each("method", ["cdf", "pdf", "log_odds", "hazard"])
def test_extreme_logits_are_finite(family, dtype, method):
    a = torch.tensor(EXTREME, dtype=dtype, requires_grad=True)
    out = getattr(family(), method)(a)
    assert out.dtype == dtype and out.isfinite().all()
    if method in {"cdf", "log_odds"}:  # these have gradients
        out.sum().backward()
        assert a.grad.isfinite().all()


@each("family", [f for f in FAMILIES if f is not Logistic])
def test_saturated_log_odds_are_constant(family):
    a = torch.tensor([-1e3, -40.0, 40.0, 1e3], dtype=torch.float64, requires_grad=True)
    log_odds = family().log_odds(a)
    log_odds.sum().backward()
    assert (a.grad.abs() < torch.finfo(a.dtype).eps).all()
    assert (torch.sigmoid(log_odds) - family().cdf(a)).abs().max() < 1e-15


@every_family
@each("dtype", [torch.float32, torch.float64])
def test_sample_has_the_distribution(family, dtype):
    noise = family(1.7)
    generator = torch.Generator().manual_seed(0)
    draws = noise.sample((4000, 5), generator, dtype=dtype)
    assert draws.shape == (4000, 5) and draws.dtype == dtype
    p = noise.cdf(draws.double()).flatten().numpy()
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    again = noise.sample((4000, 5), torch.Generator().manual_seed(0), dtype=dtype)
    assert torch.equal(draws, again)


@every_family
def test_spread_draws_fall_into_a_range_each(family):
    noise, generator = family(1.7), torch.Generator().manual_seed(0)
    draws = noise.sample_spread(8, (5, 300), generator, dtype=torch.float64)
    p = noise.cdf(draws)
    ranges = (8 * p).floor().long()
    every = torch.arange(8)[:, None, None].expand_as(ranges)
    assert torch.equal(ranges.sort(dim=0).values, every)
    # Each draw alone has the distribution, wherever in its range it falls, and the
    # orders of two entries are independent.
    for draw in p:
        assert stats.kstest(draw.flatten().numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest((8 * p - ranges).flatten().numpy(), "uniform").pvalue > 1e-3
    first, second = p.flatten(1).T.reshape(-1, 2, 8).unbind(dim=1)
    table = torch.zeros(8, 8)
    cells = (8 * first).long(), (8 * second).long()
    table.index_put_(cells, torch.ones(1), accumulate=True)
    assert stats.chi2_contingency(table.numpy()).pvalue > 1e-3


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_spread_draws_are_finite_at_the_ends_of_rand(family, dtype, monkeypatch):
    ends = torch.tensor([0.0, 1 - torch.finfo(dtype).eps / 2], dtype=dtype)
    monkeypatch.setattr(torch, "rand", lambda shape, **kwargs: ends.expand(shape))
    assert family().sample_spread(3, (4, 2), dtype=dtype).isfinite().all()


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sample_is_finite_at_the_ends_of_rand(family, dtype, monkeypatch):
    ends = torch.tensor([0.0, 1 - torch.finfo(dtype).eps / 2], dtype=dtype)
    monkeypatch.setattr(torch, "rand", lambda *args, **kwargs: ends)
    assert (ends < 1).all()
    assert family().sample((2,), dtype=dtype).isfinite().all()


def test_resolve():
    for name, family in NOISES.items():
        assert type(resolve_noise(name)) is family
    noise = Logistic(scale=2)
    assert resolve_noise(noise) is noise
    assert clone(noise).get_params() == {"scale": 2}


@each("noise", ["gumbel", None, Logistic, 3])
def test_resolve_names_what_there_is(noise):
    with pytest.raises(ValueError, match="logistic, normal, triangular, uniform"):
        resolve_noise(noise)


@each("scale", [0, -1.0, "2", None, math.nan, math.inf])
def test_resolve_refuses_a_scale(scale):
    with pytest.raises(ValueError, match="scale"):
        resolve_noise(Uniform(scale=scale))


def test_every_family_has_a_name():
    families = {
        value
        for value in vars(skhash.noise).values()
        if isinstance(value, type) and issubclass(value, Noise) and value is not Noise
    }
    assert families == set(NOISES.values())
    assert set(skhash.noise.__all__) == {
        *(family.__name__ for family in families),
        "Noise",
    }
