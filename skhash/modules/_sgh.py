"""The model of Stochastic Generative Hashing and its gradient estimators."""

import math

import torch
from torch import nn
from torch.nn.functional import softplus

from skhash.gradients._base import CODINGS, attach_gradient, uniform_like


class SGHModule(nn.Module):
    """Gaussian decoder on Bernoulli bits, with a linear encoder.

    It works on standardised data, ``(x - mean) / scale``, so that every other number
    here is free of their unit. With bits ``h``, logits ``a``, ``p = sigmoid(a)``,
    codebook ``U``, residual ``e = x - alpha - h U`` and prior logits ``pi``, the loss
    of a row is the Helmholtz free energy with a weight on its second part::

        E_h[|e|^2] / (2 rho^2) + d/2 log(2 pi_ rho^2)
            + kl_weight * sum_k KL(Bernoulli(p_k) || Bernoulli(sigmoid(pi_k)))

    to whose mean over rows ``weight_penalty / 2 * |U|_F^2`` is added.

    Parameters
    ----------
    mean : ndarray of shape (d,), float64
    scale : float
        What the data were standardised with; kept for whoever feeds the module.
    weight, bias : ndarrays of shape (d, n_bits) and (n_bits,)
        The encoder, on standardised data.
    codebook, offset : ndarrays of shape (n_bits, d) and (d,)
        The decoder, on standardised data.
    prior_logits : ndarray of shape (n_bits,)
        In both codings the log-odds of a bit; the energy's beta is half of it for
        "pm1".
    log_rho : float
    coding, gradient, kl_weight, weight_penalty
        As in `SGHEncoder`.
    frozen : sequence of str
        Names of parameters that are not trained.
    """

    # Set by whoever trains: draws the bits, on the module's device.
    generator: torch.Generator | None = None

    def __init__(
        self,
        *,
        mean,
        scale,
        weight,
        bias,
        codebook,
        offset,
        prior_logits,
        log_rho,
        coding="01",
        gradient="analytic",
        kl_weight=1.0,
        weight_penalty=0.0,
        frozen=(),
    ):
        super().__init__()
        self.mean, self.scale = mean, scale
        self.weight = _parameter(weight)
        self.bias = _parameter(bias)
        self.codebook = _parameter(codebook)
        self.offset = _parameter(offset)
        self.prior_logits = _parameter(prior_logits)
        self.log_rho = _parameter(log_rho)
        for name in frozen:
            getattr(self, name).requires_grad_(False)
        self.coding = coding
        self.gradient = gradient
        self.kl_weight = kl_weight
        self.weight_penalty = weight_penalty

    def forward(self, X):
        return X @ self.weight + self.bias

    def loss(self, logits, X, y=None):
        """Return the mean free energy of the rows plus the penalty."""
        penalty = 0.5 * self.weight_penalty * self.codebook.square().sum()
        return self.free_energy(logits, X).mean() + penalty

    def free_energy(self, logits, X):
        """Return the free energy of each row of standardised data, shape (n,)."""
        error = SQUARED_ERRORS[self.gradient](
            X - self.offset,
            logits,
            self.codebook,
            *CODINGS[self.coding],
            self.generator,
        )
        n_features = self.codebook.shape[1]
        log_normalizer = n_features * (self.log_rho + 0.5 * math.log(2 * math.pi))
        return (
            0.5 * torch.exp(-2 * self.log_rho) * error
            + log_normalizer
            + self.kl_weight * bernoulli_kl(logits, self.prior_logits)
        )


def _parameter(values):
    # A copy: training must not reach the arrays that it starts from.
    return nn.Parameter(torch.tensor(values, dtype=torch.float32).contiguous())


def bernoulli_kl(logits, prior_logits):
    """Return ``sum_k KL(Ber(sigmoid(logits_k)) || Ber(sigmoid(prior_logits_k)))``."""
    p = torch.sigmoid(logits)
    kl = p * (logits - prior_logits) - softplus(logits) + softplus(prior_logits)
    return kl.sum(dim=-1)


def analytic_squared_error(target, logits, codebook, low, step, generator=None):
    """Return ``E_h |target - h U|^2`` of each row in closed form: no noise, no bias.

    The bits are independent and the decoder is linear, so the expectation is the
    squared error of the mean code plus the variance of each bit times the squared norm
    of its codeword.
    """
    p = torch.sigmoid(logits)
    variance = (p * (1 - p)) @ codebook.square().sum(dim=1)
    residual = target - (low + step * p) @ codebook
    return residual.square().sum(dim=1) + step**2 * variance


def sampled_squared_error(target, logits, codebook, low, step, generator):
    """Squared error at sampled bits, with the exact distributional derivative.

    The gradient in a logit is ``p (1 - p)`` times the difference that switching its bit
    on makes, the others as drawn (Dai et al., 2017, equation 8). For this decoder all
    n_bits differences together cost one product with the codebook::

        step * [2 (middle - h_k) |u_k|^2 - 2 u_k . e]

    with ``middle`` halfway between the two values of a bit.
    """
    bits, residual = _draw(target, logits, codebook, low, step, generator)
    error = residual.square().sum(dim=1)
    with torch.no_grad():
        norms = codebook.square().sum(dim=1)
        middle = low + 0.5 * step
        difference = 2 * step * ((middle - bits) * norms - residual @ codebook.T)
    return attach_gradient(error, torch.sigmoid(logits), difference)


def linear_squared_error(target, logits, codebook, low, step, generator):
    """Squared error at sampled bits, with the linearised, biased derivative.

    The difference is replaced by the slope at the drawn bits (Dai et al., 2017,
    supplement, equation 14, with the factor `step` that equation 20 leaves out for
    -1/+1). It misses ``2 step (middle - h_k) |u_k|^2``, so in expectation it is the
    gradient of the error of the mean code: nothing pushes bits away from probability
    one half.
    """
    bits, residual = _draw(target, logits, codebook, low, step, generator)
    error = residual.square().sum(dim=1)
    with torch.no_grad():
        difference = -2 * step * residual @ codebook.T
    return attach_gradient(error, torch.sigmoid(logits), difference)


SQUARED_ERRORS = {
    "analytic": analytic_squared_error,
    "exact": sampled_squared_error,
    "linear": linear_squared_error,
}


def _draw(target, logits, codebook, low, step, generator):
    uniform = uniform_like(logits, generator)
    bits = low + step * (uniform < torch.sigmoid(logits)).to(logits.dtype)
    return bits, target - bits @ codebook
