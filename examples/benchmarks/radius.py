"""Radius search: clusters, tables, and comparing all codes, by radius.

    python examples/benchmarks/radius.py
    python examples/benchmarks/radius.py --codes 10_000_000 --bits 64

SGH codes of sums of two GloVe words, as in ``knn.py``; queries are words that are held
out. The three take turns in one process, on one thread; microseconds a query are the
medians of three turns of a batch of 10 000 queries (1000 where all codes are compared),
and of 50 single queries. All find the same codes, or the script stops.
"""

import argparse
from statistics import median

import numpy as np
from tools import Table, WordCodes, add_output, medians, save, seconds_of

from skhash.neighbors import HammingNeighbors

SINGLE, TURNS = 50, 3
WAYS = {"clusters": "pruned", "tables": "multi_index", "all": "brute"}
FOUND = {"bits": "", "radius": "", "found": ".1f"}
FOUND |= {
    f"{way}, {how}": form
    for way in WAYS
    for how, form in (("batch", ".1f"), ("one", ".0f"))
}
MADE = {"bits": "", "clusters made, s": ".2f", "tables made, s": ".2f"}


def compare(indexes, queries, radius):
    """Return the mean number of codes within a radius, and the times."""
    sizes = dict(
        zip(WAYS, (len(queries), len(queries), len(queries) // 10), strict=True)
    )
    answers = [
        index.radius_neighbors(queries[:20], radius)[1] for index in indexes.values()
    ]
    for own in zip(*answers, strict=True):
        for positions in own:
            np.testing.assert_array_equal(positions, own[0])
    calls = {
        way: lambda way=way, index=index: index.radius_neighbors(
            queries[: sizes[way]], radius
        )
        for way, index in indexes.items()
    }
    batch, columns = medians(calls, TURNS), []
    for way, index in indexes.items():
        single = [
            seconds_of(index.radius_neighbors, queries[i : i + 1], radius)[0]
            for i in range(SINGLE)
        ]
        columns += [1e6 * batch[way] / sizes[way], 1e6 * median(single)]
    found = indexes["tables"].radius_neighbors(queries, radius)[1]
    return sum(map(len, found)) / len(queries), *columns


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--radii", type=int, nargs="+", default=[2, 4, 6, 8, 12])
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args(arguments)
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
        for radius in arguments.radii:
            found.add(n_bits, radius, *compare(indexes, words.queries, radius))
    data = f"{arguments.codes:,} real codes, one thread"
    tables = {"Found": found, "Made": made.printed()}
    save(arguments.output, tables, seeds=[0], data=data)


if __name__ == "__main__":
    main()
