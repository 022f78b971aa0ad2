"""Radius search: clusters, tables, and comparing all codes, by radius.

    python examples/benchmarks/radius.py
    python examples/benchmarks/radius.py --codes 10_000_000 --bits 64

SGH codes of sums of two GloVe words, as in ``knn.py``; queries are words that are held
out. The three take turns in one process, on one thread; microseconds a query are the
medians of three turns of a batch of 10 000 queries (1000 where all codes are compared),
and of 50 single queries. All find the same codes, or the script stops.
"""

from functools import partial
from statistics import median

import numpy as np
from tools import Table, WordCodes, medians, options, save, seconds_of

from skhash.neighbors import HammingNeighbors

SINGLE, TURNS = 50, 3
RADII = 2, 4, 6, 8, 12
WAYS = {"clusters": "pruned", "tables": "multi_index", "all": "brute"}
FOUND = "bits | radius | found :.1f"
FOUND += "".join(f" | {way}, batch :.1f | {way}, one :.0f" for way in WAYS)
MADE = "bits | clusters made, s :.2f | tables made, s :.2f"


def compare(indexes, queries, radius):
    """Return the mean number of codes within a radius, and the times."""
    some = {way: queries[: len(queries) // (10 if way == "all" else 1)] for way in WAYS}
    asked = {
        way: partial(index.radius_neighbors, radius=radius)
        for way, index in indexes.items()
    }
    answers = [ask(queries[:20])[1] for ask in asked.values()]
    for first, *others in zip(*answers, strict=True):
        for positions in others:
            np.testing.assert_array_equal(positions, first)
    calls = {way: partial(ask, some[way]) for way, ask in asked.items()}
    batch, columns = medians(calls, TURNS), []
    for way, ask in asked.items():
        single = [seconds_of(ask, query[None])[0] for query in queries[:SINGLE]]
        columns += [1e6 * batch[way] / len(some[way]), 1e6 * median(single)]
    found = asked["tables"](queries)[1]
    return sum(map(len, found)) / len(queries), *columns


def main():
    parser = options(__doc__, codes=1_000_000, bits=[64, 128], data_home=None)
    arguments = parser.parse_args()
    made, found = Table(MADE), Table(FOUND).printed()
    for n_bits in arguments.bits:
        words = WordCodes(n_bits, 0, 10_000, arguments.data_home)
        codes = words.codes(arguments.codes, np.random.default_rng(0))
        indexes, seconds = {}, []
        for way, algorithm in WAYS.items():
            index = HammingNeighbors(packed=True, algorithm=algorithm, n_jobs=1)
            seconds.append(seconds_of(index.fit(codes).prepare, 10**7, radius=2)[0])
            indexes[way] = index
        made.rows.append([n_bits, *seconds[:2]])
        for radius in RADII:
            found.add(n_bits, radius, *compare(indexes, words.queries, radius))
    data = f"{arguments.codes:,} real codes, one thread"
    tables = {"Found": found, "Made": made.printed()}
    save(arguments.output, tables, seeds=[0], data=data)


if __name__ == "__main__":
    main()
