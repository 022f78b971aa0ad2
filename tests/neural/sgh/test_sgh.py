"""SGHEncoder against enumeration of all codes, in float64, and against closed forms."""

import numpy as np
import pytest
import torch
from cases import each
from neural.sgh.models import DIGITS, all_bits, log_probability, make_module
from scipy import sparse

from skhash import SGHEncoder, StochasticAutoencoderHash
from skhash.codes import CODINGS
from skhash.neural.sgh._module import SQUARED_ERRORS
from skhash.training._module import Batch
from skhash.training._net import whole_batch


@pytest.fixture(scope="module")
def digits():
    return DIGITS


def joint_log_density(module, bits, x):
    """log p(x, bits) of the model, x (n, d) against all codes: (n, n_codes)."""
    low, step = CODINGS[module.coding]
    decoded = module.offset + (low + step * bits) @ module.codebook
    normal = torch.distributions.Normal(decoded, torch.exp(module.log_rho))
    likelihood = normal.log_prob(x[:, None, :]).sum(dim=-1)
    return likelihood + log_probability(bits, module.prior_logits)


def enumerated_free_energy(module, logits, x):
    bits = all_bits(logits.shape[1])
    log_q = log_probability(bits, logits[:, None, :])
    return (log_q.exp() * (log_q - joint_log_density(module, bits, x))).sum(dim=1)


@each("coding", ["01", "pm1"])
@each("n_bits", [1, 3, 8])
def test_analytic_free_energy_equals_enumeration_in_value_and_gradient(coding, n_bits):
    module, x = make_module(coding, seed=n_bits, n_bits=n_bits)
    value = module.free_energy(module(x), x)
    gradients = torch.autograd.grad(value.mean(), list(module.parameters()))
    expected = enumerated_free_energy(module, module(x), x)
    expected_gradients = torch.autograd.grad(expected.mean(), list(module.parameters()))
    torch.testing.assert_close(value, expected)
    assert len(gradients) == 6 and all(gradient.any() for gradient in gradients)
    torch.testing.assert_close(gradients, expected_gradients)


@each("coding", ["01", "pm1"])
def test_free_energy_bounds_the_log_likelihood_and_is_tight_at_the_posterior(coding):
    module, x = make_module(coding, n_bits=1)
    bits = all_bits(1)
    joint = joint_log_density(module, bits, x)
    negative_log_likelihood = -torch.logsumexp(joint, dim=1)
    assert (module.free_energy(module(x), x) > negative_log_likelihood).all()
    # One bit: the factorised posterior can be the true one, and the bound is equal.
    posterior_logits = (joint[:, 1] - joint[:, 0])[:, None]
    torch.testing.assert_close(
        module.free_energy(posterior_logits, x), negative_log_likelihood
    )


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


def test_exact_estimator_has_the_lower_variance_by_the_derived_amount():
    module, x = make_module("01", seed=5)
    logits = module(x).detach()[:1]
    x = x[:1]
    p = torch.sigmoid(logits)
    bits = all_bits(3)
    weights = log_probability(bits, logits).exp()

    def differences(name):
        rows = [estimate_at(name, module, logits, x, code)[1][0] for code in bits]
        return torch.stack(rows) / (p * (1 - p))

    def variance(values):
        mean = weights @ values
        return weights @ (values - mean) ** 2

    norms = module.codebook.square().sum(dim=1)
    gap = variance(differences("linear")) - variance(differences("exact"))
    expected = (2 * norms) ** 2 * (p * (1 - p))[0]
    torch.testing.assert_close(gap, expected.detach())


def test_codings_are_the_same_model():
    """h in {0,1} with U, alpha equals h in {-1,+1} with U/2, alpha + sum(U)/2."""
    module, x = make_module("01")
    other, _ = make_module("pm1")
    with torch.no_grad():
        other.codebook.copy_(module.codebook / 2)
        other.offset.copy_(module.offset + module.codebook.sum(dim=0) / 2)
    logits = module(x)
    torch.testing.assert_close(
        module.free_energy(logits, x), other.free_energy(logits, x)
    )


@each("weight_penalty", [0.3, 2.0])
def test_weight_penalty_is_half_the_squared_norm_of_the_codebook(weight_penalty):
    (plain, X), (penalized, _) = (
        make_module(weight_penalty=weight) for weight in (0.0, weight_penalty)
    )
    logits = plain(X)
    expected = plain.free_energy(logits, X).mean()
    torch.testing.assert_close(plain.loss(logits, Batch.of(X)), expected)
    expected = expected + weight_penalty / 2 * plain.codebook.norm() ** 2
    torch.testing.assert_close(penalized.loss(logits, Batch.of(X)), expected)


@each("gradient", ["analytic", "exact", "linear"])
def test_training_lowers_the_free_energy(gradient, digits):
    start = SGHEncoder(n_bits=12, max_epochs=1, lr=1e-9, random_state=0).fit(digits)
    end = SGHEncoder(n_bits=12, gradient=gradient, random_state=0).fit(digits)
    assert end.free_energy(digits).mean() < start.free_energy(digits).mean()
    assert (
        end.reconstruction_error(digits).mean()
        < start.reconstruction_error(digits).mean()
    )


def test_free_energy_of_the_estimator_equals_enumeration(digits):
    X = digits[:, 20:30]
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
    *({"averaging": averaging} for averaging in ("random", "mean")),
    *({"lr_schedule": name} for name in ("inverse_sqrt", "cosine", "step")),
    *({"coding": "pm1"}, {"scale": "latent"}, {"kl_weight": 2.0}, {"lr": 0.001}),
    *({"weight_penalty": 0.1}, {"refit_decoder": False}, {"optimizer": "sgd"}),
    *({"max_epochs": 2}, {"batch_size": 50}, {"random_state": 1}),
    {"validation_fraction": 0.2},
]


def test_every_option_changes_the_result(digits):
    base = {"n_bits": 8, "max_epochs": 3, "random_state": 0, "init": "itq"}
    plain = SGHEncoder(**base).fit(digits)
    for option in OPTIONS:
        changed = SGHEncoder(**(base | option)).fit(digits)
        assert not np.array_equal(plain.codebook_, changed.codebook_), option


def test_kl_weight_pulls_the_posterior_to_the_prior():
    """On data without structure the full weight lets bits die; a small one does not."""
    X = np.random.RandomState(0).randn(2000, 8)
    spread = [
        np.abs(
            SGHEncoder(n_bits=16, kl_weight=weight, max_epochs=12, random_state=0)
            .fit(X)
            .decision_function(X)
        ).mean()
        for weight in (0.0, 1.0)
    ]
    assert spread[0] > 2 * spread[1]


def test_inverse_transform_decodes_and_reconstruction_error_is_its_distance(digits):
    encoder = SGHEncoder(n_bits=10, coding="pm1", random_state=0).fit(digits)
    bits = encoder.transform(digits)
    module = encoder.net_.module_
    signs = torch.from_numpy(2 * bits.astype(np.float32) - 1)
    with torch.no_grad():
        standard = module.offset + signs @ module.codebook
    decoded = encoder.mean_ + encoder.scale_ * standard.numpy()
    np.testing.assert_allclose(encoder.inverse_transform(bits), decoded, atol=1e-4)
    expected = ((digits - encoder.inverse_transform(bits)) ** 2).sum(axis=1)
    for X in (digits, sparse.csr_array(digits)):
        np.testing.assert_allclose(encoder.reconstruction_error(X), expected, rtol=1e-4)
    with pytest.raises(ValueError, match="9 .*10"):
        encoder.inverse_transform(bits[:, :9])
    with pytest.raises(ValueError, match="0 and 1"):
        encoder.inverse_transform(bits * 2)


@each("unit", [1e-20, 1e20])
def test_magnitudes_that_cannot_be_squared_are_refused(unit, digits):
    with pytest.raises(ValueError, match="X is .*e[-+]"):
        SGHEncoder(n_bits=4).fit(digits * unit)


def test_autoencoder_without_hidden_layers_is_the_same_model(digits):
    """StochasticAutoencoderHash, which has other decoders, has this one too."""
    sgh = SGHEncoder(n_bits=4, random_state=0).fit(digits)
    # The other's prior is one half.
    sgh.weights_[sgh.weight_names_.index("prior_logits")][:] = 0
    autoencoder = StochasticAutoencoderHash(
        n_bits=4,
        decoder="gaussian",
        hidden_layer_sizes=(),
        dropout=0,
        gradient="exact",
        kl_weight=1.0,
        max_epochs=1,
        random_state=0,
    ).fit(digits)
    # Its noise is scaled: a unit is on with probability sigmoid(2 a).
    unit = np.float32(sgh.scale_)
    state = {
        "encoder.coefs.0": sgh.components_.T / 2 * unit,
        "encoder.intercepts.0": sgh.intercept_ / 2,
        "decoder.coefs.0": sgh.codebook_ / unit,
        "decoder.intercepts.0": (sgh.offset_ - sgh.mean_) / unit,
        "likelihood.log_rho": np.log(sgh.rho_ / unit),
    }
    autoencoder.weights_ = [state[name] for name in autoencoder.weight_names_]
    module = autoencoder._restored().eval()
    rows = whole_batch(module, digits).X
    energy = float(module.loss(module(rows), Batch.of(rows)).detach())
    energy += digits.shape[1] * np.log(sgh.scale_)
    np.testing.assert_allclose(energy, sgh.free_energy(digits).mean(), rtol=1e-5)


def test_squared_error_of_short_codes_is_that_of_long_ones():
    """Products of few columns, or the residual: the same, with the same gradients."""
    short, x = make_module("pm1", n_bits=2, n_features=5)
    low, step = CODINGS["pm1"]
    found = []
    # Bits of empty codewords change nothing but the length.
    for n_more in (0, 4):
        codebook = torch.nn.functional.pad(short.codebook, (0, 0, 0, n_more))
        logits = torch.nn.functional.pad(short(x), (0, n_more))
        error = SQUARED_ERRORS["analytic"](x, short.offset, logits, codebook, "pm1")
        sources = [short.weight, short.bias, short.codebook, short.offset]
        found.append([error, *torch.autograd.grad(error.sum(), sources)])
    torch.testing.assert_close(*found)
