"""STORM against gradient descent, full gradients and its stationary variance."""

import numpy as np
import torch
from cases import each
from torch import nn

from skhash.training import Storm

X = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 6)))
Y = torch.from_numpy(np.random.default_rng(1).normal(size=(40, 2)))


def network(dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)
        return nn.Sequential(*layers).double()


def closure_of(model, optimizer, rows):
    def closure():
        optimizer.zero_grad()
        loss = (model(X[rows]) - Y[rows]).square().mean()
        loss.backward()
        return loss

    return closure


def train(model, optimizer, batches):
    with torch.random.fork_rng():
        torch.manual_seed(7)
        losses = [
            optimizer.step(closure_of(model, optimizer, rows)).item()
            for rows in batches
        ]
        return losses, torch.rand(())


def batches(n):
    generator = torch.Generator().manual_seed(0)
    return [torch.randperm(40, generator=generator)[:8] for _ in range(n)]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@each("weight_decay, dropout", [(0.0, 0.0), (0.1, 0.5)])
def test_without_memory_it_is_gradient_descent(weight_decay, dropout):
    """With dropout too: the second gradient of a step draws nothing anew."""
    model, other = network(dropout), network(dropout)
    settings = {"lr": 0.1, "weight_decay": weight_decay}
    result = train(
        model, Storm(model.parameters(), forgetting=1.0, **settings), batches(30)
    )
    sgd = torch.optim.SGD(other.parameters(), **settings)
    expected = train(other, sgd, batches(30))
    assert result == expected
    assert torch.equal(weights(model), weights(other))


@each("decay", [0.0, 0.1])
def test_the_recursion_written_out(decay):
    """d = g(W; B) + (1 - c) (d' - g(W'; B)), both gradients of the newer batch."""
    model, c, lr = network(), 0.3, 0.2
    optimizer = Storm(model.parameters(), lr=lr, forgetting=c, weight_decay=decay)

    def gradient(values, rows):
        clone = network()
        nn.utils.vector_to_parameters(values, clone.parameters())
        closure_of(clone, optimizer, rows)()
        found = torch.cat([p.grad.flatten() for p in clone.parameters()])
        return found + decay * values

    old, estimate = None, None
    values = weights(model)
    for rows in batches(6):
        new = gradient(values, rows)
        if estimate is not None:
            new = new + (1 - c) * (estimate - gradient(old, rows))
        old, estimate, values = values, new, values - lr * new
        optimizer.step(closure_of(model, optimizer, rows))
        torch.testing.assert_close(weights(model), values, atol=1e-12, rtol=0)


def test_the_earlier_weights_are_met_in_the_shadow_only():
    model, inside, met = network(), [False], []

    class Shadow:
        def __enter__(self):
            inside[0] = True

        def __exit__(self, *_):
            inside[0] = False

    optimizer = Storm(model.parameters(), lr=0.1, forgetting=0.5, shadow=Shadow)
    steps = [weights(model)]
    for rows in batches(4):
        gradients = closure_of(model, optimizer, rows)

        def closure(gradients=gradients):
            met.append((inside[0], weights(model)))
            return gradients()

        optimizer.step(closure)
        steps.append(weights(model))
    expected = [(False, steps[0])]
    for before, now in zip(steps[:-2], steps[1:-1], strict=True):
        expected += [(True, before), (False, now)]
    for (shadow, values), (as_shadow, expected_values) in zip(
        met, expected, strict=True
    ):
        assert shadow == as_shadow
        assert torch.equal(values, expected_values)


def test_weights_without_gradients_stay():
    model = network()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    train(model, Storm(model.parameters(), lr=0.1), batches(3))
    assert torch.equal(model[0].weight, before)
