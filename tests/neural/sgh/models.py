"""Modules of random parameters, and all codes to sum over."""

import itertools

import numpy as np
import torch
from sklearn.datasets import load_digits

from skhash.neural.sgh._module import SGHModule

DIGITS = load_digits(return_X_y=True)[0][:600].astype(np.float32)


def make_module(coding="01", seed=0, n_bits=3, n_features=4, latent=False, **options):
    """A module of random float64 parameters, none of them special, and rows."""
    rng = np.random.RandomState(seed)
    start = {
        "weight": rng.randn(n_features, n_bits),
        "bias": rng.randn(n_bits),
        "codebook": rng.randn(n_bits, n_features),
        "offset": rng.randn(n_features),
        "prior_logits": rng.randn(n_bits),
        "log_rho": 0.5 * rng.randn(),
    }
    if latent:
        options = {"scale_std": 0.7} | options
    options = {"mean": np.zeros(n_features), "scale": 1.0, "coding": coding} | options
    module = SGHModule(start, **options).double()
    if latent:
        for name in ("scale_weight", "scale_bias"):
            values = getattr(module, name).data
            values.copy_(torch.from_numpy(rng.randn(*values.shape)))
    return module, torch.from_numpy(rng.randn(5, n_features))


def all_bits(n_bits):
    codes = list(itertools.product([0.0, 1.0], repeat=n_bits))
    return torch.tensor(codes, dtype=torch.float64)


def log_probability(bits, logits):
    """log q(bits) of independent bits; broadcasts over rows."""
    sign = 2 * bits - 1
    return torch.nn.functional.logsigmoid(sign * logits).sum(dim=-1)
