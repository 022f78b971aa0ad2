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
import datetime
import os
import platform
from statistics import median

import numpy as np
from knn import Codes
from knn_engines import seconds_of

import skhash
from skhash.codes import packed_to_words
from skhash.neighbors.search.algorithm import Question
from skhash.neighbors.search.brute import Brute
from skhash.neighbors.search.multi_index import MultiIndex
from skhash.neighbors.search.pruned import Clusters, share_left

SINGLE, TURNS = 50, 3


def microseconds(algorithm, queries, radius):
    """Return the time of a query in a batch, and its answer."""
    question = Question("within", radius, n_jobs=1, n_queries=len(queries))
    seconds, found = seconds_of(algorithm.within, queries, question)
    return 1e6 * seconds / len(queries), found


def compare(codes, n_bits, radii):
    """Print a row for each radius."""
    words, queries = map(packed_to_words, codes)
    algorithms = [kind(words, n_bits) for kind in (Clusters, MultiIndex, Brute)]
    made = [seconds_of(one.make, Question("within", 2))[0] for one in algorithms]
    print(f"{n_bits} bits: clusters made in {made[0]:.2f} s, tables in {made[1]:.2f} s\n")
    print(f"| radius | found | left |{' batch, us | one, us |' * 3}")
    print(f"|{'---|' * 9}")
    for radius in radii:
        batches = [queries, queries, queries[:1000]]
        columns, answers = [], []
        for some, algorithm in zip(batches, algorithms, strict=True):
            microseconds(algorithm, some[:20], radius)
            turns = [microseconds(algorithm, some, radius) for _ in range(TURNS)]
            alone = [
                microseconds(algorithm, queries[i : i + 1], radius)[0]
                for i in range(SINGLE)
            ]
            answers.append(turns[0][1])
            columns.append(f"{median(t for t, _ in turns):.1f} | {median(alone):.0f}")
        n_found = answers[2][2].sum()
        if any((a[1][:n_found] != answers[2][1]).any() for a in answers):
            raise SystemExit("answers differ")
        left = share_left(words, queries[::300], np.full(len(queries[::300]), radius))
        found = len(answers[0][0]) / len(queries)
        print(
            f"| {radius} | {found:.1f} | {left:.4f} | {' | '.join(columns)} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--radii", type=int, nargs="+", default=[2, 4, 6, 8, 12])
    parser.add_argument("--data-home")
    arguments = parser.parse_args()
    print(
        f"{datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, numpy {np.__version__}, skhash {skhash.__version__}; "
        f"{arguments.codes:,} codes"
    )
    codes = Codes(10_000, 0, arguments.data_home)
    for n_bits in arguments.bits:
        compare(codes.get("real", n_bits, arguments.codes), n_bits, arguments.radii)


if __name__ == "__main__":
    main()
