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
that with ``tolerance=1e-12`` along the same paths, relative to the latter, the median
over networks and the largest. ``--factor`` multiplies their weights.
"""

import argparse
import platform
import time

import torch

from skhash.gradients import PSA, GumbelSoftmax, resolve_network_gradient
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork

ESTIMATORS = {
    "psa": PSA(),
    "psa enhanced": PSA(enhanced=True),
    "st": "st",
    "zgr": "zgr",
    "identity_st": "identity_st",
    "det_st": "det_st",
    "tanh": "tanh",
    "gumbel 1.0": GumbelSoftmax(1.0),
    "adf": "adf",
    "local_reparam": "local_reparam",
    "ram": "ram",
    "disarm": "disarm",
    "rloo": "rloo",
}
N_FEATURES, N_CLASSES = 4, 2
EXACT_PSA = PSA(tolerance=1e-12)


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


def print_polynomial_errors(arguments):
    """Print them below the last layer of units: there and in the head they are 0."""
    below = len(arguments.widths) - 1
    layers = [f"layer {k + 1}" for k in range(below)]
    print("".join(f"{name:>18}" for name in ["", *layers]))
    for dtype in (torch.float64, torch.float32):
        results = []
        for seed in range(arguments.networks):
            network, X, _ = make_problem(arguments.widths, seed)
            with torch.no_grad():
                for layer in network.layers:
                    layer.weight.mul_(arguments.factor)
            results.append(
                polynomial_errors(
                    network.to(dtype),
                    X.to(dtype),
                    seed,
                    arguments.batches,
                    arguments.batch_size,
                )
            )
        errors = torch.tensor(results)
        assert not errors[:, below:].any()
        pairs = zip(errors.median(dim=0).values, errors.amax(dim=0), strict=True)
        cells = "".join(f"{m:9.1e}{most:9.1e}" for m, most in list(pairs)[:below])
        print(f"{dtype!s:>18}{cells}", flush=True)


def print_errors(arguments):
    """Print bias and error of one draw of all estimators, by layers."""
    layers = [*(f"layer {k + 1}" for k in range(len(arguments.widths))), "head"]
    print("".join(f"{name:>16}" for name in ["estimator", *layers]))
    for name, gradient in ESTIMATORS.items():
        results = []
        for seed in range(arguments.networks):
            network, X, generator = make_problem(arguments.widths, seed)
            results.append(
                measure(
                    network,
                    gradient,
                    X,
                    generator,
                    arguments.batches,
                    arguments.batch_size,
                )
            )
        medians = torch.tensor(results).median(dim=0).values.tolist()
        cells = "".join(f"{bias:9.3f} {rmse:6.2f}" for bias, rmse in medians)
        print(f"{name:>16}{cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[3, 3, 3])
    parser.add_argument("--networks", type=int, default=10)
    parser.add_argument("--polynomial", action="store_true")
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {arguments}")
    (print_polynomial_errors if arguments.polynomial else print_errors)(arguments)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
