"""Radius search: clusters, tables, and comparing all codes, by radius.

    python examples/benchmarks/radius.py
    python examples/benchmarks/radius.py --codes 10_000_000 --bits 64

SGH codes of sums of two GloVe words, as in ``knn.py``; queries are words that are held
out. The three take turns in one process, on one thread; microseconds a query are the
medians of three turns of a batch of 10 000 queries (1000 where all codes are compared),
and of 50 single queries. *left* is the share of the codes that clusters leave to be
compared, as "auto" estimates it. All find the same codes, or the script stops.
"""

import argparse
from statistics import median

import numpy as np
from growing_results import describe, head
from knn import Codes
from knn_engines import seconds_of
from result_files import Table, add_output, save

from skhash.codes import packed_to_words
from skhash.neighbors.search.algorithm import Question
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import Clusters, share_left

SINGLE, TURNS = 50, 3
FOUND = {
    "bits": "",
    "radius": "",
    "found": ".1f",
    "left": ".4f",
    "clusters, batch": ".1f",
    "clusters, one": ".0f",
    "tables, batch": ".1f",
    "tables, one": ".0f",
    "all, batch": ".1f",
    "all, one": ".0f",
}


def microseconds(algorithm, queries, radius):
    """Return the time of a query in a batch, and its answer."""
    question = Question("within", radius, n_jobs=1, n_queries=len(queries))
    seconds, found = seconds_of(algorithm.within, queries, question)
    return 1e6 * seconds / len(queries), found


def compare(words, queries, algorithms, radius):
    """Return the codes within a radius, the share that is left, and the times."""
    columns, answers = [], []
    batches = [queries, queries, queries[:1000]]
    for some, algorithm in zip(batches, algorithms, strict=True):
        microseconds(algorithm, some[:20], radius)
        turns = [microseconds(algorithm, some, radius) for _ in range(TURNS)]
        alone = [
            microseconds(algorithm, queries[i : i + 1], radius)[0]
            for i in range(SINGLE)
        ]
        answers.append(turns[0][1])
        columns += [median(seconds for seconds, _ in turns), median(alone)]
    n_found = answers[2][2].sum()
    if any((a[1][:n_found] != answers[2][1]).any() for a in answers):
        raise SystemExit("answers differ")
    left = share_left(words, queries[::300], np.full(len(queries[::300]), radius))
    return len(answers[0][0]) / len(queries), left, *columns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--radii", type=int, nargs="+", default=[2, 4, 6, 8, 12])
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    print(describe(head()))
    codes = Codes(10_000, 0, arguments.data_home)
    made = Table({"bits": "", "clusters made, s": ".2f", "tables made, s": ".2f"})
    found = Table(FOUND).printed()
    for n_bits in arguments.bits:
        own = codes.get("real", n_bits, arguments.codes)
        words, queries = map(packed_to_words, own)
        algorithms = [kind(words, n_bits) for kind in (Clusters, MultiIndex, Brute)]
        seconds = [seconds_of(one.make, Question("within", 2))[0] for one in algorithms]
        made.rows.append([n_bits, *seconds[:2]])
        for radius in arguments.radii:
            found.add(n_bits, radius, *compare(words, queries, algorithms, radius))
    data = f"{arguments.codes:,} real codes, one thread"
    tables = {"found": found, "made": made.printed()}
    save(arguments.output, tables, seeds=[0], data=data)


if __name__ == "__main__":
    main()
