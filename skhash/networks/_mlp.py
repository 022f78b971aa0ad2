"""Multi-layer perceptrons with sparse input and their own random numbers."""

import math

import torch
from torch import nn
from torch.nn.functional import embedding_bag, linear

from skhash.utils._torch_sparse import is_sparse, with_values


class MLP(nn.Module):
    """Multi-layer perceptron: linear layers, with ReLU and dropout between them.

    Initial weights and intercepts are uniform within ``1 / sqrt(n_inputs)`` of 0, as in
    `torch.nn.Linear`. Weights are stored with shape (n_inputs, n_outputs).

    Parameters
    ----------
    sizes : sequence of int
        Number of inputs, of units in each hidden layer, and of outputs.
    generator : torch.Generator
        Generator on the CPU, for the initial weights.
    dropout : float, default=0.0
        Dropout probability of inputs and hidden units, in training.
    """

    def __init__(self, sizes, generator, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        shapes = list(zip(sizes[:-1], sizes[1:], strict=True))
        self.coefs = nn.ParameterList(
            _uniform(shape, shape[0], generator) for shape in shapes
        )
        self.intercepts = nn.ParameterList(
            _uniform(shape[1:], shape[0], generator) for shape in shapes
        )

    def forward(self, X, generator=None):
        """Return the outputs of rows, dense or a sparse CSR tensor.

        Parameters
        ----------
        X : Tensor of shape (..., n_inputs)
        generator : torch.Generator or None
            Generator for dropout, on the device of `X`.
        """
        dropout = self.dropout if self.training else 0
        if dropout:
            X = drop_out(X, dropout, generator)
        values = sparse_linear(X, self.coefs[0]) + self.intercepts[0]
        for coef, intercept in zip(self.coefs[1:], self.intercepts[1:], strict=True):
            values = values.relu()
            if dropout:
                values = drop_out(values, dropout, generator)
            values = linear(values, coef.T, intercept)
        return values


def _uniform(shape, n_inputs, generator):
    bound = 1 / math.sqrt(n_inputs)
    return nn.Parameter((2 * torch.rand(shape, generator=generator) - 1) * bound)


def sparse_linear(X, coef):
    """Return ``X @ coef``; the cost for sparse `X` is that of its entries."""
    if not is_sparse(X):
        return X @ coef
    return embedding_bag(
        X.col_indices(),
        coef,
        X.crow_indices(),
        mode="sum",
        per_sample_weights=X.values(),
        include_last_offset=True,
    )


def drop_out(X, p, generator):
    """Set each value to 0 with probability `p` and stretch the others to keep means."""
    if is_sparse(X):
        return with_values(X, drop_out(X.values(), p, generator))
    kept = torch.empty_like(X).bernoulli_(1 - p, generator=generator)
    return X * (kept / (1 - p))
