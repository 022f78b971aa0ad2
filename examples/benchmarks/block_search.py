"""Pairs a second, of blocks of codes on their side, against the popcount limit.

A million random codes, 512 queries, the nearest ten by ``algorithm="brute"``, one
thread. Each way to add bits up that this machine has takes its turn in the same
process, and so does the limit: a loop of xor, popcount and add over 64-bit words that
looks at nothing (`knn_engines.count_all`). Medians, in billions of pairs a second.

    python examples/benchmarks/block_search.py
"""

import argparse
from statistics import median

import numpy as np
from growing_results import describe, head
from knn_engines import count_all, seconds_of
from result_files import Table, add_output, save

from skhash.neighbors import HammingNeighbors
from skhash.neighbors.kernels.bitslice import PLAIN, WAYS, possible_ways
from skhash.neighbors.search import blocks

N, N_QUERIES, TURNS = 1_000_000, 512, 5
COLUMNS = {
    "bits": "",
    "vectors of": "",
    "operations an adder": "",
    "billion pairs/s": ".1f",
    "popcount limit": ".1f",
    "share": ".2f",
}


def rates_of(n_bits, ways):
    """Return the pairs a second of each way, and of the limit, in billions."""
    random = np.random.default_rng(0)
    shape = N + N_QUERIES, n_bits // 8
    codes = random.integers(256, size=shape, dtype=np.uint8)
    queries, codes = np.split(codes, [N_QUERIES])
    index = HammingNeighbors(10, packed=True, n_jobs=1, algorithm="brute").fit(codes)
    words = np.ascontiguousarray(codes.view(np.uint64).T)
    turns = {"limit": lambda: count_all(words, queries.view(np.uint64))}
    for way in ways:

        def search(way=way):
            blocks.fastest_way = lambda program: way
            index.kneighbors(queries)

        turns[way] = search
    seconds = {name: [] for name in turns}
    for turn in range(TURNS + 1):
        for name, call in turns.items():
            taken = seconds_of(call)[0]
            if turn:  # the first one compiles
                seconds[name].append(taken)
    return {name: N * N_QUERIES / median(s) / 1e9 for name, s in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_output(parser)
    arguments = parser.parse_args()
    ways = sorted({PLAIN, *possible_ways()})
    print(describe(head()))
    table = Table(COLUMNS).printed()
    for n_bits in (64, 128, 256, 512):
        rates = rates_of(n_bits, ways)
        for way in ways:
            lanes, ternary = WAYS[way]
            rate, limit = rates[way], rates["limit"]
            width, operations = f"{64 * lanes} bits", "two" if ternary else "five"
            table.add(n_bits, width, operations, rate, limit, rate / limit)
    data = f"{N:,} random codes, {N_QUERIES} queries, k = 10, one thread"
    save(arguments.output, {"rates": table}, seeds=[0], data=data)


if __name__ == "__main__":
    main()
