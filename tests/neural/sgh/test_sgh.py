"""SGHEncoder against enumeration of all codes, in float64, and against closed forms."""

import numpy as np
import pytest
import torch
from cases import each
from neural.sgh.models import DIGITS, all_bits, log_probability, make_module
from scipy import sparse

from skhash import SGHEncoder
from skhash.codes import CODINGS
from skhash.neural import LatentScale
from skhash.neural.sgh._module import SQUARED_ERRORS
from skhash.training._module import Batch


def log_likelihood(module, bits, x):
    """log p(x|bits) of the model, x (n, d) against all codes: (n, n_codes)."""
    low, step = CODINGS[module.coding]
    decoded = module.offset + (low + step * bits) @ module.codebook
    normal = torch.distributions.Normal(decoded, torch.exp(module.log_rho))
    return normal.log_prob(x[:, None, :]).sum(dim=-1)


def enumerated_free_energy(module, logits, x, kl_weight):
    bits = all_bits(logits.shape[1])
    log_q = log_probability(bits, logits[:, None, :])
    divergence = log_q - log_probability(bits, module.prior_logits)
    energy = kl_weight * divergence - log_likelihood(module, bits, x)
    return (log_q.exp() * energy).sum(dim=1)


@each("coding", ["01", "pm1"])
@each("n_bits, kl_weight", [(1, 1.0), (3, 0.4), (8, 2.0)])
def test_analytic_free_energy_equals_enumeration_in_value_and_gradient(
    coding, n_bits, kl_weight
):
    module, x = make_module(coding, seed=n_bits, n_bits=n_bits)
    value = module.free_energy(module(x), x, kl_weight=kl_weight)
    gradients = torch.autograd.grad(value.mean(), list(module.parameters()))
    expected = enumerated_free_energy(module, module(x), x, kl_weight)
    expected_gradients = torch.autograd.grad(expected.mean(), list(module.parameters()))
    torch.testing.assert_close(value, expected)
    assert len(gradients) == 6 and all(gradient.any() for gradient in gradients)
    torch.testing.assert_close(gradients, expected_gradients)


def estimate_at(name, module, logits, x, code):
    """An estimator's error and logit gradient when the bits drawn are `code`."""
    low, step = CODINGS[module.coding]
    leaf = logits.detach().clone().requires_grad_()
    # Below any probability where the bit is to be 1, above it where it is to be 0.
    uniform = (0.999999 - 0.999998 * code).expand_as(leaf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", lambda *shape, **options: uniform)
        error = SQUARED_ERRORS[name](
            x, module.offset, leaf, module.codebook, module.coding, None
        )
    return error.detach(), torch.autograd.grad(error.sum(), leaf)[0]


def expected_estimate(name, module, logits, x):
    """Exact expectation of an estimator over its draws: each code with its weight."""
    bits = all_bits(logits.shape[1])
    weights = log_probability(bits, logits[:, None, :]).exp()
    value, gradient = 0, 0
    for code, weight in zip(bits, weights.T, strict=True):
        error, estimate = estimate_at(name, module, logits, x, code)
        value = value + weight * error
        gradient = gradient + weight[:, None] * estimate
    return value, gradient


@each("coding", ["01", "pm1"])
@each("n_bits", [1, 3, 8])
def test_sampled_estimators_have_the_expectation_that_theory_says(coding, n_bits):
    module, x = make_module(coding, seed=3, n_bits=n_bits)
    low, step = CODINGS[coding]
    logits = module(x).detach().clamp(-4, 4).requires_grad_()
    analytic = SQUARED_ERRORS["analytic"](
        x, module.offset, logits, module.codebook, coding
    )
    gradient = torch.autograd.grad(analytic.sum(), logits)[0]

    value, exact = expected_estimate("exact", module, logits, x)
    torch.testing.assert_close(value, analytic.detach())
    torch.testing.assert_close(exact, gradient)

    # The linearised estimator is the gradient of the error of the mean code ...
    p = torch.sigmoid(logits)
    mean_field = (x - module.offset - (low + step * p) @ module.codebook) ** 2
    mean_field_gradient = torch.autograd.grad(mean_field.sum(), logits)[0]
    _, linear = expected_estimate("linear", module, logits, x)
    torch.testing.assert_close(linear, mean_field_gradient)
    # ... which differs from the exact one by the variance term's gradient.
    norms = module.codebook.square().sum(dim=1)
    missing = step**2 * norms * (1 - 2 * p) * p * (1 - p)
    torch.testing.assert_close((gradient - linear).detach(), missing.detach())


def test_the_loss_is_the_mean_energy_with_its_weights():
    module, X = make_module(weight_penalty=0.3, kl_weight=0.4)
    logits = module(X)
    energy = module.free_energy(logits, X, kl_weight=0.4).mean()
    penalty = 0.3 / 2 * module.codebook.norm() ** 2
    torch.testing.assert_close(module.loss(logits, Batch.of(X)), energy + penalty)


def test_free_energy_of_the_estimator_equals_enumeration():
    X = DIGITS[:, 20:30]
    encoder = SGHEncoder(n_bits=5, coding="pm1", random_state=0).fit(X)
    bits = all_bits(5)
    decoded = torch.from_numpy(encoder.inverse_transform(bits.numpy())).double()
    prior = torch.from_numpy(encoder.prior_logits_).double()
    x = torch.from_numpy(X).double()
    likelihood = torch.distributions.Normal(decoded, encoder.rho_).log_prob(x[:, None])
    joint = likelihood.sum(dim=-1) + log_probability(bits, prior)
    logits = torch.from_numpy(encoder.decision_function(X)).double()
    log_q = log_probability(bits, logits[:, None, :])
    expected = (log_q.exp() * (log_q - joint)).sum(dim=1)
    np.testing.assert_allclose(encoder.free_energy(X), expected, rtol=1e-4)


OPTIONS = [
    *({"gradient": gradient} for gradient in ("exact", "linear")),
    *({"init": init} for init in ("pca", "random")),
    *({"lr_schedule": name} for name in ("inverse_sqrt", "cosine", "step")),
    *({"coding": "pm1"}, {"latent_scale": LatentScale()}, {"kl_weight": 2.0}),
    *({"weight_penalty": 0.1}, {"optimizer": "sgd"}, {"lr": 0.001}),
    *({"max_epochs": 2}, {"batch_size": 50}, {"random_state": 1}),
    {"validation_fraction": 0.2},
]


def test_every_option_changes_the_result():
    X = DIGITS[:200]
    base = {"n_bits": 8, "max_epochs": 3, "random_state": 0, "init": "itq"}
    plain = SGHEncoder(**base).fit(X)
    for option in OPTIONS:
        changed = SGHEncoder(**(base | option)).fit(X)
        assert not np.array_equal(plain.codebook_, changed.codebook_), option


def test_inverse_transform_decodes_and_reconstruction_error_is_its_distance():
    encoder = SGHEncoder(n_bits=10, coding="pm1", random_state=0).fit(DIGITS)
    bits = encoder.transform(DIGITS)
    module = encoder.net_.module_
    signs = torch.from_numpy(2 * bits.astype(np.float32) - 1)
    with torch.no_grad():
        standard = module.offset + signs @ module.codebook
    decoded = encoder.mean_ + encoder.scale_ * standard.numpy()
    np.testing.assert_allclose(encoder.inverse_transform(bits), decoded, atol=1e-4)
    expected = ((DIGITS - encoder.inverse_transform(bits)) ** 2).sum(axis=1)
    for X in (DIGITS, sparse.csr_array(DIGITS)):
        np.testing.assert_allclose(encoder.reconstruction_error(X), expected, rtol=1e-4)
    with pytest.raises(ValueError, match="9 .*10"):
        encoder.inverse_transform(bits[:, :9])
    with pytest.raises(ValueError, match="0 and 1"):
        encoder.inverse_transform(bits * 2)


@each("unit", [1e-20, 1e20])
def test_magnitudes_that_cannot_be_squared_are_refused(unit):
    with pytest.raises(ValueError, match="X is .*e[-+]"):
        SGHEncoder(n_bits=4).fit(DIGITS * unit)
