"""Whether two commits search equally fast: turns of both, alternating.

::

    python examples/benchmarks/same_speed.py 2d9711e
    python examples/benchmarks/same_speed.py 2d9711e HEAD --only pruned --rounds 6

Each commit has a process of its own, with the same codes; one works while the other
waits. Where its memory lies moves the time of single queries by a tenth, so processes
are started anew for each round, in the other order. A row has the median seconds of a
call of each commit, and the median over turns of their ratio: above 1 the second commit
is faster. The machine has to be idle.
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
from ast import literal_eval
from pathlib import Path

import numpy as np
from same_codes import checkout

SIZES = (10_000, 100_000, 1_000_000)
BITS = (64, 128, 256)
# A turn repeats a call until it has taken so long.
TURN_SECONDS = 0.3


def cases():
    """Yield the name, the number of codes and bits, and the call of each case."""
    for n_codes in SIZES:
        for n_bits in BITS:
            shape = f"{n_codes:>9,} x {n_bits:3}"
            for algorithm in ("brute", "auto"):
                for n_queries in (1, 500):
                    name = f"{shape} {algorithm:11} k=10    {n_queries:3} queries"
                    yield name, n_codes, n_bits, (algorithm, "nearest", 10, n_queries)
        for name, algorithm, what, reach, n_queries in [
            ("brute       k=100   500 queries", "brute", "nearest", 100, 500),
            ("brute       r=4     500 queries", "brute", "within", 4, 500),
            ("multi_index r=2     500 queries", "multi_index", "within", 2, 500),
            ("multi_index k=10    100 queries", "multi_index", "nearest", 10, 100),
            ("pruned      k=10     16 queries", "pruned", "nearest", 10, 16),
            ("pruned      k=10    500 queries", "pruned", "nearest", 10, 500),
            ("masked      k=10    500 queries", "masked", "nearest", 10, 500),
            ("asymmetric  k=10    100 queries", "asymmetric", "nearest", 10, 100),
        ]:
            call = algorithm, what, reach, n_queries
            yield f"{n_codes:>9,} x  64 {name}", n_codes, 64, call


def make_codes(n_codes, n_bits, n_queries=500):
    """Return codes and queries as of real vectors: bits of points in clusters."""
    rng = np.random.default_rng(0)
    centers, weights = rng.normal(size=(200, 32)), rng.normal(size=(32, n_bits))
    blocks = []
    for start in range(0, n_codes + n_queries, 100_000):
        n = min(100_000, n_codes + n_queries - start)
        X = centers[rng.integers(200, size=n)] + 0.7 * rng.normal(size=(n, 32))
        blocks.append(np.packbits(X @ weights > 0, axis=1))
    packed = np.concatenate(blocks)
    return packed[:-n_queries], packed[-n_queries:]


class Worker:
    """One commit: answers how long a call of a case took."""

    def __init__(self):
        self.shape = self.indexes = None

    def run(self, n_codes, n_bits, call):
        if self.shape != (n_codes, n_bits):
            self.shape, self.indexes = (n_codes, n_bits), {}
            self.codes, self.queries = make_codes(n_codes, n_bits)
            self.mask = np.arange(n_codes) % 3 > 0
            rng = np.random.default_rng(1)
            self.book = rng.normal(size=(n_bits, 48)), rng.normal(size=48)
            self.vectors = rng.normal(size=(500, 48))
        function = self.function(*call)
        if call not in self.indexes:
            self.indexes[call] = True
            for _ in range(8):  # compiles, and lets "auto" learn
                function()
        start, n = time.perf_counter(), 0
        while n == 0 or time.perf_counter() - start < TURN_SECONDS:
            function()
            n += 1
        return (time.perf_counter() - start) / n

    def function(self, algorithm, what, reach, n_queries):
        queries = self.queries[:n_queries]
        if algorithm == "asymmetric":
            return self.asymmetric(reach, self.vectors[:n_queries])
        index = self.index("brute" if algorithm == "masked" else algorithm)
        if what == "within":
            return lambda: index.radius_neighbors(queries, reach)
        if algorithm == "masked":
            return lambda: index.kneighbors(queries, reach, mask=self.mask)
        return lambda: index.kneighbors(queries, reach)

    def index(self, algorithm):
        from skhash import HammingNeighbors

        if algorithm not in self.indexes:
            index = HammingNeighbors(algorithm=algorithm, packed=True)
            self.indexes[algorithm] = index.fit(self.codes)
        return self.indexes[algorithm]

    def asymmetric(self, k, vectors):
        try:
            from skhash.neighbors import AsymmetricNeighbors
        except ImportError:  # before it left HammingNeighbors
            from skhash import HammingNeighbors

            options = {"rerank": "asymmetric", "n_candidates": None, "packed": True}
            make = HammingNeighbors(**options)
            decoder = {"decoder": self.book}
            if "asymmetric" not in self.indexes:
                self.indexes["asymmetric"] = make.fit(self.codes, **decoder)
            index, queries = self.indexes["asymmetric"], self.queries[: len(vectors)]
            return lambda: index.kneighbors(queries, k, vectors=vectors)
        if "asymmetric" not in self.indexes:
            index = AsymmetricNeighbors(packed=True)
            self.indexes["asymmetric"] = index.fit(self.codes, decoder=self.book)
        index = self.indexes["asymmetric"]
        return lambda: index.kneighbors(vectors, k)


def serve():
    worker = Worker()
    for line in sys.stdin:
        print(worker.run(*literal_eval(line)), flush=True)


def start(commit):
    folder = Path(tempfile.gettempdir(), "skhash-same-codes")
    paths = {
        "PYTHONPATH": f"{checkout(commit, folder)}{os.pathsep}{Path(__file__).parent}",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", __file__, "--serve", commit],
        env=os.environ | paths,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process, case):
    process.stdin.write(f"{case!r}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve()
    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{arguments.rounds} x {arguments.turns} turns, {arguments.old} against "
        f"{arguments.new}\n"
    )
    chosen = {name: case for name, *case in cases() if arguments.only in name}
    turns = {name: [] for name in chosen}
    for i in range(arguments.rounds):
        commits = [arguments.old, arguments.new][:: -1 if i % 2 else 1]
        processes = [start(commit) for commit in commits][:: -1 if i % 2 else 1]
        for name, case in chosen.items():
            for j in range(arguments.turns):
                order = processes[:: -1 if j % 2 else 1]
                seconds = {process.pid: ask(process, tuple(case)) for process in order}
                turns[name].append([seconds[process.pid] for process in processes])
        for process in processes:
            process.stdin.close()
            process.wait()
    ratios = []
    for name, pairs in turns.items():
        old, new = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratios.append(statistics.median(before / after for before, after in pairs))
        print(f"{name}  {1e3 * old:9.3f} {1e3 * new:9.3f} ms  {ratios[-1]:5.2f}")
    print(f"\nratios from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
