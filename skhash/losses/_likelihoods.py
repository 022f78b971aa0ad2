"""Negative log-likelihoods of data, and divergences of bits from a prior.

A likelihood is called as ``likelihood(outputs, X)`` with a decoder's outputs, shape
(..., n_rows, n_features), and the rows that they should explain, dense or a sparse CSR
tensor; it returns nats, shape (..., n_rows). Outputs of shape (..., 1, n_features) are
for all rows. `mean` turns outputs into the expected data, and `is_quadratic` says
whether the loss is quadratic in them.
"""

import math

import torch
from torch import nn
from torch.nn.functional import softplus

from skhash.utils._torch_sparse import entry_rows, is_sparse


class MultinomialLikelihood(nn.Module):
    """Likelihood of words drawn one by one: ``-sum_w x_w log softmax(outputs)_w``.

    The multinomial coefficient, which does not depend on parameters, is left out.

    Examples
    --------
    >>> import torch
    >>> from skhash.losses._likelihoods import MultinomialLikelihood
    >>> X = torch.tensor([[2.0, 0.0]])
    >>> MultinomialLikelihood()(torch.zeros(1, 2), X)  # 2 log 2
    tensor([1.3863])
    """

    is_quadratic = False

    def forward(self, outputs, X):
        on_target, total = inner_products(outputs, X)
        return outputs.logsumexp(dim=-1) * total - on_target

    @staticmethod
    def mean(outputs):
        """Return the probability of each word."""
        return outputs.softmax(dim=-1)


class BernoulliLikelihood(nn.Module):
    """Likelihood of binary features: ``sum_w softplus(outputs_w) - x_w outputs_w``.

    Examples
    --------
    >>> import torch
    >>> from skhash.losses._likelihoods import BernoulliLikelihood
    >>> BernoulliLikelihood()(torch.zeros(1, 2), torch.ones(1, 2))  # 2 log 2
    tensor([1.3863])
    """

    is_quadratic = False

    def forward(self, outputs, X):
        return softplus(outputs).sum(dim=-1) - inner_products(outputs, X)[0]

    @staticmethod
    def mean(outputs):
        """Return the probability of each feature."""
        return outputs.sigmoid()


class GaussianLikelihood(nn.Module):
    """``|x - outputs|^2 / (2 rho^2) + d/2 log(2 pi rho^2)``, with a learned rho.

    Parameters
    ----------
    log_rho : float, default=0.0
        Initial logarithm of rho.

    Examples
    --------
    >>> import torch
    >>> from skhash.losses._likelihoods import GaussianLikelihood
    >>> likelihood, X = GaussianLikelihood(), torch.ones(1, 2)
    >>> likelihood(torch.zeros(1, 2), X) - likelihood(X, X)  # |x|^2 / 2
    tensor([1.], grad_fn=<SubBackward0>)
    """

    is_quadratic = True

    def __init__(self, log_rho=0.0):
        super().__init__()
        self.log_rho = nn.Parameter(torch.tensor(float(log_rho)))

    def forward(self, outputs, X):
        if is_sparse(X):
            X = X.to_dense()
        error = (X - outputs).square().sum(dim=-1)
        log_normalizer = X.shape[-1] * (self.log_rho + 0.5 * math.log(2 * math.pi))
        return 0.5 * torch.exp(-2 * self.log_rho) * error + log_normalizer

    @staticmethod
    def mean(outputs):
        """Return the outputs."""
        return outputs


LIKELIHOODS = {
    "multinomial": MultinomialLikelihood,
    "bernoulli": BernoulliLikelihood,
    "gaussian": GaussianLikelihood,
}


def inner_products(outputs, X):
    """Return ``sum_w x_w outputs_w`` of each row, and ``sum_w x_w``.

    Parameters
    ----------
    outputs : Tensor of shape (..., n_rows, n_features) or (..., 1, n_features)
        One for each row, or one for all.
    X : Tensor of shape (n_rows, n_features), dense or sparse CSR
    """
    is_shared = outputs.shape[-2] == 1
    if not is_sparse(X):
        products = (outputs @ X.T).squeeze(-2) if is_shared else (outputs * X).sum(-1)
        return products, X.sum(dim=-1)
    n_rows, n_features = X.shape
    rows, weights = entry_rows(X), X.values()
    entries = X.col_indices() + (0 if is_shared else rows * n_features)
    values = outputs.flatten(-2)[..., entries] * weights
    products = outputs.new_zeros((*outputs.shape[:-2], n_rows))
    products = products.index_add(-1, rows, values)
    total = outputs.new_zeros(n_rows).index_add(0, rows, weights)
    return products, total


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
