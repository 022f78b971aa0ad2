"""Exact Hamming search: `HammingNeighbors` beside faiss.

The searches take turns in one process, so that a busy neighbour harms all of them, and
the table gives medians and their ratio. Run it on an idle machine all the same::

    python examples/benchmarks/knn.py
    python examples/benchmarks/knn.py --n 200000 --bits 64 --k 10 --repeats 3

The *popcount limit* is what the machine reaches when it counts differing bits word by
word, without looking at the counts: a search that works that way cannot be faster. Ours
does not work that way.
"""

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import faiss
import joblib
import numba
import numpy as np
from numba import njit

import skhash
from skhash.neighbors import HammingNeighbors
from skhash.utils.kernels import popcount

SLICE = 1024  # codes whose words stay in the first cache while queries pass


@njit(nogil=True)
def count_all(words, queries):
    """Sum all distances; `words` has shape (n_words, n)."""
    total = np.uint64(0)
    n_words, n = words.shape
    for start in range(0, n, SLICE):
        stop = min(start + SLICE, n)
        for q in range(len(queries)):
            for w in range(n_words):
                query, row = queries[q, w], words[w, start:stop]
                for i in range(len(row)):
                    total += popcount(row[i] ^ query)
    return total


def popcount_limit(codes, queries, threads):
    words = np.ascontiguousarray(codes.view(np.uint64).T)
    chunks = np.array_split(queries.view(np.uint64), threads)
    parallel = joblib.Parallel(n_jobs=threads, prefer="threads")
    return lambda: parallel(joblib.delayed(count_all)(words, c) for c in chunks)


def make_searches(codes, queries, k, threads):
    """Return the searches by name, each giving (distances, positions)."""
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    ours = HammingNeighbors(k, packed=True, n_jobs=threads).fit(codes)
    return {
        "ours": lambda: ours.kneighbors(queries),
        "IndexBinaryFlat": lambda: index.search(queries, k),
        "knn_hamming": lambda: faiss.knn_hamming(queries, codes, k),
    }


def check_agreement(answers):
    """Compare distances, and positions where no tie leaves a choice; return the share.

    The share is that of the queries whose positions agree all along.
    """
    distances, positions = answers["ours"]
    shares = []
    for name in ("IndexBinaryFlat", "knn_hamming"):
        their_distances, their_positions = answers[name]
        np.testing.assert_array_equal(distances, their_distances)
        # Of the codes at the last distance, faiss may know others.
        inside = distances < distances[:, -1:]
        for ours, theirs, row in zip(positions, their_positions, inside, strict=True):
            assert set(ours[row]) == set(theirs[row])
        shares.append((positions == their_positions).all(axis=1).mean())
    return shares


def time_in_turns(searches, repeats):
    """Return the seconds of each search, sorted, the first, warm-up turn left out."""
    seconds = {name: [] for name in searches}
    for turn in range(repeats + 1):
        for name, search in searches.items():
            start = time.perf_counter()
            search()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: sorted(times) for name, times in seconds.items()}


def time_first_calls():
    """Return the seconds of a first search in a new process: empty and filled cache."""
    program = (
        "import time; start = time.perf_counter();"
        "import numpy as np; from skhash.neighbors import HammingNeighbors;"
        "index = HammingNeighbors(packed=True).fit(np.zeros((1000, 8), np.uint8));"
        "ready = time.perf_counter(); index.kneighbors(np.zeros((5, 8), np.uint8));"
        "print(ready - start, time.perf_counter() - ready)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            )
            yield tuple(float(part) for part in done.stdout.split())


def processor_name():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(x.split(":")[1].strip() for x in lines if "model name" in x)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def print_head(arguments):
    print(f"{processor_name()}, {arguments.threads} threads, {datetime.date.today()}")
    print(
        f"Python {platform.python_version()}, skhash {skhash.__version__}, numba "
        f"{numba.__version__}, NumPy {np.__version__}, faiss {faiss.__version__} "
        f"({faiss.get_compile_options().strip()})"
    )
    print(
        f"{arguments.n} codes, {arguments.queries} queries, medians of "
        f"{arguments.repeats} turns\n"
    )


def report(n_bits, k, arguments, rng):
    shape = (arguments.n, n_bits // 8)
    codes = rng.integers(0, 256, shape, dtype=np.uint8)
    queries = rng.integers(0, 256, (arguments.queries, shape[1]), dtype=np.uint8)
    searches = make_searches(codes, queries, k, arguments.threads)
    same_order = check_agreement({name: search() for name, search in searches.items()})
    searches["popcount limit"] = popcount_limit(codes, queries, arguments.threads)
    seconds = time_in_turns(searches, arguments.repeats)
    pairs = arguments.n * arguments.queries
    ours = seconds["ours"]
    for name, times in seconds.items():
        median = statistics.median(times)
        rate = pairs / median
        print(
            f"| {n_bits} | {k} | {name} | {median:.3f} | {rate / 1e9:.2f} | "
            f"{rate * shape[1] / 1e9:.1f} | {median / statistics.median(ours):.2f} | "
            f"{times[0] / ours[0]:.2f} |",
            flush=True,
        )
    return same_order


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000, help="codes")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument(
        "--bits", type=int, nargs="+", default=[64, 128, 256], help="multiples of 64"
    )
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=joblib.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if any(n_bits % 64 for n_bits in arguments.bits):
        parser.error("--bits must be multiples of 64")

    faiss.omp_set_num_threads(arguments.threads)
    rng = np.random.default_rng(arguments.seed)
    print_head(arguments)
    # Where the machine is not quite idle, the fastest turns are the fairer ones.
    print(
        "| bits | k | search | seconds | Gpairs/s | GB/s | times ours | best to best |"
    )
    print("|" + "---|" * 8)
    same_order = [
        report(n_bits, k, arguments, rng)
        for n_bits in arguments.bits
        for k in arguments.k
    ]
    flat, stateless = np.mean(same_order, axis=0)
    print(
        "\nAll distances agree, and all positions but for the choice among ties: the "
        f"same order for {flat:.0%} of the queries with IndexBinaryFlat and "
        f"{stateless:.0%} with knn_hamming."
    )
    for state, (ready, first) in zip(
        ("empty", "filled"), time_first_calls(), strict=True
    ):
        print(
            f"First search in a new process, {state} cache: {first:.2f} s "
            f"(after {ready:.2f} s of imports and fit)."
        )


if __name__ == "__main__":
    main()
