"""What PSA costs beside straight-through, a layer of a stochastic binary network.

Networks of 2 and of 4 equal layers take steps, forward and backward, in turns with both
estimators; half the difference between the two depths is the cost of a layer. Times are
those of the processor, the least of all repeats. Memory is the peak of what a step
allocates, as torch's profiler records it::

    python examples/benchmarks/network_cost.py
    python examples/benchmarks/network_cost.py --repeats 3 --threads 2
"""

import argparse
import datetime
import json
import os
import platform
import tempfile
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from skhash.classification._module import cross_entropy
from skhash.gradients import resolve_network_gradient
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork

N_CLASSES, DEPTHS = 10, (2, 4)
ESTIMATORS = ("st", "psa")
WEIGHTS = {"real": {"weights": "real"}, "binary": {"weights": "mirror"}}


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
    network = StochasticBinaryNetwork(layers, head)
    gradient = resolve_network_gradient(name)
    X = torch.randn(batch_size, width, generator=generator)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, torch {torch.__version__}, {vars(options)}"
    )
    for kind in WEIGHTS:
        times = layer_times(kind, options.width, options.batch_size, options.repeats)
        print(f"{kind} weights, ms a layer:")
        for name, (forward, backward) in times.items():
            ratio = backward / times["st"][1]
            print(
                f"  {name:>4}: forward {1e3 * forward:.2f}, backward "
                f"{1e3 * backward:.2f}, {ratio:.2f} times that of st"
            )
    print("Peak of a step of 4 layers, MB:")
    sizes = [(b, n) for n in (256, 512, 1024) for b in (64, 128, 256)]
    for batch_size, width in sizes:
        cells = []
        for kind in WEIGHTS:
            for name in ESTIMATORS:
                step = make_step(name, kind, DEPTHS[-1], width, batch_size)
                cells.append(f"{kind} {name} {peak_memory(step) / 1e6:.1f}")
        print(f"  batch {batch_size}, width {width}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
