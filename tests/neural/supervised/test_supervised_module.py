"""The trained module of supervised encoders: folding, and batches without a trace."""

import numpy as np
import pytest
import torch
from cases import each
from torch import nn

from skhash.neural.supervised._module import (
    SupervisedModule,
    folded_layers,
    hashing_perceptron,
)
from skhash.numerics._perceptron import mlp_forward

X = torch.from_numpy(np.random.default_rng(0).normal(size=(30, 6))).float()


def perceptron(sizes=(6, 7, 5, 4), **params):
    """A perceptron whose statistics, gains and offsets are not those of the start."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = hashing_perceptron(sizes, **params)
        for layer in encoder:
            if isinstance(layer, nn.BatchNorm1d):
                nn.init.uniform_(layer.weight, -2, 2)
                nn.init.normal_(layer.bias)
        for _ in range(5):
            encoder(3 * torch.randn(20, sizes[0]) + 1)
    return encoder


class SumOfSquares(nn.Module):
    frozen = False
    seen = ()

    def forward(self, logits, labels, rows, X):
        if not self.frozen:
            self.seen = (labels, rows, X)
        return logits.square().sum()


def module(**params):
    result = SupervisedModule(perceptron(**params), objective=SumOfSquares())
    result.generator = torch.Generator().manual_seed(0)
    return result


@each("sizes", [(6, 4), (6, 7, 4), (6, 7, 5, 4)])
@each("balanced", [True, False])
def test_folded_layers_are_the_network_in_use(sizes, balanced):
    encoder = perceptron(sizes, dropout=0.5, balanced=balanced)
    coefs, intercepts = folded_layers(encoder)
    assert len(coefs) == len(sizes) - 1
    outputs = encoder.eval()(X).detach().numpy()
    folded = mlp_forward(X.numpy(), coefs, intercepts)
    np.testing.assert_allclose(folded, outputs, atol=1e-5 * np.abs(outputs).max())


def test_the_shadow_ends_where_an_error_does():
    net = module()
    with pytest.raises(RuntimeError, match="no batch"), net.shadow():
        raise RuntimeError("no batch")
    assert not net.objective.frozen
    assert all(
        layer.track_running_stats
        for layer in net.modules()
        if isinstance(layer, nn.BatchNorm1d)
    )
