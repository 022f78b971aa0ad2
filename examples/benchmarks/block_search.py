"""Pairs a second, of blocks of codes on their side, against the popcount limit.

A million random codes, 512 queries, the nearest ten by ``algorithm="brute"``, one
thread. Each way to add bits up that this machine has takes its turn in the same
process, and so does the limit: a loop of xor, popcount and add over 64-bit words that
looks at nothing (`knn_engines.count_all`). Medians, in billions of pairs a second.

    python examples/benchmarks/block_search.py
"""

import datetime
import platform
from statistics import median

import numpy as np
from knn_engines import count_all, seconds_of

from skhash.neighbors import HammingNeighbors
from skhash.neighbors.kernels.bitslice import PLAIN, WAYS, possible_ways
from skhash.neighbors.search import blocks

N, N_QUERIES, TURNS = 1_000_000, 512, 5


def name_of(way):
    lanes, ternary = WAYS[way]
    return f"{64 * lanes} bits" + (", ternary" if ternary else "")


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
    ways = sorted({PLAIN, *possible_ways()})
    print(f"{datetime.date.today()}, {platform.machine()}, one thread\n")
    print("| bits | popcount limit |", *(f"{name_of(way)} | share |" for way in ways))
    print("|---|---|" + "---|---|" * len(ways))
    for n_bits in (64, 128, 256, 512):
        rates = rates_of(n_bits, ways)
        cells = [
            f"{rates[way]:.1f} | {rates[way] / rates['limit']:.2f} |" for way in ways
        ]
        print(f"| {n_bits} | {rates['limit']:.1f} |", *cells, flush=True)


if __name__ == "__main__":
    main()
