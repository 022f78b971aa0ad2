"""Fits, encoding and search on an accelerator, beside what it can do at most.

    python examples/benchmarks/device.py
    python examples/benchmarks/device.py --device cpu --quick

The *limit* is measured on the spot: bytes a second of a copy within the device, and of
one to it from the host, and multiplications of a matrix product, in float32 and in half
precision. A task takes at least as long as its bytes or its multiplications; "reached"
is that time over the measured one. Counted is what the method needs: of a fit by steps
three products a weight and row, each epoch; of encoding the rows that go to the device
and the logits that come back; of a search each product of signs, written and read once.

Fits and search answer on the host, and all copies count. "times CPU" is how much longer
the CPU takes, with all cores, for the same task. Bits of the device are those of the
CPU wherever the logit is beyond rounding, 1e-4 of the largest, and searches find the
same; else the script fails, and where the device is missing.
"""

import statistics
import sys
import time
from functools import partial
from itertools import chain

import numpy as np
import torch
from tools import Table, columns, options, save

import skhash
from skhash.linear import RandomHyperplaneHash
from skhash.utils.torch import resolve_device

ROUNDING = 1e-4
COLUMNS = columns(
    "task | rows :, | seconds :.4f | limit | reached :.0% | times CPU :.1f | "
    "peak, MB :,.0f"
)
# Seconds of a first call beyond which it is not repeated: it has little to warm up.
LONG = 20


class Clock:
    """Measures what a device does, once a first call has warmed it up."""

    def __init__(self, device):
        self.device = device
        self.backend = getattr(torch, device.type, torch.cpu)

    def measure(self, call, repeats=3):
        """Return the seconds, the answer, and the most bytes that a GPU held, or None.

        The bytes are those of all that is allocated by torch.
        """
        is_cuda = self.device.type == "cuda"
        if is_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
        first, answer = self.time(call)
        times = (
            [self.time(call)[0] for _ in range(repeats)] if first < LONG else [first]
        )
        peak = torch.cuda.max_memory_allocated(self.device) if is_cuda else None
        return statistics.median(times), answer, peak

    def time(self, call):
        """Return the seconds of a call, and its answer."""
        self.backend.synchronize()
        start = time.perf_counter()
        answer = call()
        self.backend.synchronize()
        return time.perf_counter() - start, answer


def limits(clock, size):
    """Return bytes and multiplications a second, by what binds."""
    square = torch.ones(size, size, device=clock.device)
    half = square.half() if clock.device.type == "cuda" else square
    there, here = torch.empty_like(square), torch.ones(size, size)
    calls = {
        "bandwidth": (2 * square.nbytes, lambda: there.copy_(square)),
        "transfer": (square.nbytes, lambda: there.copy_(here)),
        "float32": (size**3, lambda: square @ square),
        "half": (size**3, lambda: half @ half),
    }
    return {name: n / clock.measure(call, 9)[0] for name, (n, call) in calls.items()}


def fits(X, y):
    """Yield estimators, what they learn from, and their multiplications a row."""
    d, n_epochs = X.shape[1], 2
    epochs = {"max_epochs": n_epochs, "random_state": 0}
    yield skhash.ITQHash(64, random_state=0), None, d * d + 64 * d + 50 * 2 * 64**2
    yield skhash.SGHEncoder(64, **epochs), None, n_epochs * 3 * 2 * 64 * d
    weights = 1024 * d + 64 * 1024
    encoder = skhash.SupervisedHash(64, hidden_layer_sizes=(1024,), **epochs)
    yield encoder, y, n_epochs * 3 * weights
    weights = 1024 * d + 1024**2 + 1024 * len(np.unique(y))
    classifier = skhash.SBNClassifier((1024, 1024), **epochs)
    yield classifier, y, n_epochs * 3 * weights


def on_device(estimator, method, *arguments):
    """Return what calls a method of an estimator on the device that it is given."""
    return lambda it: getattr(estimator.set_params(device=it), method)(*arguments)


def fit_tasks(X, y):
    for estimator, targets, products in fits(X, y):
        amounts = {"float32": products * len(X), "transfer": X.nbytes}
        call = on_device(estimator, "fit", X, targets)
        yield f"fit {type(estimator).__name__}", len(X), amounts, call


def encoding_tasks(X, y):
    layers = {"hidden_layer_sizes": (1024,), "max_epochs": 1}
    deep = skhash.SupervisedHash(64, random_state=0, **layers)
    for encoder in (RandomHyperplaneHash(256, random_state=0), deep):
        encoder.fit(X[:5000], y[:5000])
        weights = getattr(encoder, "coefs_", None) or [encoder.components_]
        products = len(X) * sum(weight.size for weight in weights)
        call = on_device(encoder, "decision_function", X)
        n_bytes = X.nbytes + 4 * len(X) * encoder.n_bits
        amounts = {"float32": products, "transfer": n_bytes}
        yield f"encode {type(encoder).__name__}", len(X), amounts, call
    n_entries, width = 256 * 8, 16
    quantizer = skhash.AdditiveQuantizer(8, n_alternations=0, beam_width=width)
    quantizer.fit(X[:5000])
    # Costs of all values of a block with each kept code: written, and read to select.
    moved = 2 * 4 * width * n_entries * len(X)
    products = n_entries * X.shape[1] * len(X)
    amounts = {"float32": products, "transfer": 2 * X.nbytes, "bandwidth": moved}
    call = on_device(quantizer, "transform", X)
    yield "encode AdditiveQuantizer", len(X), amounts, call


def search_tasks(n, batches, device):
    kind, itemsize = ("half", 2) if device.type == "cuda" else ("float32", 4)
    rng = np.random.default_rng(0)
    for n_bits in (64, 512):
        codes = rng.integers(0, 256, (n, n_bits // 8), "u1")
        queries = rng.integers(0, 256, (max(batches), n_bits // 8), "u1")
        index = skhash.HammingNeighbors(10, algorithm="brute", packed=True).fit(codes)
        for batch in batches:
            moved = 2 * itemsize * n * (n_bits + batch)
            amounts = {kind: n * n_bits * batch, "bandwidth": moved}
            call = on_device(index, "kneighbors", queries[:batch])
            yield f"search {n:,} of {n_bits} bits", batch, amounts, call


def check(found, expected):
    """Raise an AssertionError where answers differ beyond rounding."""
    if isinstance(found, np.ndarray) and found.dtype == np.uint8:
        assert (found == expected).all(axis=1).mean() > 0.99, "other codes were found"
    elif isinstance(found, np.ndarray):  # logits
        sure = np.abs(expected) > ROUNDING * np.abs(expected).max()
        assert ((found > 0) == (expected > 0))[sure].all(), "bits differ"
    elif isinstance(found, tuple):
        assert all(map(np.array_equal, found, expected)), "other neighbours were found"


def main():
    arguments = options(__doc__, device="cuda", quick=False).parse_args()
    try:
        device = resolve_device(arguments.device)
    except ValueError as error:
        sys.exit(str(error))
    n, n_codes, batches, size = 200_000, 10_000_000, (1, 1000, 10_000), 8192
    if arguments.quick:
        n, n_codes, batches, size = 500, 5000, (1, 20), 1024
    clock, on_cpu = Clock(device), Clock(torch.device("cpu"))
    rates = limits(clock, size)
    for name, rate in rates.items():
        print(f"{name}: {rate / 1e9:,.1f} billion a second")
    X = np.random.default_rng(0).normal(size=(n, 384)).astype(np.float32)
    y = (X[:, :3] > 0) @ (1, 2, 4)
    searches = search_tasks(n_codes, batches, device)
    tasks = chain(fit_tasks(X, y), encoding_tasks(X, y), searches)
    table = Table(COLUMNS).printed()
    for name, rows, amounts, call in tasks:
        seconds, found, peak = clock.measure(partial(call, arguments.device))
        slower, expected, _ = on_cpu.measure(partial(call, "cpu"), 1)
        check(found, expected)
        least = {kind: amount / rates[kind] for kind, amount in amounts.items()}
        limit = max(least, key=least.get)
        ratios = least[limit] / seconds, slower / seconds
        table.add(name, rows, seconds, limit, *ratios, peak and peak / 1e6)
    # The head has the name of a GPU.
    save(arguments.output, {"tasks": table}, rates, seeds=[0], data=f"On {device}.")


if __name__ == "__main__":
    main()
