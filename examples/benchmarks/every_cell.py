"""Recall of the encoders of real vectors in every cell, beside `NeighborHash`.

    python examples/benchmarks/every_cell.py --own --output cells.json
    python examples/benchmarks/every_cell.py --validation --output validation.json
    python examples/benchmarks/every_cell.py --ablation --output validation.json
    python examples/benchmarks/every_cell.py --show cells.json --picture cells.png \\
        --output docs/results/every_cell.json

A cell is a data set, a length and a recall: K@N is the share of the K exact nearest
neighbours among the first N by Hamming distance, in expectation over the order of ties.
All rows of the database are given to ``fit``, and nothing has seen the queries. Every
encoder has its defaults, and makes the lengths that it can. `NeighborHash` is fitted
once a seed, at the longest length with the others nested, and cut; with ``--own`` also
once a length. ``--ablation`` measures it with one parameter changed at a time.

With ``--validation``, and always with ``--ablation``, queries are cut from the database
instead, the same ones each time. These are the rows to choose anything on. Tables are
then printed for the "far" half of the queries, too: those whose nearest row is farther
than that of the median query.

Seconds of a fit are those of the clock, all being imported and compiled before. The
last line of a data set adds up ITQ's, where it makes all lengths, beside the one fit of
a nested `NeighborHash`.

Each measurement is written to ``--output`` when it is done, and what is there already
is not measured again: after a change to the library start a new file.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from every_cell_report import MEASURES, OURS, OWN, draw, save_tables, show, variant
from growing_results import Results, merged
from l2nns import LOADERS, METHODS, methods_for

from skhash import NeighborHash
from skhash.metrics import neighbor_recall_score, true_neighbors

DATA = ("fashion_mnist", "minilm", "glove", "digits", "tfidf")
OTHERS = (
    *("ITQ", "PCA", "SGH", "random", "spectral", "spherical", "scalable graph"),
    *("KMH", "binary autoencoder"),
)
# What --ablation changes, one at a time.
CHANGES = {
    OWN: {"nested": False},
    "5 neighbours": {"n_neighbors": 5},
    "constant step": {"lr_schedule": None},
    "straight through": {"gradient": "det_st"},
    "no distances": {"distance_weight": 0.0},
    "no reconstruction": {"reconstruction_weight": 0.0},
}
N_VALIDATION = 1500  # queries, and at most a fifth of the rows
# What is fitted before a fit is timed, so that all is imported and compiled.
WARM_ROWS, WARM_BITS = 300, 8


@dataclass(frozen=True)
class Task:
    """Rows to fit and to search, and queries."""

    rows: np.ndarray
    queries: np.ndarray

    @cached_property
    def truth(self):
        n_neighbors = max(k for k, _ in MEASURES.values())
        return true_neighbors(self.queries, self.rows, n_neighbors)

    @cached_property
    def is_far(self):
        """Whether a query's nearest row is farther than that of the median query."""
        nearest = self.rows[self.truth[:, 0]]
        distances = np.linalg.norm(self.queries - nearest, axis=1)
        return distances > np.median(distances)

    def validation(self):
        """Return a task within the rows."""
        rows = np.random.default_rng(0).permutation(self.rows)
        n_queries = min(N_VALIDATION, len(rows) // 5)
        return Task(rows[n_queries:], rows[:n_queries])


def load(name, data_home):
    data = LOADERS[name](data_home=data_home)
    return Task(*(np.asarray(it, np.float32) for it in (data.database, data.query)))


def changes_of(method):
    """Return the parameters that are changed, or None of another method."""
    changes = {OURS: {}} | {variant(name): it for name, it in CHANGES.items()}
    return changes.get(method)


class Fits:
    """Encoders fitted to rows when they are asked for, with the seconds that it took.

    Those that are nested are fitted once a seed, at the longest length, and cut.
    """

    def __init__(self, rows, lengths):
        self.rows, self.lengths = rows, sorted(lengths)
        self.warm, self.kept = set(), {}

    def is_cut(self, method):
        changes = changes_of(method)
        return changes is not None and changes.get("nested") is not False

    def get(self, method, n_bits, seed):
        if not self.is_cut(method):
            return self.fit(method, n_bits, seed)
        if (method, seed) not in self.kept:  # the last one only: these are large
            self.kept = {(method, seed): self.fit(method, self.lengths[-1], seed)}
        encoder, seconds = self.kept[method, seed]
        return encoder.truncate(n_bits), seconds

    def fit(self, method, n_bits, seed):
        if method not in self.warm:
            self.make(method, WARM_BITS, seed).fit(self.rows[:WARM_ROWS])
            self.warm.add(method)
        encoder = self.make(method, n_bits, seed)
        start = time.perf_counter()
        encoder.fit(self.rows)
        return encoder, time.perf_counter() - start

    def make(self, method, n_bits, seed):
        changes = changes_of(method)
        if changes is None:
            return METHODS[method](n_bits, random_state=seed)
        options = {"nested": self.lengths, **changes}
        return NeighborHash(n_bits, random_state=seed, **options)


def recalls(encoder, task):
    """Return the recalls of all queries and of the far ones."""
    queries = encoder.transform_packed(task.queries)
    rows = encoder.transform_packed(task.rows)
    shares = {}
    for k in sorted({k for k, _ in MEASURES.values()}):
        names = [name for name, (own, _) in MEASURES.items() if own == k]
        cuts = [MEASURES[name][1] for name in names]
        columns = neighbor_recall_score(
            queries,
            rows,
            task.truth[:, :k],
            n_retrieved=cuts,
            packed=True,
            average=None,
        ).T
        shares |= dict(zip(names, columns, strict=True))
    parts = {"all": slice(None), "far": task.is_far}
    return {
        part: {name: float(share[chosen].mean()) for name, share in shares.items()}
        for part, chosen in parts.items()
    }


def measure(task, fits, method, n_bits, seed):
    """Fit and search; return what came of it."""
    encoder, seconds = fits.get(method, n_bits, seed)
    return {
        "recalls": recalls(encoder, task),
        "fit_seconds": seconds,
        "lengths": fits.lengths if fits.is_cut(method) else None,
    }


def run(name, arguments, results):
    """Measure all methods at all lengths on one data set."""
    task, part = load(name, arguments.data_home), "test"
    if arguments.validation or arguments.ablation is not None:
        task, part = task.validation(), "validation"
    fits = Fits(task.rows, arguments.bits)
    for method in methods(arguments):
        for seed in arguments.seeds:
            for n_bits in arguments.bits:
                if methods_for(n_bits, task.rows.shape[1], [method]):
                    cell = f"{name}/{part}/{method}/{n_bits}/{seed}"
                    make = partial(measure, task, fits, method, n_bits, seed)
                    results.get(cell, make)


def methods(arguments):
    """Return what is measured, in this order."""
    if arguments.ablation is not None:
        return [OURS, *map(variant, arguments.ablation or CHANGES)]
    own = [variant(OWN)] if arguments.own else []
    return [*arguments.methods, *own]


def check_lengths(results, lengths):
    """Refuse to go on with codes that are cut from others."""
    for cell in results.content["cells"].values():
        if cell["lengths"] not in (None, sorted(lengths)):
            raise SystemExit(
                f"{results.path} holds codes of the lengths {cell['lengths']}, nested: "
                "give the same --bits, or another --output."
            )


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = (OURS, *OTHERS)
    bits = [8, 16, 32, 64, 128, 256, 512]
    parser.add_argument("--data", nargs="+", default=DATA, choices=LOADERS)
    parser.add_argument("--bits", type=int, nargs="+", default=bits)
    parser.add_argument("--methods", nargs="+", default=known, choices=known)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data-home")
    parser.add_argument("--own", action="store_true", help="also a fit of each length")
    parser.add_argument("--validation", action="store_true", help="queries to tune on")
    parser.add_argument(
        "--ablation",
        nargs="*",
        choices=CHANGES,
        help="NeighborHash as it is and changed, by default in all ways, on validation",
    )
    parser.add_argument(
        "--output", type=Path, help="a JSON file that grows; with --show, of the tables"
    )
    parser.add_argument("--show", type=Path, nargs="+", help="such files, for tables")
    parser.add_argument("--picture", type=Path, help="a PNG to draw")
    return parser.parse_args(arguments)


def main(arguments=None):
    arguments = parse(arguments)
    if arguments.show:
        content = merged(arguments.show)
        save_tables(content, arguments.output)
    else:
        results = Results(arguments.output)
        check_lengths(results, arguments.bits)
        for name in arguments.data:
            try:
                run(name, arguments, results)
            except FileNotFoundError as error:
                print(f"{name} is left out. {error}", file=sys.stderr)
        content = results.content
    show(content)
    if arguments.picture:
        draw(content, arguments.picture)


if __name__ == "__main__":
    main()
