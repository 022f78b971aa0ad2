"""One query at a time: `HammingNeighbors` beside faiss, and what memory allows.

    python examples/benchmarks/one_query.py
    python examples/benchmarks/one_query.py --codes 1000 10000 --bits 64

Random codes, 10 neighbours, every code compared (``algorithm="brute"``), another query
each time. faiss, ours, and a plain read of all words (a compiled loop of xor, the
limit) take turns in one process, so that small caches hold what the one before left;
medians of 30 turns, of 200 calls each for 10 000 codes or fewer. faiss and ours have
their defaults, all threads; *one thread* is ours with ``n_jobs=1``.
"""

from itertools import cycle

import faiss
import numpy as np
from numba import njit
from tools import Table, columns, medians, options, save

from skhash.neighbors import HammingNeighbors

K, SMALL, CALLS, TURNS = 10, 10_000, 200, 30
QUERIES = columns(
    "codes :, | bits | faiss, us :.1f | ours, us :.1f | one thread, us :.1f | "
    "ratio :.2f | ours, GB/s :.1f | plain read, GB/s :.1f"
)


@njit
def read_all(words):
    """Return the xor of all words, so that each is read."""
    total = np.uint64(0)
    for i in range(len(words)):  # which becomes vector instructions
        total ^= words[i]
    return total


def compare(n, n_bits):
    """Return a row of the table."""
    rng = np.random.default_rng(n_bits)
    codes = rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (64, 1, n_bits // 8), dtype=np.uint8)
    flat = faiss.IndexBinaryFlat(n_bits)
    flat.add(codes)
    options = {"n_neighbors": K, "packed": True, "algorithm": "brute"}
    ours, alone = (HammingNeighbors(**options, n_jobs=j).fit(codes) for j in (None, 1))
    words, query = codes.view(np.uint64).ravel(), cycle(queries)
    searches = {
        "faiss": lambda: flat.search(next(query), K),
        "ours": lambda: ours.kneighbors(next(query)),
        "alone": lambda: alone.kneighbors(next(query)),
        "read": lambda: read_all(words),
    }
    calls = CALLS if n <= SMALL else 1
    many = {
        name: lambda search=search: [search() for _ in range(calls)]
        for name, search in searches.items()
    }
    times = {name: it / calls for name, it in medians(many, TURNS).items()}
    best, gigabytes = min(times["ours"], times["alone"]), codes.nbytes / 1e9
    microseconds = (1e6 * times[it] for it in ("faiss", "ours", "alone"))
    rates = gigabytes / best, gigabytes / times["read"]
    return n, n_bits, *microseconds, times["faiss"] / times["ours"], *rates


def main():
    sizes = [1000, 10_000, 100_000, 1_000_000, 10_000_000]
    arguments = options(__doc__, codes=sizes, bits=[64, 128, 256, 512]).parse_args()
    queries = Table(QUERIES).printed()
    for n in arguments.codes:
        for n_bits in arguments.bits:
            queries.add(*compare(n, n_bits))
    data = "random codes, 10 neighbours, all compared"
    save(arguments.output, {"Queries": queries}, data=data)


if __name__ == "__main__":
    main()
