"""Latent scales of SGHEncoder against enumeration and quadrature."""

import itertools

import numpy as np
import pytest
import torch
from cases import each
from neural.sgh.models import DIGITS, all_bits, log_probability, make_module
from torch.distributions import Normal

from skhash import SGHEncoder
from skhash.codes import CODINGS
from skhash.neural import LatentScale
from skhash.neural.sgh._module import SQUARED_ERRORS

# Gauss-Hermite nodes of a standard normal. Everything here is a polynomial of degree 2
# in z, or its logarithm's, so that 3 nodes give the exact expectation.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(3)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def make_latent(coding, **options):
    return make_module(coding, latent=True, **options)


def quadrature(n_bits):
    """Nodes of n_bits standard normals, shape (n_nodes, n_bits), and their weights."""
    nodes = torch.tensor(list(itertools.product(NODES, repeat=n_bits)))
    weights = torch.tensor(list(itertools.product(WEIGHTS, repeat=n_bits)))
    return nodes, weights.prod(dim=1)


def integrated_free_energy(module, logits, x):
    """E_{q(h|x) q(z|x)} [log q(h) q(z) - log p(x, h, z)], by summing over everything.

    Axes: rows, codes, nodes of z, then features or bits.
    """
    low, step = CODINGS[module.coding]
    scales = module.latent_scales(logits, x)
    nodes, weights = quadrature(logits.shape[1])
    std = scales.variance.sqrt()
    z = (scales.mean[:, None] + std[:, None] * nodes)[:, None]
    bits = all_bits(logits.shape[1])[None, :, None]
    decoded = module.offset + ((low + step * bits) * z) @ module.codebook
    spread = torch.exp(module.log_rho)
    log_p = Normal(decoded, spread).log_prob(x[:, None, None]).sum(dim=-1)
    log_p = log_p + log_probability(bits, module.prior_logits)
    one = torch.ones((), dtype=x.dtype)
    log_p = log_p + Normal(one, module.scale_std).log_prob(z).sum(dim=-1)
    log_q = log_probability(bits, logits[:, None, None])
    log_q_z = Normal(scales.mean[:, None], std[:, None]).log_prob(z[:, 0]).sum(dim=-1)
    energies = log_q + log_q_z[:, None] - log_p
    return (log_q.exp() * weights * energies).sum(dim=(1, 2))


@each("coding", ["01", "pm1"])
@each("n_bits", [1, 3, 4])
def test_latent_free_energy_equals_the_integral_in_value_and_gradient(coding, n_bits):
    module, x = make_latent(coding, seed=n_bits, n_bits=n_bits)
    value = module.free_energy(module(x), x)
    gradients = torch.autograd.grad(value.mean(), list(module.parameters()))
    expected = integrated_free_energy(module, module(x), x)
    expected_gradients = torch.autograd.grad(expected.mean(), list(module.parameters()))
    torch.testing.assert_close(value, expected)
    assert len(gradients) == 8
    assert all(gradient.any() for gradient in gradients)
    torch.testing.assert_close(gradients, expected_gradients)


@each("coding", ["01", "pm1"])
def test_posterior_variance_is_the_best(coding):
    """No other variances of q(z|x) have a lower free energy: none need be learned."""
    module, x = make_latent(coding)
    logits = module(x).detach()
    best = module.latent_scales(logits, x)
    log_variance = best.variance.log().requires_grad_()
    best.variance = log_variance.exp()
    error = SQUARED_ERRORS["analytic"](
        x, module.offset, logits, module.codebook, coding, None, best
    )
    energy = 0.5 * torch.exp(-2 * module.log_rho) * error + best.kl(module.scale_std)
    (slope,) = torch.autograd.grad(energy.sum(), log_variance)
    torch.testing.assert_close(slope, torch.zeros_like(slope))


@each("coding", ["01", "pm1"])
@each("n_bits", [1, 2])
def test_exact_gradient_given_latent_scales_is_unbiased(coding, n_bits):
    """Its mean over all bits and z, in every parameter, is the analytic gradient."""
    module, x = make_latent(coding, seed=3, n_bits=n_bits)

    def gradients(rows, kind):
        energy = module.free_energy(module(rows), rows, kind).sum()
        return torch.autograd.grad(energy, list(module.parameters()))

    expected = gradients(x, "analytic")
    with torch.no_grad():
        logits = module(x)
    nodes, weights = quadrature(n_bits)
    estimate = [torch.zeros_like(gradient) for gradient in expected]
    # Rows are independent, so one row at a time: each has its own probabilities.
    for row, code in itertools.product(range(len(x)), all_bits(n_bits)):
        probability = log_probability(code, logits[row]).exp()
        uniform = 0.999999 - 0.999998 * code[None]
        for node, weight in zip(nodes, weights, strict=True):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(torch, "rand", lambda *a, u=uniform, **k: u)
                patch.setattr(
                    torch.Tensor, "normal_", lambda values, n=node, **k: values.copy_(n)
                )
                for total, part in zip(
                    estimate, gradients(x[row, None], "exact"), strict=True
                ):
                    total += probability * weight * part
    torch.testing.assert_close(estimate, expected)


def test_linear_gradient_given_latent_scales_misses_the_second_difference():
    """At each draw of bits and z, by step * 2 (middle - h) z^2 |u|^2."""
    module, x = make_latent("pm1", seed=4)
    low, step = CODINGS["pm1"]
    logits = module(x).detach().requires_grad_()
    scales = module.latent_scales(logits, x)
    found = {}
    for name in ("exact", "linear"):
        generator = torch.Generator().manual_seed(0)
        arguments = (x, module.offset, logits, module.codebook, "pm1", generator)
        error = SQUARED_ERRORS[name](*arguments, scales)
        (found[name],) = torch.autograd.grad(error.sum(), logits)
    generator = torch.Generator().manual_seed(0)
    p = torch.sigmoid(logits)
    uniform = torch.rand(logits.shape, generator=generator, dtype=torch.float64)
    signs = torch.where(uniform < p, 1.0, -1.0)
    z = scales.draw(generator)
    norms = module.codebook.square().sum(dim=1)
    missing = p * (1 - p) * step * 2 * (0 - signs) * z**2 * norms
    torch.testing.assert_close(found["exact"] - found["linear"], missing)


@each("coding", ["01", "pm1"])
def test_attributes_decode_as_the_module_does(coding):
    options = {"coding": coding, "max_epochs": 3, "random_state": 0}
    encoder = SGHEncoder(6, latent_scale=LatentScale(), **options).fit(DIGITS)
    module = encoder.net_.module_
    standard = torch.from_numpy((DIGITS - encoder.mean_) / encoder.scale_).float()
    bits = encoder.transform(DIGITS)
    low, step = CODINGS[coding]
    with torch.no_grad():
        z = module.latent_scales(module(standard), standard).mean
        codes = low + step * torch.from_numpy(bits).float()
        at_one = module.offset + codes @ module.codebook
        at_mean = module.offset + (codes * z) @ module.codebook

    def in_unit(values):
        return encoder.mean_ + encoder.scale_ * values.numpy()

    np.testing.assert_allclose(
        encoder.inverse_transform(bits), in_unit(at_one), atol=1e-4
    )
    posterior = encoder.latent_scales(DIGITS)
    np.testing.assert_allclose(posterior, z, atol=1e-5)
    decoded = encoder.inverse_transform(bits, posterior)
    np.testing.assert_allclose(decoded, in_unit(at_mean), atol=1e-4)
    assert not np.allclose(decoded, encoder.inverse_transform(bits))


def test_free_energy_of_a_latent_encoder_is_that_of_its_module():
    """Read out and restored, the parameters are those that were trained."""
    encoder = SGHEncoder(
        n_bits=6, latent_scale=LatentScale(), coding="pm1", kl_weight=1, random_state=0
    ).fit(DIGITS)
    module = encoder.net_.module_.double()
    standard = torch.from_numpy((DIGITS - encoder.mean_) / encoder.scale_)
    with torch.no_grad():
        energy = module.free_energy(module(standard), standard).numpy()
    energy += DIGITS.shape[1] * np.log(encoder.scale_)
    np.testing.assert_allclose(encoder.free_energy(DIGITS), energy, rtol=1e-5)


def test_only_latent_encoders_have_latent_scales():
    scale = LatentScale()
    plain = SGHEncoder(4, latent_scale=scale, max_epochs=1, random_state=0)
    plain.fit(DIGITS).set_params(latent_scale=None).fit(DIGITS)
    assert not hasattr(plain, "latent_scales")
    assert plain.latent_scale_components_ is None
    bits = plain.transform(DIGITS)
    # Scales can still be given: 1 is what None means.
    np.testing.assert_allclose(
        plain.inverse_transform(bits, np.ones(bits.shape)),
        plain.inverse_transform(bits),
        rtol=1e-6,
    )
    with pytest.raises(ValueError, match=r"\(600, 3\).*\(600, 4\)"):
        plain.inverse_transform(bits, np.ones((600, 3)))
