"""Bias and spread of gradient estimators in small stochastic binary networks.

Random networks of a few units a layer, logistic noise and two classes; the exact
gradient is known by transfer matrices. For each estimator and layer the script prints
the relative error of the mean over many draws, and the relative root mean squared error
of a single draw: medians over the networks::

    python examples/benchmarks/network_gradients.py
    python examples/benchmarks/network_gradients.py --widths 5 5 5 --networks 3

What the first falls to by chance alone is the second divided by the root of the number
of draws.

    python examples/benchmarks/network_gradients.py --polynomial

prints what the polynomial of `PSA` adds to its bias: how far its mean gradient is from
that with ``tolerance=1e-12`` along the same paths, relative to the latter, in the first
layer; the median over networks and the largest. Networks have several sizes, and their
weights are multiplied by several factors.
"""

import argparse

import torch
from growing_results import describe, head
from result_files import Table, add_output, save

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
EXACT_PSA = PSA(tolerance=1e-12)
# What is measured in a layer, and its format.
MEASURED = {"bias": ".3f", "one draw": ".2f"}
# Widths, the factor of the weights, and how many networks.
POLYNOMIALS = [
    *(((n,) * 3, factor, 100) for n in (1, 3, 8) for factor in (0.3, 1, 2)),
    ((100, 100), 1, 20),
]


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


def make_problem(widths, seed):
    """Return a network, one input, and the generator that has drawn them."""
    generator = torch.Generator().manual_seed(seed)
    network = make_network(widths, generator)
    X = torch.randn(1, N_FEATURES, generator=generator, dtype=torch.float64)
    return network, X, generator


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


def polynomial_errors(network, X, seed, batches, batch_size):
    """Return how far the mean of `PSA` is from that of exact flips, layer by layer."""
    rows = X.expand(batch_size, -1)

    def mean_gradients(gradient):
        generator = torch.Generator().manual_seed(seed)
        draws = [
            gradients(
                network, gradient.network_surrogate(loss, network, rows, generator)
            )
            for _ in range(batches)
        ]
        return [torch.stack(own).mean(dim=0) for own in zip(*draws, strict=True)]

    pairs = zip(mean_gradients(PSA()), mean_gradients(EXACT_PSA), strict=True)
    return [float((found - right).norm() / right.norm()) for found, right in pairs]


def measure_polynomial(arguments):
    """Return the table of them in the first layer, a row a size of networks.

    They are 0 in the last layer of units and in the head.
    """
    columns = {"widths": "", "weights": "", "networks": ""}
    names = [f"float{n}, {what}" for n in (64, 32) for what in ("median", "largest")]
    table = Table(columns | dict.fromkeys(names, ".1e")).printed()
    for widths, factor, n_networks in POLYNOMIALS:
        n_networks = arguments.networks or n_networks
        row = ["-".join(map(str, widths)), factor, n_networks]
        for dtype in (torch.float64, torch.float32):
            results = []
            for seed in range(n_networks):
                network, X, _ = make_problem(widths, seed)
                with torch.no_grad():
                    for layer in network.layers:
                        layer.weight.mul_(factor)
                sizes = arguments.batches or 5, arguments.batch_size
                problem = network.to(dtype), X.to(dtype), seed
                results.append(polynomial_errors(*problem, *sizes))
            errors = torch.tensor(results)
            assert not errors[:, len(widths) - 1 :].any()
            row += [float(errors[:, 0].median()), float(errors[:, 0].max())]
        table.add(*row)
    return {"polynomial": table}


def measure_all(arguments):
    """Return the table of bias and error of one draw of all estimators, by layers."""
    layers = [*(f"layer {k + 1}" for k in range(len(arguments.widths))), "head"]
    pairs = {f"{what}, {k}": f for k in layers for what, f in MEASURED.items()}
    table = Table({"estimator": "", **pairs}).printed()
    for name, gradient in ESTIMATORS.items():
        results = []
        for seed in range(arguments.networks or 10):
            network, X, generator = make_problem(arguments.widths, seed)
            sizes = arguments.batches or 100, arguments.batch_size
            results.append(measure(network, gradient, X, generator, *sizes))
        medians = torch.tensor(results).median(dim=0).values.flatten()
        table.add(name, *medians.tolist())
    return {"errors": table}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[3, 3, 3])
    parser.add_argument("--networks", type=int)
    parser.add_argument("--polynomial", action="store_true")
    parser.add_argument("--batches", type=int)
    parser.add_argument("--batch-size", type=int, default=1000)
    add_output(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(describe(head()))
    kind = measure_polynomial if arguments.polynomial else measure_all
    save(arguments.output, kind(arguments))


if __name__ == "__main__":
    main()
