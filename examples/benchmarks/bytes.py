"""Recall against bytes a vector: our codes beside faiss's quantisers.

    python examples/benchmarks/bytes.py --cells bytes.json --data-home DATA_HOME
    python examples/benchmarks/bytes.py --show bytes.json --picture bytes.png \\
        --output docs/results/bytes.md
    python examples/benchmarks/bytes.py --quick

Recall 10@N is the share of the ten exact nearest neighbours that are among the first N
of a search of all codes by real queries, without a second look at vectors. Neighbours
are those by Euclidean distance, which for rows of unit length (MiniLM, GloVe) are those
by cosine. On Fashion-MNIST everything is fitted to the first 30,000 images and searched
among the others; on MiniLM and digits the rows that are fitted are the database, on
GloVe a part of it. Queries have been seen by nothing.

Options of every method, the metric of a search of unit rows among them, are chosen by
10@10 of rows that are held out of the training part, with the first seed, at
``--choose-bytes`` bytes or the method's own. Each measurement is written to
``--cells`` when it is done, and what is there already is not measured again.

Bytes are counted all in: *code bytes* are what has to be kept of a vector, *search
bytes* what a search needs of it, with norms and factors (norms can be computed from the
codes), and the codebook is named beside. Seconds of fits and encoding are of the
processor.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import faiss
import joblib
import numpy as np
import torch
from bytes_methods import METHODS
from bytes_report import draw, tables_of
from growing_results import Results, describe, merged
from loaders import LOADERS
from result_files import add_output, save

from skhash.metrics import true_neighbors

CUTS = (10, 100)
N_NEIGHBORS = 10
N_VALIDATION = 1000  # queries, and at most a fifth of the rows
N_TRANSFER = 30_000
UNIT_ROWS = ("minilm", "glove", "glove_100k", "tfidf")
# Fitted to its first rows, and searched among the others.
TRANSFER = "fashion_mnist"


@dataclass
class Part:
    """Rows to fit, rows to search, queries, and their true neighbours."""

    train: np.ndarray
    database: np.ndarray
    queries: np.ndarray

    def __post_init__(self):
        for name in ("train", "database", "queries"):
            rows = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            setattr(self, name, rows)
        self.truth = true_neighbors(self.queries, self.database, N_NEIGHBORS)


class Collection:
    """The test of one data set, and its validation within the training part."""

    def __init__(self, name, data_home, n_queries):
        data, rng = LOADERS[name](data_home=data_home), np.random.default_rng(0)
        self.is_unit = name in UNIT_ROWS
        # Codes that tie are found in their order, which is to mean nothing.
        database = rng.permutation(data.database)
        train = data.train if len(data.train) < len(database) else database
        if name == TRANSFER:
            train, database = data.train[:N_TRANSFER], data.train[N_TRANSFER:]
        queries = rng.permutation(data.query)[:n_queries]
        self.test = Part(train, database, queries)
        rows = rng.permutation(train)
        n_queries = min(N_VALIDATION, len(rows) // 5)
        queries, rows = rows[:n_queries], rows[n_queries:]
        half = len(rows) // 2 if name == TRANSFER else 0
        self.validation = Part(rows[half:], rows[:half] if half else rows, queries)


def recalls(found, truth):
    """Return the share of true neighbours among the first so many found, by cut.

    found : (n_queries, n_found) positions, the nearest first; -1 is none.
    """
    is_true = (found[:, :, None] == truth[:, None, :]).any(axis=2)
    return {f"10@{n}": float(is_true[:, :n].sum() / truth.size) for n in CUTS}


def measure(index, part, seed):
    """Fit, encode and search; return what came of it."""
    train = np.random.default_rng(seed).permutation(part.train)
    start = time.process_time()
    index.fit(train)
    fitted = time.process_time()
    index.add(part.database)
    added = time.process_time()
    found = index.search(part.queries, min(max(CUTS), len(part.database)))
    return {
        "recalls": recalls(found, part.truth),
        "code_bytes": index.code_bytes,
        "memory_bytes": index.memory_bytes,
        "codebook_bytes": index.codebook_bytes,
        "fit_seconds": fitted - start,
        "encoded_per_second": len(part.database) / max(added - fitted, 1e-9),
    }


class Comparison:
    """Chooses options and measures, method by method."""

    def __init__(self, name, collection, results, arguments):
        self.name, self.collection = name, collection
        self.results, self.arguments = results, arguments

    def choose(self, method, n_bytes):
        """Return the options that find most validation rows."""
        n_features = self.collection.test.train.shape[1]
        is_unit, kind = self.collection.is_unit, METHODS[method]
        size = n_bytes and max(self.arguments.choose_bytes, kind.least_bytes)
        variants = kind.variants(n_features, size, is_unit)
        possible = kind.variants(n_features, n_bytes, is_unit)
        variants = [options for options in variants if options in possible]
        variants = variants or possible
        if len(variants) == 1:
            return variants[0]
        found = []
        for options in variants:
            name = f"{self.name}/validation/{method}/{size}/{json.dumps(options)}"
            cell = self.results.get(
                name, partial(self.measure, method, size, options, "validation")
            )
            if cell:
                found.append((cell["recalls"]["10@10"], options))
        return max(found, key=lambda pair: pair[0])[1] if found else variants[0]

    def measure(self, method, n_bytes, options, part, seed=None):
        part = getattr(self.collection, part)
        seed = self.arguments.seeds[0] if seed is None else seed
        n_features = part.train.shape[1]
        index = METHODS[method].make(n_features, n_bytes, seed, **options)
        cell = measure(index, part, seed)
        return {**cell, "options": options}

    def run(self):
        for method in self.arguments.methods:
            for n_bytes in self.sizes(method):
                options = self.choose(method, n_bytes)
                for seed in self.arguments.seeds:
                    name = f"{self.name}/test/{method}/{n_bytes}/{seed}"
                    task = method, n_bytes, options, "test", seed
                    make = partial(self.measure, *task)
                    self.results.get(name, make)

    def sizes(self, method):
        kind, width = METHODS[method], self.collection.test.train.shape[1]
        if kind.unit_only and not self.collection.is_unit:
            return []
        if kind.whole:
            return [None]
        return [n for n in self.arguments.bytes if kind.least_bytes <= n <= 4 * width]


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sets = ["minilm", "fashion_mnist", "glove_100k", "digits"]
    parser.add_argument("--sets", nargs="+", default=sets, choices=LOADERS)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--choose-bytes", type=int, default=8)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--queries", type=int, default=1000, help="at most")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--data-home")
    parser.add_argument("--quick", action="store_true", help="digits, one seed")
    parser.add_argument("--cells", type=Path, help="a JSON file that grows")
    parser.add_argument("--show", type=Path, nargs="+", help="such files, for tables")
    parser.add_argument("--picture", type=Path, help="a PNG to draw")
    add_output(parser)
    if parser.parse_args(arguments).quick:
        parser.set_defaults(sets=["digits"], bytes=[4, 8], seeds=[0])
    return parser.parse_args(arguments)


def main(arguments=None):
    arguments = parse(arguments)
    if arguments.show:
        content = merged(arguments.show)
    else:
        faiss.omp_set_num_threads(arguments.threads)
        torch.set_num_threads(arguments.threads)
        results = Results(arguments.cells)
        for name in arguments.sets:
            try:
                task = name, arguments.data_home, arguments.queries
                collection = Collection(*task)
            except FileNotFoundError as error:
                print(f"{name} is left out. {error}", file=sys.stderr)
                continue
            comparison = Comparison(name, collection, results, arguments)
            with joblib.parallel_config(n_jobs=arguments.threads):
                comparison.run()
        content = results.content
    print(describe(content["head"]))
    tables = tables_of(content)
    for table in tables.values():
        table.printed()
    tested = [name for name in content["cells"] if "/test/" in name]
    seeds = sorted({int(name.split("/")[4]) for name in tested})
    save(arguments.output, tables, seeds=seeds, measured=content["head"])
    if arguments.picture:
        draw(content, arguments.picture)


if __name__ == "__main__":
    main()
