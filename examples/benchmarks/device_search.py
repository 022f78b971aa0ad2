"""Hamming search on an accelerator: queries a second, beside its limits and the CPU.

Random codes, the k nearest, batches of several sizes. On a GPU, with its memory
bandwidth in TB/s and its rate of half precision products in TFLOP/s, here an H200's::

    python examples/benchmarks/device_search.py --bandwidth 4.8 --tensor-rate 989
    python examples/benchmarks/device_search.py --device cpu --quick

"device" is what `HammingNeighbors(device=...)` calls, answers on the host; "first call"
brings the codes there. The *memory limit* is reached if each product is written and
read once, and so the sign of each bit of a code; the *tensor limit*, if the products
take all the time. Without the rates, these columns stay empty. "CPU" compares all pairs
too, and is asked at most 1000 queries. "faiss" is its binary index on the GPU, where
that is installed. The answers of all are checked: the distances are the same, and ours
name the same codes. The engines take turns in one process; rates are of the medians.
"""

import argparse
import datetime
import os
import platform
import statistics
import time

import numpy as np
import torch

import skhash
from skhash import HammingNeighbors
from skhash.neighbors.search import _torch
from skhash.neighbors.store.select import select

try:
    import faiss
except ImportError:
    faiss = None

HEADER = [
    "bits",
    "n",
    "batch",
    "first call, s",
    "device, queries/s",
    "memory limit",
    "tensor limit",
    "reached",
    "CPU, queries/s",
    "faiss, queries/s",
]
MAX_CPU_QUERIES = 1000
# Turns of a setting end when they have taken so long, but not before the second.
SETTING_SECONDS = 10.0


def timed(search, queries):
    start = time.perf_counter()
    answer = search(queries)
    return time.perf_counter() - start, answer


def engines(codes, k, device, threads):
    """Return functions of queries by name, and the queries that each takes at most."""
    index = HammingNeighbors(k, algorithm="brute", packed=True, n_jobs=threads)
    store = index.fit(codes)._store
    found = {
        "device": lambda queries: _torch.find(
            "nearest", store, select(store), queries, k, device
        ),
        "CPU": lambda queries: index.kneighbors(queries[:MAX_CPU_QUERIES]),
    }
    if device.type == "cuda" and hasattr(faiss, "GpuIndexBinaryFlat"):
        resources = faiss.StandardGpuResources()
        options = faiss.GpuIndexBinaryFlatConfig()
        options.device = device.index or 0
        flat = faiss.GpuIndexBinaryFlat(resources, 8 * codes.shape[1], options)
        flat.add(codes)
        found["faiss"] = flat.search
    return found


def limits(n, n_bits, batch, device, bandwidth, tensor_rate):
    """Return the queries a second at full bandwidth, and at the full tensor rate."""
    itemsize = _torch._dtype(device, n_bits).itemsize
    numbers = n * n_bits + n * batch
    return [
        rate and batch / (amount / (rate * 1e12))
        for amount, rate in (
            (2 * itemsize * numbers, bandwidth),
            (2 * n_bits * n * batch, tensor_rate),
        )
    ]


def check(answers):
    """Raise an AssertionError where the answers are not the same."""
    expected, expected_codes = answers["CPU"]
    for name, (distances, codes) in answers.items():
        np.testing.assert_array_equal(distances[: len(expected)], expected, name)
        if name == "device":
            np.testing.assert_array_equal(codes[: len(expected)], expected_codes)


def measure(searches, queries, repeats):
    """Return the queries a second of each engine."""
    check({name: search(queries) for name, search in searches.items()})
    seconds, start = {name: [] for name in searches}, time.perf_counter()
    for turn in range(repeats):
        if turn > 1 and time.perf_counter() - start > SETTING_SECONDS:
            break
        for name, search in searches.items():
            seconds[name].append(timed(search, queries)[0])
    asked = {"CPU": min(len(queries), MAX_CPU_QUERIES)}
    return {
        name: asked.get(name, len(queries)) / statistics.median(times)
        for name, times in seconds.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 1000, 10_000])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--bandwidth", type=float, help="TB/s")
    parser.add_argument("--tensor-rate", type=float, help="TFLOP/s")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, help="of the CPU engine")
    parser.add_argument("--quick", action="store_true", help="few and short codes")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.n, arguments.bits = [20_000, 100_000], [64, 512]
        arguments.batches = [1, 100]
    device = torch.device(arguments.device)
    is_cuda = device.type == "cuda"
    device_name = torch.cuda.get_device_name(device) if is_cuda else arguments.device
    faiss_version = "" if faiss is None else f"faiss {faiss.__version__}, "
    print(
        f"{datetime.date.today()}, {device_name}, "
        f"{platform.processor() or platform.machine()} with {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"{faiss_version}skhash {skhash.__version__}\n"
        f"random codes, seed 0, k = {arguments.k}\n"
    )
    print(f"| {' | '.join(HEADER)} |\n{'|---' * len(HEADER)}|")
    for n_bits in arguments.bits:
        for n in arguments.n:
            rng = np.random.default_rng(0)
            queries = rng.integers(0, 256, (max(arguments.batches), n_bits // 8), "u1")
            codes = rng.integers(0, 256, (n, n_bits // 8), "u1")
            searches = engines(codes, arguments.k, device, arguments.threads)
            first, _ = timed(searches["device"], queries[:1])
            for batch in arguments.batches:
                rates = measure(searches, queries[:batch], arguments.repeats)
                memory, tensor = limits(
                    n, n_bits, batch, device, arguments.bandwidth, arguments.tensor_rate
                )
                known = [limit for limit in (memory, tensor) if limit]
                cells = [
                    str(n_bits),
                    f"{n:,}",
                    f"{batch:,}",
                    f"{first:.3f}",
                    number(rates["device"]),
                    number(memory),
                    number(tensor),
                    f"{rates['device'] / min(known):.0%}" if known else "",
                    number(rates["CPU"]),
                    number(rates.get("faiss")),
                ]
                print(f"| {' | '.join(cells)} |", flush=True)


def number(rate):
    return f"{rate:,.0f}" if rate else ""


if __name__ == "__main__":
    main()
