"""Codes of Fashion-MNIST: what re-ranking finds, and what it costs.

    python examples/benchmarks/rerank.py
    python examples/benchmarks/rerank.py --bits 128 --rows 60000

Rows of the training images are the database, test images the queries, and the truth are
the nearest images by Euclidean distance. Each code is searched by Hamming distance
alone (K nearest, equally near ones in the order of the file), and with real queries: by
what the codes decode to, or by the images themselves, among so many candidates or among
all codes. Encoders without a decoder get one of least squares.

10@N is the share of the ten nearest images that are among the first N. The time is that
of this process on one thread, encoding left out, and the least of three rounds: other
work on the machine counts little in it.
"""

import argparse
import sys
import time

from data_sets import load_fashion_mnist
from growing_results import describe, head
from result_files import Table, add_output, save
from sklearn.frozen import FrozenEstimator

from skhash import HammingNeighbors, HashedNeighbors, ITQHash, PCAHash, SGHEncoder
from skhash.metrics import true_neighbors
from skhash.neighbors import AsymmetricNeighbors

ENCODERS = {"SGH": SGHEncoder, "ITQ": ITQHash, "PCA": PCAHash}
# What is searched by, and among how many candidates.
SEARCHES = [
    ("Hamming distance", None),
    ("decoder", 100),
    ("decoder", 1000),
    ("decoder", None),
    ("vectors", 100),
    ("vectors", 1000),
]
CUTS = (10, 100)
COLUMNS = {
    "bits": "",
    "encoder": "",
    "ordered by": "",
    "candidates": ",",
    "10@10": ".3f",
    "10@100": ".3f",
    "ms a query": ".3f",
}


def measure(encoder, by, n_candidates, database, query, truth):
    """Return the recalls of one search, and the milliseconds of a query."""
    codes = encoder.transform_packed(query)
    if by == "Hamming distance":
        index, question = HammingNeighbors(max(CUTS), n_jobs=1), {"X": codes}
    else:
        index = AsymmetricNeighbors(max(CUTS), n_candidates=n_candidates, n_jobs=1)
        question = {"X": query, "codes": codes}
    frozen = FrozenEstimator(encoder)
    search = HashedNeighbors(frozen, index, keep_vectors=by == "vectors").fit(database)
    index = search.index_
    positions = index.kneighbors(return_distance=False, **question)
    recalls = [
        (positions[:, :n, None] == truth[:, None]).any(axis=1).mean() for n in CUTS
    ]
    rounds = []
    for _ in range(3):
        start = time.process_time()
        index.kneighbors(**question)
        rounds.append(time.process_time() - start)
    return recalls, 1000 * min(rounds) / len(query)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-home")
    add_output(parser)
    arguments = parser.parse_args()
    try:
        data = load_fashion_mnist(data_home=arguments.data_home)
    except FileNotFoundError as error:
        sys.exit(str(error))
    database, query = data.database[: arguments.rows], data.query
    print(describe(head()))
    truth = true_neighbors(query, database, 10)
    table = Table(COLUMNS).printed()
    for n_bits in arguments.bits:
        for name, make in ENCODERS.items():
            encoder = make(n_bits, random_state=arguments.seed).fit(database)
            for by, n_candidates in SEARCHES:
                recalls, ms = measure(encoder, by, n_candidates, database, query, truth)
                table.add(n_bits, name, by, n_candidates or "all", *recalls, ms)
    data = f"Fashion-MNIST, {len(database):,} rows, {len(query):,} queries, one thread"
    save(arguments.output, {"searches": table}, seeds=[arguments.seed], data=data)


if __name__ == "__main__":
    main()
