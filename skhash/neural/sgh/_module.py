"""The model of Stochastic Generative Hashing and its gradient estimators."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.functional import softplus

from skhash.codes import CODINGS
from skhash.gradients._base import BernoulliUnits, attach_gradient, uniform_like
from skhash.losses._likelihoods import bernoulli_kl
from skhash.noise import Logistic
from skhash.training._module import Rows, TrainedModule

# On with probability sigmoid(logit), as the model has it.
SIGNS = BernoulliUnits(Logistic(scale=2.0), "pm1")


class SGHModule(TrainedModule):
    """Gaussian decoder on Bernoulli bits, with a linear encoder.

    It works on standardized data, ``(x - mean) / scale``, so that every other number
    here is free of their unit. With bits ``h``, logits ``a``, ``p = sigmoid(a)``,
    codebook ``U``, residual ``e = x - alpha - h U`` and prior logits ``pi``, the loss
    of a row is the Helmholtz free energy with a weight on its second part::

        E_h[|e|^2] / (2 rho^2) + d/2 log(2 pi_ rho^2)
            + kl_weight * sum_k KL(Bernoulli(p_k) || Bernoulli(sigmoid(pi_k)))

    to whose mean over rows ``weight_penalty / 2 * |U|_F^2`` is added.

    With latent scales z, one a bit, ``e = x - alpha - (h o z) U``; their
    prior is N(1, scale_std^2), their posterior Gaussian with a mean linear in x and the
    best variance, and the KL divergence of the two is added.

    With pairs, the mean of minus the log likelihood of those of a batch is added,
    ``pair_weight * d`` times, where rows are fed with partners.

    Parameters
    ----------
    start : dict of ndarray
        First values of the parameters, on standardized data, as from `sgh_start`.
    mean : ndarray of shape (d,), float64
    scale : float
        Used to standardize the data.
    scale_std : float or None
        The standard deviation of the prior of latent scales, None without them. The
        mean of z is ``1 + scale_std * (x scale_weight + scale_bias)``, at first 1.
    pairs : PairLikelihood or None
    coding, gradient, kl_weight, weight_penalty
        As in `SGHEncoder`.
    """

    def __init__(
        self,
        start,
        *,
        mean,
        scale,
        scale_std=None,
        pairs=None,
        coding="01",
        gradient="analytic",
        kl_weight=1.0,
        weight_penalty=0.0,
    ):
        super().__init__()
        self.mean, self.scale = mean, scale
        self.scale_std = scale_std
        if scale_std is not None:
            zeros = {"scale_weight": start["weight"], "scale_bias": start["bias"]}
            start = start | {name: np.zeros_like(x) for name, x in zeros.items()}
        for name, values in start.items():
            # A copy: training must not reach the arrays that it starts from.
            values = torch.tensor(values, dtype=torch.float32).contiguous()
            self.register_parameter(name, nn.Parameter(values))
        self.pairs, self.pair_source = pairs, None
        self.coding = coding
        self.gradient = gradient
        self.kl_weight = kl_weight
        self.weight_penalty = weight_penalty

    def rows(self, X, targets, run):
        # The source says which pairs a batch makes up, and their weights.
        self.pair_source, pairs = targets
        if pairs is None:
            return super().rows(X, targets, run)
        if self.pairs is None:
            raise ValueError(
                "pairs were passed, but the model was built without any; pass some in "
                "the first call of partial_fit too."
            )
        trains = run.trains(X.shape[0])
        known = self.pair_source.rows(X, pairs, trains, run.random_state, run.device)
        return Rows(X, **known, split=run.split)

    def forward(self, X):
        return X @ self.weight + self.bias

    def loss(self, logits, batch):
        """Return the mean free energy of the rows, plus penalty and loss of pairs."""
        more = 0.5 * self.weight_penalty * self.codebook.square().sum()
        X = batch.X
        if batch.partners is not None:
            pairs = self.pair_source.of_batch(logits, batch)
            loss = self.pairs.loss(*pairs, self.generator)
            more = more + self.pair_source.weight * X.shape[1] * loss
            logits, X = (values.chunk(batch.n_parts)[0] for values in (logits, X))
        energy = self.free_energy(logits, X, self.gradient, self.kl_weight)
        return energy.mean() + more

    def free_energy(self, logits, X, gradient="analytic", kl_weight=1.0):
        """Return the free energy of each row of standardized data, shape (n,)."""
        scales = self.latent_scales(logits, X)
        error = SQUARED_ERRORS[gradient](
            X, self.offset, logits, self.codebook, self.coding, self.generator, scales
        )
        n_features = self.codebook.shape[1]
        log_normalizer = n_features * (self.log_rho + 0.5 * math.log(2 * math.pi))
        energy = (
            0.5 * torch.exp(-2 * self.log_rho) * error
            + log_normalizer
            + kl_weight * bernoulli_kl(logits, self.prior_logits)
        )
        return energy if scales is None else energy + scales.kl(self.scale_std)

    def latent_scales(self, logits, X):
        """Return the posterior of the latent scales of each row, None without them.

        For given probabilities of the bits the free energy is least at the variances
        ``1 / (1 / scale_std^2 + E[h_k^2] |u_k|^2 / rho^2)``. They pass no gradient:
        there is none at a minimum.
        """
        if self.scale_std is None:
            return None
        mean = 1 + self.scale_std * (X @ self.scale_weight + self.scale_bias)
        with torch.no_grad():
            low, step = CODINGS[self.coding]
            p = torch.sigmoid(logits)
            square = (low + step * p) ** 2 + step**2 * p * (1 - p)
            norms = _norms(self.codebook)
            precision = square * norms * torch.exp(-2 * self.log_rho)
            variance = 1 / (self.scale_std**-2 + precision)
        return LatentScales(mean, variance)


@dataclass
class LatentScales:
    """Independent Gaussian posteriors of the scale of each bit of each row.

    Parameters
    ----------
    mean, variance : Tensors of shape (n_rows, n_bits)
    """

    mean: torch.Tensor
    variance: torch.Tensor

    def draw(self, generator):
        """Return one draw, differentiable in the mean."""
        noise = self.mean.new_empty(self.mean.shape).normal_(generator=generator)
        return self.mean + self.variance.sqrt() * noise

    def kl(self, prior_std):
        """Return the KL divergence of each row from the prior N(1, prior_std^2)."""
        ratio = self.variance / prior_std**2
        kl = ratio + ((self.mean - 1) / prior_std) ** 2 - 1 - torch.log(ratio)
        return 0.5 * kl.sum(dim=-1)


def analytic_squared_error(
    X, offset, logits, codebook, coding, generator=None, scales=None
):
    """Return ``E |x - offset - (h o z) U|^2`` in closed form: no noise, no bias.

    The factors of the codewords are independent and the decoder is linear, so the
    expectation is the squared error of their mean plus the variance of each times the
    squared norm of its codeword. Without `scales` z is 1.
    """
    low, step = CODINGS[coding]
    p = torch.sigmoid(logits)
    mean, variance = low + step * p, step**2 * p * (1 - p)
    if scales is not None:
        square = scales.mean**2 + scales.variance
        variance = mean**2 * scales.variance + variance * square
        mean = mean * scales.mean
    return _squared_error(X, offset, mean, codebook) + variance @ _norms(codebook)


def _squared_error(X, offset, mean, codebook):
    """Return ``|x - offset - mean U|^2`` of each row.

    Short codes of wide rows use the square of a sum, which writes no residual and saves
    a product with `X` in the gradient.
    """
    if 2 * len(codebook) > codebook.shape[1]:
        return (X - offset - mean @ codebook).square().sum(dim=1)
    target = X.square().sum(dim=1) - 2 * X @ offset + offset @ offset
    cross = X @ codebook.T - codebook @ offset
    decoded = mean @ (codebook @ codebook.T)
    # Rounding alone could bring it below 0, where rows are decoded exactly.
    return (target + ((decoded - 2 * cross) * mean).sum(dim=1)).clamp_min(0)


def _norms(codebook):
    return codebook.square().sum(dim=1)


def sampled_squared_error(
    X, offset, logits, codebook, coding, generator, scales=None, is_linear=False
):
    """Squared error at sampled bits, with the exact distributional derivative.

    The gradient in a logit is ``p (1 - p)`` times the difference that switching its bit
    on makes, the others and the latent scales z as drawn (Dai et al., 2017, equation
    8). For this decoder all n_bits differences together cost one product with the
    codebook::

        step * [2 (middle - h_k) z_k^2 |u_k|^2 - 2 z_k u_k . e]

    with ``middle`` halfway between the two values of a bit. The gradient in the mean of
    z is the ordinary one at the draw.

    `is_linear` replaces the difference by the slope at the drawn bits, its second part
    (supplement, equation 14, with the factor `step` that equation 20 leaves out for
    -1/+1). In expectation that is the gradient of the error of the mean code: nothing
    pushes bits away from probability one half.
    """
    low, step = CODINGS[coding]
    uniform = uniform_like(logits, generator)
    bits = low + step * (uniform < torch.sigmoid(logits)).to(logits.dtype)
    z = torch.ones(()).to(logits) if scales is None else scales.draw(generator)
    residual = X - offset - (bits * z) @ codebook
    with torch.no_grad():
        difference = -2 * step * z * (residual @ codebook.T)
        if not is_linear:
            middle = low + 0.5 * step
            difference += 2 * step * (middle - bits) * z**2 * _norms(codebook)
    error = residual.square().sum(dim=1)
    return attach_gradient(error, torch.sigmoid(logits), difference)


SQUARED_ERRORS = {
    "analytic": analytic_squared_error,
    "exact": sampled_squared_error,
    "linear": partial(sampled_squared_error, is_linear=True),
}


class PairLikelihood(nn.Module):
    """Rows are similar with probability ``sigmoid(scale * agreement + offset)``.

    The agreement of two codes is the inner product of their bits as -1/+1, which is
    ``n_bits`` less twice their Hamming distance. Scale and offset are learned; they
    start where an even chance is halfway between codes that are strangers, whose
    agreement is 0, and equal ones.
    """

    def __init__(self, n_bits):
        super().__init__()
        scale = 3 / math.sqrt(n_bits)
        self.scale = nn.Parameter(torch.tensor(scale))
        self.offset = nn.Parameter(torch.tensor(-scale * n_bits / 2))

    def loss(self, rows, others, similar, weight, generator=None):
        """Return minus the weighted sum of the log likelihoods, at sampled bits.

        All pairs of a row and another are taken. Its gradient in the logits is the
        distributional derivative with exact finite differences, so its mean over the
        draws is that of the expectation. For ``f(t)`` of agreement t, switching on a
        bit of sign b whose counterpart has the sign v changes it by::

            v [f(t + 2) - f(t - 2)] / 2 - b [f(t + 2) - 2 f(t) + f(t - 2)] / 2

        so that all bits of all pairs cost one product more than the agreements.

        Parameters
        ----------
        rows, others : Tensors of shape (..., n, n_bits) and (..., m, n_bits)
            Logits a of the bits, which are on with probability ``sigmoid(a)``.
        similar, weight : Tensors of shape (..., n, m)
            1 for similar pairs and 0 for others; and the weights of pairs.
        generator : torch.Generator or None
            Draws the bits.

        Returns
        -------
        loss : Tensor, a scalar
        """
        signs, other_signs = (SIGNS.draw(x, generator) for x in (rows, others))
        agreement = signs @ other_signs.mT
        logit = self.scale * agreement + self.offset
        normalizer = softplus(logit)
        losses = weight * (normalizer - similar * logit)
        with torch.no_grad():
            more = softplus(logit + 2 * self.scale)
            less = softplus(logit - 2 * self.scale)
            slope = weight * ((more - less) / 2 - 2 * self.scale * similar)
            bend = weight * ((more + less) / 2 - normalizer)
            steps = slope @ other_signs - signs * bend.sum(-1)[..., None]
            other_steps = slope.mT @ signs - other_signs * bend.sum(-2)[..., None]
        no_losses = losses.new_zeros(other_signs.shape[:-1])
        return (
            attach_gradient(losses.sum(-1), torch.sigmoid(rows), steps).sum()
            + attach_gradient(no_losses, torch.sigmoid(others), other_steps).sum()
        )
