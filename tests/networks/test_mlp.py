"""MLP against NumPy and torch.nn.Linear; sparse rows against dense ones."""

import numpy as np
import pytest
import torch
from cases import each
from scipy import sparse, stats

from skhash.networks._mlp import MLP, drop_out, sparse_linear
from skhash.training._module import sparse_tensor


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def sparse_data(n_rows=7, n_features=9):
    """A third of the entries; the first row has none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.3)
    X[0] = 0
    return X.astype(np.float32).astype(float)


def arrays(parameters):
    return [parameter.detach().numpy() for parameter in parameters]


@each("sizes", [(9, 3), (9, 5, 3), (9, 5, 4, 3)])
def test_outputs_are_those_of_plain_layers(sizes):
    X = sparse_data()
    mlp = MLP(sizes, seeded()).double()
    values = X
    for i, (coef, intercept) in enumerate(
        zip(arrays(mlp.coefs), arrays(mlp.intercepts), strict=True)
    ):
        assert coef.shape == (sizes[i], sizes[i + 1])
        values = np.maximum(values, 0) if i else values
        values = values @ coef + intercept
    np.testing.assert_allclose(mlp(torch.from_numpy(X)).detach(), values, atol=1e-12)


@each("sizes", [(9, 3), (9, 5, 3)])
def test_sparse_rows_have_the_outputs_and_gradients_of_dense_ones(sizes):
    X = sparse_data()
    found = []
    for rows in (torch.from_numpy(X), sparse_tensor(sparse.csr_array(X)).double()):
        mlp = MLP(sizes, seeded()).double()
        outputs = mlp(rows)
        outputs.square().sum().backward()
        found.append([outputs, *(parameter.grad for parameter in mlp.parameters())])
    torch.testing.assert_close(*found)


@each("n_rows", [1, 3])
def test_rows_without_entries(n_rows):
    X = sparse_tensor(sparse.csr_array((n_rows, 4)))
    coef = torch.ones(4, 2, requires_grad=True)
    product = sparse_linear(X, coef)
    torch.testing.assert_close(product, torch.zeros(n_rows, 2))
    product.sum().backward()
    assert not coef.grad.any()


def test_first_weights_are_uniform_as_those_of_linear_layers_of_torch():
    sizes = (50, 200, 30)
    mlp = MLP(sizes, seeded())
    layers = zip(sizes, mlp.coefs, mlp.intercepts, strict=False)
    for n_inputs, coef, intercept in layers:
        bound = n_inputs**-0.5
        uniform = stats.uniform(-bound, 2 * bound)
        for values in arrays([coef, intercept]):
            assert stats.kstest(values.ravel(), uniform.cdf).pvalue > 1e-3


def test_dropout_keeps_means_and_leaves_a_share_out():
    n, p = 100_000, 0.3
    dropped = drop_out(torch.full((n,), 2.0), p, seeded())
    assert sorted(set(dropped.tolist())) == pytest.approx([0, 2 / (1 - p)])
    error = (p * (1 - p) / n) ** 0.5
    assert abs((dropped == 0).double().mean().item() - p) < 5 * error
    assert abs(dropped.double().mean().item() - 2) < 5 * error * 2 / (1 - p)


@each("hidden", [(), (40,)])
@each("make", [torch.from_numpy, sparse_tensor])
def test_dropout_is_in_training_only(make, hidden):
    """Of inputs, of sparse rows too, with the mean of the layer kept; and of units."""
    p, n = 0.4, 20_000
    X = np.repeat(sparse_data(1 + 1)[1:].astype(np.float32), n, axis=0)
    rows = make(X if make is torch.from_numpy else sparse.csr_array(X))
    plain, leaky = (MLP([9, *hidden, 1], seeded(), share) for share in (0.0, p))
    outputs = leaky(rows, seeded()).detach().double()
    if not hidden:
        n_entries = np.count_nonzero(X[0])
        assert 1 < len(outputs.unique(dim=0)) <= 2**n_entries
        expected = plain(rows)[0].item()
        assert abs(outputs.mean() - expected) < 5 * outputs.std() / n**0.5
    assert torch.equal(leaky(rows, seeded(1)), leaky(rows, seeded(1)))
    assert torch.equal(leaky.eval()(rows, seeded()), plain(rows))
