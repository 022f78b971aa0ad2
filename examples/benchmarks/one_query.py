"""One query at a time: `HammingNeighbors` beside faiss, and what memory allows.

    python examples/benchmarks/one_query.py
    python examples/benchmarks/one_query.py --codes 1000 10000 --bits 64

Random codes, 10 neighbours, every code compared (``algorithm="brute"``), another query
each time. faiss, ours, and a plain read of all words (a compiled loop of xor, the
limit) take turns in one process, so that small caches hold what the one before left;
medians of at least 15 turns, of 200 calls each for 10 000 codes or fewer. faiss and
ours have their defaults, all threads; *one thread* is ours with ``n_jobs=1``.

The second table tells what a call costs beyond its search: a call for 1000 codes, less
the compiled search alone with all its room made before.
"""

import argparse
import time
from statistics import median

import faiss
import numpy as np
from growing_results import describe, head
from numba import njit
from result_files import Table, add_output, save

from skhash.neighbors import HammingNeighbors
from skhash.neighbors.kernels import brute as kernels
from skhash.neighbors.search import brute
from skhash.neighbors.search.chunks import live_codes

K, SMALL, CALLS, TURNS, SECONDS = 10, 10_000, 200, 15, 6.0
QUERIES = {
    "codes": ",",
    "bits": "",
    "faiss, us": ".1f",
    "ours, us": ".1f",
    "one thread, us": ".1f",
    "ratio": ".2f",
    "ours, GB/s": ".1f",
    "plain read, GB/s": ".1f",
}
CALLS_COLUMNS = {
    "bits": "",
    "codes": ",",
    "a call, us": ".1f",
    "compiled, us": ".1f",
    "beyond, us": ".1f",
}


@njit
def read_all(words):
    """Return the xor of all words, so that each is read."""
    total = np.uint64(0)
    for i in range(len(words)):  # which becomes vector instructions
        total ^= words[i]
    return total


def take_turns(functions, calls):
    """Return the median seconds of a call of each function."""
    spent = [[] for _ in functions]
    for function in functions:
        function()
    begin = time.perf_counter()
    while len(spent[0]) < TURNS or (
        time.perf_counter() - begin < SECONDS / 4 and len(spent[0]) < 10 * TURNS
    ):
        for times, function in zip(spent, functions, strict=True):
            start = time.perf_counter()
            for _ in range(calls):
                function()
            times.append((time.perf_counter() - start) / calls)
    return [median(times) for times in spent]


def compare(n, n_bits):
    """Return a row of the table of queries."""
    rng = np.random.default_rng(n_bits)
    codes = rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    queries = rng.integers(0, 256, (64, n_bits // 8), dtype=np.uint8)
    flat = faiss.IndexBinaryFlat(n_bits)
    flat.add(codes)
    options = {"n_neighbors": K, "packed": True, "algorithm": "brute"}
    ours, alone = (HammingNeighbors(**options, n_jobs=j).fit(codes) for j in (None, 1))
    words, turn = codes.view(np.uint64).ravel(), iter(range(10**9))

    def query():
        i = next(turn) % len(queries)
        return queries[i : i + 1]

    theirs, own, one, read = take_turns(
        [
            lambda: flat.search(query(), K),
            lambda: ours.kneighbors(query()),
            lambda: alone.kneighbors(query()),
            lambda: read_all(words),
        ],
        CALLS if n <= SMALL else 1,
    )
    best, gigabytes = min(own, one), codes.nbytes / 1e9
    microseconds = (1e6 * it for it in (theirs, own, one))
    rates = gigabytes / best, gigabytes / read
    return n, n_bits, *microseconds, theirs / own, *rates


def overhead(n_bits, n=1000):
    """Return a row of the table of calls: what one costs beyond its search."""
    rng = np.random.default_rng(0)
    codes, query = np.split(
        rng.integers(0, 256, (n + 1, n_bits // 8), dtype=np.uint8), [n]
    )
    index = HammingNeighbors(K, packed=True).fit(codes)
    search = brute.Brute(index.packed_codes_.view(np.uint64), n_bits)
    room = search._room((1, search.words.shape[1], K))
    room.patterns[:] = query.view(np.uint64)[:, None]
    answers = np.zeros((1, K), dtype=np.int32), np.zeros((1, K), dtype=np.int64)
    task = search.words, live_codes(None), n_bits, room.work, room.found, *answers
    call, compiled = take_turns(
        [lambda: index.kneighbors(query), lambda: kernels.nearest_to_few(*task)], CALLS
    )
    return n_bits, n, 1e6 * call, 1e6 * compiled, 1e6 * (call - compiled)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [1000, 10_000, 100_000, 1_000_000, 10_000_000]
    parser.add_argument("--codes", type=int, nargs="+", default=sizes)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128, 256, 512])
    add_output(parser)
    arguments = parser.parse_args()
    print(describe(head()))
    queries = Table(QUERIES).printed()
    for n in arguments.codes:
        for n_bits in arguments.bits:
            queries.add(*compare(n, n_bits))
    calls = Table(CALLS_COLUMNS).printed()
    for n_bits in arguments.bits:
        calls.add(*overhead(n_bits))
    tables = {"queries": queries, "calls": calls}
    save(arguments.output, tables, data="random codes, 10 neighbours, all compared")


if __name__ == "__main__":
    main()
