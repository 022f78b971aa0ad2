"""Codes that decode by blocks of bits: what the blocks, the search and its terms bring.

Recall 10@10 and 10@100 of exact Euclidean neighbours by the distance of the real query
to the decoded codes ("real"), and by the Hamming distance of the query's code to the
same codes ("Hamming", in expectation over ties), all rows scored in float32::

    python examples/benchmarks/block_decoder.py minilm --bytes 4 8 16
    python examples/benchmarks/block_decoder.py fashion_mnist --table weights
    python examples/benchmarks/block_decoder.py fashion_mnist --transfer --valid

Tables: "blocks" has 1, 4 and 8 bits a block, the encoder's codes as they are and codes
refined; "weights" draws what `hamming_weight` costs; "search" changes one parameter of
the default `LinearDecoder` at a time. The encoder is ITQ, or SGH where codes are longer
than rows. The decoder sees the database, or with ``--transfer`` the first half of the
training rows, the others being the database. With ``--valid`` queries are 500 training
rows that are held out, else test rows.
"""

import argparse
import datetime
import os
import platform
import time

import numpy as np
import sklearn
from data_sets import load_20newsgroups, load_fashion_mnist, load_glove

import skhash
from skhash import ITQHash, SGHEncoder
from skhash.linear import LinearDecoder
from skhash.metrics import neighbor_recall_score, true_neighbors

LOADERS = {
    "minilm": lambda data_home: load_20newsgroups("minilm", data_home=data_home),
    "fashion_mnist": lambda data_home: load_fashion_mnist(data_home=data_home),
    "glove": lambda data_home: load_glove(data_home=data_home),
}
CUTS = (10, 100)
WEIGHTS = (0, 0.25, 0.5, 1, 2, 4)
SEARCHES = (
    {},
    {"n_alternations": 0},
    {"n_alternations": 3},
    {"n_alternations": 12},
    {"n_restarts": 0},
    {"n_restarts": 2},
    {"n_restarts": 32},
    {"relaxation": 0},
    {"relaxation": 0.25},
    {"relaxation": 1},
    {"ridge": 0.3},
    {"ridge": 1},
    {"ridge": 10},
    {"ridge": 100},
)


class Problem:
    """Rows for the decoder, a database, queries, their neighbours, and codes of all."""

    def __init__(self, name, arguments):
        data = LOADERS[name](arguments.data_home)
        train = np.asarray(data.train, dtype=np.float32)
        train = train[np.random.RandomState(0).permutation(len(train))]
        queries = np.asarray(data.query[: arguments.queries], dtype=np.float32)
        if arguments.valid:
            queries, train = train[:500], train[500:]
        train = train[: arguments.rows]
        self.rows = self.database = train
        if arguments.transfer:
            self.rows, self.database = np.array_split(train, 2)
        self.queries = queries
        self.truth = true_neighbors(queries, self.database, 10)

    def encode(self, n_bits, seed):
        is_wide = n_bits <= self.rows.shape[1]
        encoder = (ITQHash if is_wide else SGHEncoder)(n_bits, random_state=seed)
        encoder.fit(self.rows)
        self.bits = encoder.transform(self.rows)
        self.database_bits = encoder.transform(self.database)
        self.query_bits = encoder.transform(self.queries)

    def real_recall(self, decoded):
        """Share of the true neighbours among the first by decoded distance."""
        norms = np.square(decoded).sum(axis=1)
        scores = norms - 2 * self.queries @ decoded.T
        recalls = []
        for cut in CUTS:
            first = np.argpartition(scores, cut, axis=1)[:, :cut]
            found = [np.isin(*pair) for pair in zip(self.truth, first, strict=True)]
            recalls.append(np.mean(found))
        return recalls

    def hamming_recall(self, bits):
        return neighbor_recall_score(
            self.query_bits, bits, self.truth, n_retrieved=CUTS
        )


def print_row(*cells):
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_header(*cells):
    print()
    print_row(*cells)
    print_row(*["---"] * len(cells))


def measure(problem, decoder, is_refined=True):
    """Return the cells of one row: recalls, errors, seconds, bytes."""
    start = time.perf_counter()
    decoder.fit(problem.rows, problem.bits)
    seconds = time.perf_counter() - start
    bits, speed = problem.database_bits, ""
    if is_refined:
        start = time.perf_counter()
        bits = decoder.refine(problem.database, bits)
        speed = f"{len(bits) / (time.perf_counter() - start):,.0f}"
    decoded = decoder.inverse_transform(bits)
    error = np.square(problem.database - decoded).sum(axis=1, dtype=np.float64).mean()
    recalls = [*problem.real_recall(decoded), *problem.hamming_recall(bits)]
    recalls = [f"{recall:.3f}" for recall in recalls]
    return *recalls, f"{error:.4g}", f"{seconds:.1f}", speed


COLUMNS = (
    "real 10@10",
    "10@100",
    "Hamming 10@10",
    "10@100",
    "error",
    "fit s",
    "refined rows/s",
)


def print_blocks(problem, n_jobs):
    print_header("bits a block", "codes", *COLUMNS, "codebook MB")
    for block_bits in (1, 4, 8):
        plain = LinearDecoder(block_bits=block_bits, n_alternations=0, n_jobs=n_jobs)
        for name, decoder, is_refined in (
            ("as they are", plain, False),
            ("refined", plain, True),
            (
                "in turns",
                LinearDecoder(block_bits=block_bits, n_jobs=n_jobs),
                True,
            ),
        ):
            cells = measure(problem, decoder, is_refined)
            size = f"{decoder.codebook_.nbytes / 1e6:.2f}"
            print_row(block_bits, name, *cells, size)


def print_weights(problem, n_jobs):
    print_header("hamming_weight", *COLUMNS)
    for weight in WEIGHTS:
        decoder = LinearDecoder(hamming_weight=weight, n_jobs=n_jobs)
        print_row(weight, *measure(problem, decoder))


def print_searches(problem, n_jobs):
    print_header("changed", *COLUMNS)
    for parameters in SEARCHES:
        decoder = LinearDecoder(n_jobs=n_jobs, **parameters)
        name = ", ".join(f"{key}={value}" for key, value in parameters.items())
        print_row(name or "nothing", *measure(problem, decoder))


TABLES = {"blocks": print_blocks, "weights": print_weights, "search": print_searches}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", choices=LOADERS)
    parser.add_argument("--table", nargs="+", choices=TABLES, default=["blocks"])
    parser.add_argument("--bytes", type=int, nargs="+", default=[8])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--transfer", action="store_true")
    parser.add_argument("--valid", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--data-home")
    arguments = parser.parse_args()
    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, numpy "
        f"{np.__version__}, scikit-learn {sklearn.__version__}, skhash "
        f"{skhash.__version__}; n_jobs {arguments.n_jobs}, seed {arguments.seed}"
    )
    for name in arguments.data:
        problem = Problem(name, arguments)
        for n_bytes in arguments.bytes:
            problem.encode(8 * n_bytes, arguments.seed)
            print(
                f"\n{name}, {n_bytes} bytes: decoder from {len(problem.rows):,} rows, "
                f"database of {len(problem.database):,}, {len(problem.queries):,} "
                f"{'validation' if arguments.valid else 'test'} queries"
            )
            for table in arguments.table:
                TABLES[table](problem, arguments.n_jobs)


if __name__ == "__main__":
    main()
