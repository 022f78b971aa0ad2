"""Divergences of Bernoulli bits from a prior."""

import math

import torch
from torch.nn.functional import logsigmoid, softplus


def bernoulli_kl(logits, prior_logits):
    """Return ``sum_k KL(Ber(sigmoid(logits_k)) || Ber(sigmoid(prior_logits_k)))``."""
    p = torch.sigmoid(logits)
    kl = p * (logits - prior_logits) - softplus(logits) + softplus(prior_logits)
    return kl.sum(dim=-1)


def log_mixture(bits, log_odds):
    """Return ``log 1/k sum_i prod_j Ber(bits_j; sigmoid(log_odds_ij))``.

    Parameters
    ----------
    bits : Tensor of shape (..., n_rows, n_bits)
        0 and 1.
    log_odds : Tensor of shape (k, n_rows, n_bits)

    Returns
    -------
    log_probability : Tensor of shape (..., n_rows)
    """
    # Sum over bits inside, logsumexp over the mixture outside, log k once.
    on = torch.einsum("...bj,kbj->...kb", bits, log_odds)
    log_components = on - softplus(log_odds).sum(dim=-1)
    return log_components.logsumexp(dim=-2) - math.log(len(log_odds))


def log_prior(bits, prior_logit):
    """Return ``log p(bits)`` of each row, linear in every bit."""
    on, off = logsigmoid(prior_logit), logsigmoid(-prior_logit)
    return (bits * (on - off) + off).sum(dim=-1)
