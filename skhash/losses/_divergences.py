"""Divergences of Bernoulli bits from a prior."""

import torch
from torch.nn.functional import softplus


def bernoulli_kl(logits, prior_logits):
    """Return ``sum_k KL(Ber(sigmoid(logits_k)) || Ber(sigmoid(prior_logits_k)))``."""
    p = torch.sigmoid(logits)
    kl = p * (logits - prior_logits) - softplus(logits) + softplus(prior_logits)
    return kl.sum(dim=-1)
