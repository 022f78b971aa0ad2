"""What PSA costs beside straight-through, a layer of a stochastic binary network.

Networks of 2 and of 4 equal layers take steps, forward and backward, in turns with both
estimators; half the difference between the two depths is the cost of a layer. Times are
those of the processor, the least of all repeats. Memory is the peak of what a step
allocates, as torch's profiler records it::

    python examples/benchmarks/network_cost.py
    python examples/benchmarks/network_cost.py --repeats 3 --threads 2
    python examples/benchmarks/network_cost.py --convolutions --batch-size 64

The last has steps of the papers' convolutional networks at a third of their width, a
network of ReLU units of the same shape beside them, and the floor: torch's products of
the same layers, forward and backward, with nothing around them.
"""

import argparse
import gc
import json
import tempfile
import time
from pathlib import Path

import torch
from growing_results import describe, head
from result_files import Table, add_output, save
from sbn_images import ReLU
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from skhash.classification._architectures import VGG, AllConv
from skhash.classification._module import cross_entropy
from skhash.gradients import resolve_network_gradient
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork

N_CLASSES, DEPTHS = 10, (2, 4)
ESTIMATORS = ("st", "psa")
WEIGHTS = {"real": {"weights": "real"}, "binary": {"weights": "mirror"}}
# Architecture, shape of images, and sizes of fully connected layers.
CONVOLUTIONS = {
    "allconv": (AllConv((32, 64)), (1, 32, 32), ()),
    "vgg": (VGG((40, 80, 160)), (1, 28, 28), (340, 340)),
}
# PSA cannot pass pooling.
CONVOLUTIONAL = {"allconv": ("relu", "st", "psa"), "vgg": ("relu", "st")}


def make_step(name, kind, depth, width, batch_size):
    """Return a function that takes one step and returns its two times."""
    generator = torch.Generator().manual_seed(0)
    layers = [
        BinaryLinear(
            width,
            width,
            batch_norm=True,
            generator=generator,
            # The first layer has real weights, as in SBNClassifier.
            **(WEIGHTS[kind] if k else {}),
        )
        for k in range(depth)
    ]
    head = RealLinear(width, N_CLASSES, generator=generator)
    return step_of(StochasticBinaryNetwork(layers, head), name, batch_size, generator)


def step_of(network, name, batch_size, generator):
    """Return a function that takes one step of a network and returns its two times."""
    gradient = resolve_network_gradient(ReLU() if name == "relu" else name)
    X = torch.randn(batch_size, network.layers[0].n_inputs, generator=generator)
    labels = torch.randint(N_CLASSES, (batch_size,), generator=generator)

    def step():
        network.zero_grad()
        start = time.process_time()
        losses = gradient.network_surrogate(
            lambda outputs: cross_entropy(outputs, labels), network, X, generator
        )
        middle = time.process_time()
        losses.mean().backward()
        return middle - start, time.process_time() - middle

    return step


def convolutional_network(kind, generator):
    """Return one of `CONVOLUTIONS`, at its start."""
    architecture, shape, sizes = CONVOLUTIONS[kind]
    options = {"noise": "logistic", "weights": "real", "batch_norm": True}
    return architecture.network(shape, sizes, N_CLASSES, generator=generator, **options)


def products_of(network, batch_size):
    """Return a function that multiplies as a step does, and how often a row does."""
    layers, n_products = [*network.layers, network.head], 0
    tasks = []
    for layer in layers:
        weight = layer.weight.detach().clone().requires_grad_()
        shape = layer.geometry.get("input_shape", (layer.n_inputs,))
        X = torch.randn(batch_size, *shape, requires_grad=layer is not layers[0])
        tasks.append((X, weight, layer.geometry))
        places = multiply(*tasks[-1]).numel() // (batch_size * len(weight))
        n_products += weight.numel() * places

    def step():
        start = time.process_time()
        outputs = [multiply(*task) for task in tasks]
        middle = time.process_time()
        for h in outputs:
            h.backward(h.detach())
        return middle - start, time.process_time() - middle

    return step, n_products


def multiply(X, weight, geometry):
    """Return the products of a layer, in front of pooling."""
    if weight.ndim == 2:
        return functional.linear(X, weight)
    stride, padding = geometry["stride"], geometry["padding"]
    return functional.conv2d(X, weight, stride=stride, padding=padding)


def measure_convolutions(options):
    """Return times and memory of steps of convolutional networks."""
    table = Table(
        {
            "network": "",
            "step": "",
            "ms a row": ".2f",
            "times the floor": ".2f",
            "times st": ".2f",
            "GFLOP/s": ".0f",
            "MB": ".0f",
        }
    ).printed()
    products = {}
    for kind, names in CONVOLUTIONAL.items():
        generator = torch.Generator().manual_seed(0)
        network = convolutional_network(kind, generator)
        size = options.batch_size
        steps = {"floor": None}
        steps |= {name: step_of(network, name, size, generator) for name in names}
        steps["floor"], products[kind] = products_of(network, size)
        seconds = dict.fromkeys(steps, float("inf"))
        for _ in range(options.repeats + 1):
            for name, step in steps.items():
                seconds[name] = min(seconds[name], sum(step()))
        for name, step in steps.items():
            own = seconds[name]
            rate = 6 * products[kind] * size / own / 1e9
            ratios = own / seconds["floor"], own / seconds["st"]
            memory = peak_memory(step) / 1e6
            table.add(kind, name, 1e3 * own / size, *ratios, rate, memory)
    millions = {f"{kind}_million_products": n / 1e6 for kind, n in products.items()}
    return {"convolutions": table}, millions


def layer_times(kind, width, batch_size, repeats):
    """Return seconds forward and backward of one layer, for each estimator."""
    steps = {
        (name, depth): make_step(name, kind, depth, width, batch_size)
        for name in ESTIMATORS
        for depth in DEPTHS
    }
    least = {key: torch.tensor(step()) + torch.inf for key, step in steps.items()}
    for _ in range(repeats):
        for key, step in steps.items():
            least[key] = torch.minimum(least[key], torch.tensor(step()))
    few, many = DEPTHS
    return {
        name: ((least[name, many] - least[name, few]) / (many - few)).tolist()
        for name in ESTIMATORS
    }


def peak_memory(step):
    """Return the bytes by which allocations of a step exceed those before it."""
    step()  # what stays, such as gradients, is there from now on
    gc.collect()  # nor is anything of before freed meanwhile
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    events = [event for event in events if event["name"] == "[memory]"]
    events.sort(key=lambda event: event["ts"])
    total = [event["args"]["Total Allocated"] for event in events]
    return max(total) - (total[0] - events[0]["args"]["Bytes"])


def measure_layers(options):
    """Return times and memory of fully connected layers."""
    times = Table(
        {
            "weights": "",
            "estimator": "",
            "forward": ".2f",
            "backward": ".2f",
            "backward / st": ".2f",
        }
    ).printed()
    for kind in WEIGHTS:
        found = layer_times(kind, options.width, options.batch_size, options.repeats)
        for name, (forward, backward) in found.items():
            ratio = backward / found["st"][1]
            times.add(kind, name, 1e3 * forward, 1e3 * backward, ratio)
    pairs = [(kind, name) for kind in WEIGHTS for name in ESTIMATORS]
    columns = {f"{kind}, {name}": ".1f" for kind, name in pairs}
    memory = Table({"batch": "", "width": "", **columns}).printed()
    for width in (256, 512, 1024):
        for batch_size in (64, 128, 256):
            steps = [
                make_step(name, kind, DEPTHS[-1], width, batch_size)
                for kind, name in pairs
            ]
            cells = [peak_memory(step) / 1e6 for step in steps]
            memory.add(batch_size, width, *cells)
    return {"layers": times, "memory": memory}, {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--convolutions", action="store_true")
    add_output(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(describe(head()))
    measure = measure_convolutions if options.convolutions else measure_layers
    save(options.output, *measure(options), seeds=[0])


if __name__ == "__main__":
    main()
