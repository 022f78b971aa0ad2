"""Bias and spread of gradient estimators in small stochastic binary networks.

Random networks of a few units a layer, logistic noise and two classes; the exact
gradient is known by transfer matrices. For each estimator and layer the script prints
the relative error of the mean over many draws, and the relative root mean squared error
of a single draw: medians over the networks::

    python examples/benchmarks/network_gradients.py
    python examples/benchmarks/network_gradients.py --widths 5 5 5 --networks 3

By chance alone the first falls to the second divided by the root of the number of
draws.
"""

import torch
from tools import Table, options, save

from skhash.gradients import PSA, GumbelSoftmax, resolve_network_gradient
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork

ESTIMATORS = {
    **{"psa": PSA(), "psa enhanced": PSA(enhanced=True)},
    **{name: name for name in ("st", "zgr", "identity_st", "det_st", "tanh")},
    "gumbel 1.0": GumbelSoftmax(1.0),
    **{"adf": "adf", "local_reparam": "local_reparam", "ram": "local_expectation"},
    **{"disarm": "disarm", "rloo": "rloo"},
}
N_FEATURES, N_CLASSES = 4, 2
# Measurements of a layer, and their formats.
MEASURED = {"bias": ".3f", "one draw": ".2f"}


def make_network(widths, generator):
    """Layers with normal weights, so that the logits have a variance of about 2."""
    sizes = [N_FEATURES, *widths]
    layers = [BinaryLinear(n, m) for n, m in zip(sizes[:-1], sizes[1:], strict=True)]
    network = StochasticBinaryNetwork(layers, RealLinear(sizes[-1], N_CLASSES))
    for layer in [*network.layers, network.head]:
        torch.nn.init.normal_(
            layer.weight, std=1 / layer.n_inputs**0.5, generator=generator
        )
        torch.nn.init.normal_(layer.bias, generator=generator)
    return network.double()


def loss(outputs):
    """Minus the log likelihood of the first class."""
    return -outputs.log_softmax(dim=-1)[..., 0]


def gradients(network, losses):
    """Return the mean gradient of each layer as one vector."""
    layers = [*network.layers, network.head]
    found = torch.autograd.grad(
        losses.mean(), [p for layer in layers for p in (layer.weight, layer.bias)]
    )
    pairs = zip(found[::2], found[1::2], strict=True)
    return [torch.cat([weight.flatten(), bias]) for weight, bias in pairs]


def measure(network, gradient, X, generator, batches, batch_size):
    """Return errors of the mean and of one draw, a pair for each layer."""
    trainer = resolve_network_gradient(gradient)
    exact = resolve_network_gradient("exact_network")
    right = gradients(network, exact.network_surrogate(loss, network, X))
    rows = X.expand(batch_size, -1)
    draws = [
        gradients(network, trainer.network_surrogate(loss, network, rows, generator))
        for _ in range(batches)
    ]
    errors = []
    for truth, *found in zip(right, *draws, strict=True):
        mean = torch.stack(found).mean(dim=0)
        bias = (mean - truth).norm()
        variance = batch_size * torch.stack(found).var(dim=0).sum()
        rmse = (bias.square() + variance).sqrt()
        errors.append([float(bias / truth.norm()), float(rmse / truth.norm())])
    return errors


def main():
    sizes = {"networks": 10, "batches": 100, "batch_size": 1000}
    arguments = options(__doc__, widths=[3, 3, 3], **sizes).parse_args()
    torch.set_num_threads(1)
    sizes = arguments.batches, arguments.batch_size
    layers = [*(f"layer {k + 1}" for k in range(len(arguments.widths))), "head"]
    pairs = {f"{what}, {k}": f for k in layers for what, f in MEASURED.items()}
    table = Table({"estimator": "", **pairs}).printed()
    for name, gradient in ESTIMATORS.items():
        results = []
        for seed in range(arguments.networks):
            generator = torch.Generator().manual_seed(seed)
            network = make_network(arguments.widths, generator)
            X = torch.randn(1, N_FEATURES, generator=generator, dtype=torch.float64)
            results.append(measure(network, gradient, X, generator, *sizes))
        medians = torch.tensor(results).median(dim=0).values.flatten()
        table.add(name, *medians.tolist())
    save(arguments.output, {"errors": table})


if __name__ == "__main__":
    main()
