"""Recall of the encoders of real vectors in every cell, beside `NeighborHash`.

    python examples/benchmarks/every_cell.py --output cells.json
    python examples/benchmarks/every_cell.py --ablation --output validation.json
    python examples/benchmarks/every_cell.py --show cells.json --picture cells.svg \\
        --results docs/results/every_cell.md

A cell is a data set, a length and a recall: K@N is the share of the K exact nearest
neighbours among the first N by Hamming distance, in expectation over the order of ties.
All rows of the database are given to ``fit``, and nothing has seen the queries. Every
encoder has its defaults, and makes the lengths that it can. `NeighborHash` is fitted
once a seed, at the longest length with the others nested, and cut. ``--ablation``
measures it with one parameter changed at a time, with queries that are cut from the
database, the same ones each time: these are the rows to choose anything on.

Seconds of a fit are those of the clock, all being imported and compiled before. The
last line of a data set adds up ITQ's, where it makes all lengths, beside the one fit of
a nested `NeighborHash`.

After a change to the library start a new file.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import median

import numpy as np
import tools

from skhash import ITQHash, NeighborHash, PCAHash, SGHEncoder, linear
from skhash.metrics import neighbor_recall_score, true_neighbors

OURS = "NeighborHash"
OWN = "not nested"
# The queries are fitted too, and not searched: what new rows lose.
SEEN = "queries fitted"
# How many true neighbours, among how many.
MEASURES = [(10, 10), (10, 100), (100, 100)]
NAMES = [f"{k}@{cut}" for k, cut in MEASURES]
# From here on a method is ahead of another.
AHEAD = 0.02
DUELS = (
    f"recall | bits | best other | its recall :.3f | {OURS} :.3f | "
    "difference :+.3f | +- :.3f"
)


def variant(change):
    """Return what `NeighborHash` with a change is called."""
    return f"{OURS}, {change}"


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
# Changes of --ablation, one at a time.
CHANGES = {
    OWN: {"nested": False},
    SEEN: {},
    "linear": {"hidden_layer_sizes": ()},
    "1024 units": {"hidden_layer_sizes": (1024,)},
    "5 neighbours": {"n_neighbors": 5},
    "batches of 256": {"batch_size": 256},
    "twice as hot": {"temperature": 0.48},
    "no decay": {"weight_decay": 0.0},
    "no distances": {"distance_weight": 0.0},
    "no reconstruction": {"reconstruction_weight": 0.0},
}
VARIANTS = {OURS: {}} | {variant(name): it for name, it in CHANGES.items()}
N_VALIDATION = 1500  # queries, and at most a fifth of the rows
# A first fit before the timed one, so that all is imported and compiled.
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


class Fits:
    """Encoders fitted to rows when they are asked for, with the seconds of the fit.

    Those that are nested are fitted once a seed, at the longest length, and cut.
    """

    def __init__(self, task, lengths):
        self.task, self.lengths = task, sorted(lengths)
        self.warm, self.kept = set(), {}

    def get(self, method, n_bits, seed):
        if method not in VARIANTS or "nested" in VARIANTS[method]:
            return self.fit(method, n_bits, seed)
        if (method, seed) not in self.kept:  # the last one only: these are large
            self.kept = {(method, seed): self.fit(method, self.lengths[-1], seed)}
        encoder, seconds = self.kept[method, seed]
        return encoder.truncate(n_bits), seconds

    def fit(self, method, n_bits, seed):
        if method not in self.warm:
            self.make(method, WARM_BITS, seed).fit(self.task.rows[:WARM_ROWS])
            self.warm.add(method)
        rows = self.task.rows
        if method == variant(SEEN):
            rows = np.concatenate([rows, self.task.queries])
        seconds, encoder = tools.seconds_of(self.make(method, n_bits, seed).fit, rows)
        return encoder, seconds

    def make(self, method, n_bits, seed):
        options = {}
        if method in VARIANTS:
            options = {"nested": self.lengths, **VARIANTS[method]}
        return OTHERS.get(method, NeighborHash)(n_bits, random_state=seed, **options)


def recalls(encoder, task):
    """Return the recalls by their names."""
    codes = [encoder.transform_packed(rows) for rows in (task.queries, task.rows)]
    recall = partial(neighbor_recall_score, *codes, packed=True)
    return {
        f"{k}@{cut}": float(recall(task.truth[:, :k], n_retrieved=cut))
        for k, cut in MEASURES
    }


def measure(task, fits, method, n_bits, seed):
    """Fit and search; return what came of it."""
    encoder, seconds = fits.get(method, n_bits, seed)
    found = {"recalls": recalls(encoder, task), "fit_seconds": seconds}
    return {**found, "lengths": fits.lengths}


def run(name, arguments, results):
    """Measure all methods at all lengths on one data set."""
    check_lengths(results, arguments.bits)
    data = tools.LOADERS[name](data_home=arguments.data_home)
    task = Task(*map(np.float32, (data.database, data.query)))
    part, methods = "test", arguments.methods
    if arguments.ablation is not None:
        task, part = task.validation(), "validation"
        methods = [OURS, *map(variant, arguments.ablation or CHANGES)]
    fits = Fits(task, arguments.bits)
    for method in methods:
        for seed in arguments.seeds:
            for n_bits in arguments.bits:
                if method not in SHORT or n_bits <= task.rows.shape[1]:
                    cell = f"{name}/{part}/{method}/{n_bits}/{seed}"
                    make = partial(measure, task, fits, method, n_bits, seed)
                    results.get(cell, make)


def check_lengths(results, lengths):
    """Refuse to continue with codes that are cut from others."""
    for cell in results.content["cells"].values():
        if cell["lengths"] != sorted(lengths):
            raise SystemExit(
                f"{results.path} holds codes of the lengths {cell['lengths']}, nested: "
                "give the same --bits, or another --output."
            )


# Tables and the picture


class Found:
    """The cells of one part, "test" or "validation", by data set, length and method."""

    def __init__(self, content, part):
        self.cells = defaultdict(list)
        for name, cell in content["cells"].items():
            data, own_part, method, n_bits, _ = name.split("/")
            if own_part == part:
                self.cells[data, int(n_bits), method].append(cell)
        self.data = list(dict.fromkeys(data for data, *_ in self.cells))
        names = dict.fromkeys(method for *_, method in self.cells)
        start = variant("")
        self.changes = [it[len(start) :] for it in names if it.startswith(start)]
        self.methods = [name for name in names if not name.startswith(start)]

    def lengths(self, data):
        return sorted({n_bits for name, n_bits, _ in self.cells if name == data})

    def recalls(self, data, n_bits, method, measure):
        """Return the recalls of the seeds, none where it was not measured."""
        cells = self.cells.get((data, n_bits, method), [])
        return [cell["recalls"][measure] for cell in cells]

    def seconds(self, data, n_bits, method):
        """Return the median time of a fit, or None."""
        cells = self.cells.get((data, n_bits, method))
        return cells and median(cell["fit_seconds"] for cell in cells)

    def tasks(self):
        """Yield data set, measure and length, in the order of the tables."""
        for data in self.data:
            for measure in NAMES:
                for n_bits in self.lengths(data):
                    yield data, measure, n_bits


def duels(found):
    """Return a row for each cell where `NeighborHash` and another were measured.

    Its columns are "data" and those of `DUELS`. The spread is half the range over the
    seeds, of the one where it is more.
    """
    rows = []
    for data, measure, n_bits in found.tasks():
        recalls = {it: found.recalls(data, n_bits, it, measure) for it in found.methods}
        recalls = {name: values for name, values in recalls.items() if values}
        ours = recalls.pop(OURS, None)
        if ours and recalls:
            other = max(recalls, key=lambda name: np.mean(recalls[name]))
            spread = max(np.ptp(ours), np.ptp(recalls[other])) / 2
            theirs, mean = np.mean(recalls[other]), np.mean(ours)
            cells = measure, n_bits, other, theirs, mean, mean - theirs, spread
            rows.append([data, *cells])
    return rows


def verdict(row):
    """Return what a duel says."""
    difference, spread = row[-2:]
    if difference >= AHEAD:
        return "ahead"
    return "level" if difference >= -spread else "behind"


def tables_of(content):
    """Return the tables by their captions."""
    tables = {}
    for part in ("test", "validation"):
        found = Found(content, part)
        if rows := duels(found):
            tables["Cells"] = count_table(rows)
            for data in found.data:
                own = [row[1:] for row in rows if row[0] == data]
                tables[tools.TITLES[data]] = tools.Table(DUELS, own)
            behind = [row for row in rows if verdict(row) == "behind"]
            behind = tools.Table(f"data | {DUELS}", behind)
            tables["The cells where it is behind"] = behind
        if found.changes:
            tables["Recall, and how it differs with a change"] = change_table(found)
        if found.cells:
            tables["Seconds of a fit"] = seconds_table(found)
    rows = [list(item) for item in content["left_out"].items()]
    tables["Left out"] = tools.Table("left out | because", rows)
    return tables


def count_table(rows):
    names = f"data | ahead by {AHEAD} or more | level | behind by more than the spread"
    table = tools.Table(names)
    for name in [*dict.fromkeys(row[0] for row in rows), "all"]:
        verdicts = [verdict(row) for row in rows if name in (row[0], "all")]
        counts = [verdicts.count(word) for word in ("ahead", "level", "behind")]
        table.rows.append([name, *counts])
    return table


def change_table(found):
    """Return the recalls of `NeighborHash` and how those of its changes differ."""
    formats = {"data": "", "recall": "", "bits": "", OURS: ".3f"}
    table = tools.Table(formats | dict.fromkeys(found.changes, "+.3f"))
    for data, measure, n_bits in found.tasks():
        ours = found.recalls(data, n_bits, OURS, measure)
        row = [data, measure, n_bits, tools.with_spread(ours)]
        for change in found.changes:
            changed = found.recalls(data, n_bits, variant(change), measure)
            row.append(tools.with_spread(changed, np.mean(ours)) if ours else None)
        table.rows.append(row)
    return table


def seconds_table(found):
    """Return seconds of fits beside ITQ's: of each length, and of all of them."""
    names = f"data | bits | ITQ fit s :.2f | {OURS} fit s :.2f | ratio :.1f"
    table = tools.Table(names)
    for data in found.data:
        lengths = found.lengths(data)
        itq, own, nested = (
            [found.seconds(data, n_bits, method) for n_bits in lengths]
            for method in ("ITQ", variant(OWN), OURS)
        )
        names = [*lengths, "all (ITQ: sum of the fits)"]
        itq, own = [*itq, sum(itq) if all(itq) else None], [*own, nested[-1]]
        for bits, theirs, ours in zip(names, itq, own, strict=True):
            ratio = ours / theirs if ours and theirs else None
            table.rows.append([data, bits, theirs, ours, ratio])
    return table


def draw(content, path):
    """Draw recall 10@100 against bits, a panel a data set; bands are seeds' ranges."""
    found = Found(content, "test")
    drawn = {row[3] for row in duels(found) if row[1] == "10@100"}
    names = [OURS, *(name for name in found.methods if name in drawn)]
    titles = [tools.TITLES[data] for data in found.data]
    figure, axes = tools.panels(titles, size=(3.6, 3.6), sharey=True)
    for ax, data in zip(axes, found.data, strict=True):
        lengths = found.lengths(data)
        for name in names:
            recalls = {n: found.recalls(data, n, name, "10@100") for n in lengths}
            bits = [n for n in lengths if recalls[n]]
            least, means, most = (
                [reduce(recalls[n]) for n in bits] for reduce in (min, np.mean, max)
            )
            width = 3 if name == OURS else 1.4
            (line,) = ax.plot(bits, means, "o-", linewidth=width, label=name)
            ax.fill_between(bits, least, most, color=line.get_color(), alpha=0.2)
        tools.powers_of_two(ax, lengths)
        ax.set(xlabel="bits", ylabel="10 nearest in the first 100", ylim=(0, 1.02))
        ax.label_outer()
    tools.finish(figure, path)


def main():
    data = {"data": [name for name in tools.LOADERS if name != "glove_100k"]}
    data |= {"bits": [8, 16, 32, 64, 128, 256, 512], "seeds": [0, 1, 2]}
    methods = {OURS: NeighborHash, **OTHERS}
    parser = tools.options(__doc__, grows=True, **data, methods=methods, picture=None)
    what = "NeighborHash as it is and changed, by default in all ways, on validation"
    parser.add_argument("--ablation", nargs="*", choices=CHANGES, help=what)
    arguments = parser.parse_args()
    content = tools.content_of(arguments, arguments.data, run)
    seeds = sorted({int(name.rsplit("/", 1)[1]) for name in content["cells"]})
    tools.print_and_save(tables_of(content), content, arguments.results, seeds=seeds)
    if arguments.picture:
        draw(content, arguments.picture)


if __name__ == "__main__":
    main()
