"""Recall of the encoders of real vectors in every cell, beside `NeighborHash`.

    python examples/benchmarks/every_cell.py --own --cells cells.json
    python examples/benchmarks/every_cell.py --ablation --cells validation.json
    python examples/benchmarks/every_cell.py --show cells.json --picture cells.png \\
        --output docs/results/every_cell.md

A cell is a data set, a length and a recall: K@N is the share of the K exact nearest
neighbours among the first N by Hamming distance, in expectation over the order of ties.
All rows of the database are given to ``fit``, and nothing has seen the queries. Every
encoder has its defaults, and makes the lengths that it can. `NeighborHash` is fitted
once a seed, at the longest length with the others nested, and cut; with ``--own`` also
once a length. ``--ablation`` measures it with one parameter changed at a time, with
queries that are cut from the database, the same ones each time: these are the rows to
choose anything on.

Seconds of a fit are those of the clock, all being imported and compiled before. The
last line of a data set adds up ITQ's, where it makes all lengths, beside the one fit of
a nested `NeighborHash`.

Each measurement is written to ``--cells`` when it is done, and what is there already
is not measured again: after a change to the library start a new file.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from every_cell_report import MEASURES, OURS, OWN, draw, tables_of, variant
from growing_results import Results, describe, merged
from loaders import LOADERS
from result_files import add_output, save
from timing import seconds_of

from skhash import ITQHash, NeighborHash, PCAHash, SGHEncoder, linear
from skhash.metrics import neighbor_recall_score, true_neighbors

OTHERS = {
    "ITQ": ITQHash,
    "PCA": PCAHash,
    "SGH": SGHEncoder,
    "random": linear.RandomHyperplaneHash,
    "spectral": linear.SpectralHash,
    "spherical": linear.SphericalHash,
    "scalable graph": linear.ScalableGraphHash,
    "KMH": linear.KMeansHash,
    "binary autoencoder": linear.BinaryAutoencoderHash,
}
# These make at most a bit a column.
SHORT = ("ITQ", "PCA", "KMH", "binary autoencoder")
# What --ablation changes, one at a time.
CHANGES = {
    OWN: {"nested": False},
    "5 neighbours": {"n_neighbors": 5},
    "constant step": {"lr_schedule": None},
    "straight through": {"gradient": "det_st"},
    "no distances": {"distance_weight": 0.0},
    "no reconstruction": {"reconstruction_weight": 0.0},
}
VARIANTS = {OURS: {}} | {variant(name): it for name, it in CHANGES.items()}
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
        return true_neighbors(self.queries, self.rows, max(k for k, _ in MEASURES))

    def validation(self):
        """Return a task within the rows."""
        rows = np.random.default_rng(0).permutation(self.rows)
        n_queries = min(N_VALIDATION, len(rows) // 5)
        return Task(rows[n_queries:], rows[:n_queries])


def load(name, data_home):
    data = LOADERS[name](data_home=data_home)
    return Task(*(np.asarray(it, np.float32) for it in (data.database, data.query)))


class Fits:
    """Encoders fitted to rows when they are asked for, with the seconds of the fit.

    Those that are nested are fitted once a seed, at the longest length, and cut.
    """

    def __init__(self, rows, lengths):
        self.rows, self.lengths = rows, sorted(lengths)
        self.warm, self.kept = set(), {}

    def get(self, method, n_bits, seed):
        if VARIANTS.get(method, {"nested": False}).get("nested") is False:
            return self.fit(method, n_bits, seed)
        if (method, seed) not in self.kept:  # the last one only: these are large
            self.kept = {(method, seed): self.fit(method, self.lengths[-1], seed)}
        encoder, seconds = self.kept[method, seed]
        return encoder.truncate(n_bits), seconds

    def fit(self, method, n_bits, seed):
        if method not in self.warm:
            self.make(method, WARM_BITS, seed).fit(self.rows[:WARM_ROWS])
            self.warm.add(method)
        seconds, encoder = seconds_of(self.make(method, n_bits, seed).fit, self.rows)
        return encoder, seconds

    def make(self, method, n_bits, seed):
        if method in OTHERS:
            return OTHERS[method](n_bits, random_state=seed)
        options = {"nested": self.lengths, **VARIANTS[method]}
        return NeighborHash(n_bits, random_state=seed, **options)


def recalls(encoder, task):
    """Return the recalls by their names."""
    codes = [encoder.transform_packed(rows) for rows in (task.queries, task.rows)]
    return {
        f"{k}@{cut}": float(
            neighbor_recall_score(
                *codes, task.truth[:, :k], n_retrieved=cut, packed=True
            )
        )
        for k, cut in MEASURES
    }


def measure(task, fits, method, n_bits, seed):
    """Fit and search; return what came of it."""
    encoder, seconds = fits.get(method, n_bits, seed)
    found = {"recalls": recalls(encoder, task), "fit_seconds": seconds}
    return {**found, "lengths": fits.lengths}


def run(name, arguments, results):
    """Measure all methods at all lengths on one data set."""
    task, part = load(name, arguments.data_home), "test"
    methods = [*arguments.methods, *([variant(OWN)] if arguments.own else [])]
    if arguments.ablation is not None:
        task, part = task.validation(), "validation"
        methods = [OURS, *map(variant, arguments.ablation or CHANGES)]
    fits = Fits(task.rows, arguments.bits)
    for method in methods:
        for seed in arguments.seeds:
            for n_bits in arguments.bits:
                if method not in SHORT or n_bits <= task.rows.shape[1]:
                    cell = f"{name}/{part}/{method}/{n_bits}/{seed}"
                    make = partial(measure, task, fits, method, n_bits, seed)
                    results.get(cell, make)


def check_lengths(results, lengths):
    """Refuse to go on with codes that are cut from others."""
    for cell in results.content["cells"].values():
        if cell["lengths"] != sorted(lengths):
            raise SystemExit(
                f"{results.path} holds codes of the lengths {cell['lengths']}, nested: "
                "give the same --bits, or another --cells."
            )


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = [name for name in LOADERS if name != "glove_100k"]
    bits = [8, 16, 32, 64, 128, 256, 512]
    parser.add_argument("--data", nargs="+", default=data, choices=LOADERS)
    parser.add_argument("--bits", type=int, nargs="+", default=bits)
    parser.add_argument("--methods", nargs="+", default=[OURS, *OTHERS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data-home")
    parser.add_argument("--own", action="store_true", help="also a fit of each length")
    what = "NeighborHash as it is and changed, by default in all ways, on validation"
    parser.add_argument("--ablation", nargs="*", choices=CHANGES, help=what)
    parser.add_argument("--cells", type=Path, help="a JSON file that grows")
    parser.add_argument("--show", type=Path, nargs="+", help="such files, for tables")
    parser.add_argument("--picture", type=Path, help="a PNG to draw")
    add_output(parser)
    return parser.parse_args(arguments)


def main(arguments=None):
    arguments = parse(arguments)
    if arguments.show:
        content = merged(arguments.show)
    else:
        results = Results(arguments.cells)
        check_lengths(results, arguments.bits)
        for name in arguments.data:
            try:
                run(name, arguments, results)
            except FileNotFoundError as error:
                print(f"{name} is left out. {error}", file=sys.stderr)
        content = results.content
    print(describe(content["head"]))
    tables = tables_of(content)
    for table in tables.values():
        table.printed()
    seeds = sorted({int(name.rsplit("/", 1)[1]) for name in content["cells"]})
    save(arguments.output, tables, seeds=seeds, measured=content["head"])
    if arguments.picture:
        draw(content, arguments.picture)


if __name__ == "__main__":
    main()
