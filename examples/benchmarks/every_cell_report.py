"""Tables and the picture of what `every_cell.py` measured."""

import statistics
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from growing_results import describe
from result_files import Table, save

OURS = "NeighborHash"
OWN = "not nested"
# How many true neighbours, among how many.
MEASURES = {"10@10": (10, 10), "10@100": (10, 100), "100@100": (100, 100)}
# From here on a method is ahead of another.
AHEAD = 0.01
# The most that nesting is to cost.
NESTING = 0.005
TITLES = {
    "fashion_mnist": "Fashion-MNIST images",
    "minilm": "MiniLM sentence embeddings",
    "glove": "GloVe word vectors",
    "digits": "digits, 8 x 8",
    "tfidf": "20 Newsgroups, tf-idf",
}
COLUMNS = 3  # of the picture
DUELS = {
    "recall": "",
    "bits": "",
    "best other": "",
    "its recall": ".3f",
    OURS: ".3f",
    "difference": "+.3f",
    "+-": ".3f",
}


def variant(change):
    """Return what `NeighborHash` with a change is called."""
    return f"{OURS}, {change}"


class Found:
    """Measurements of one part, "test" or "validation", by data set and length."""

    def __init__(self, content, part):
        self.cells = defaultdict(list)
        for name, cell in content["cells"].items():
            data, own_part, method, n_bits, _ = name.split("/")
            if own_part == part:
                self.cells[data, int(n_bits), method].append(cell)

    def data(self):
        return list(dict.fromkeys(data for data, *_ in self.cells))

    def lengths(self, data):
        return sorted({n_bits for name, n_bits, _ in self.cells if name == data})

    def methods(self, data, n_bits):
        """Return the methods that are there, in the order in which they were run."""
        return [method for *key, method in self.cells if key == [data, n_bits]]

    def changes(self):
        start = variant("")
        names = [name for *_, name in self.cells if name.startswith(start)]
        return list(dict.fromkeys(name.removeprefix(start) for name in names))

    def recalls(self, data, n_bits, method, view, measure):
        """Return the recalls of the seeds, none where it was not measured."""
        cells = self.cells.get((data, n_bits, method), [])
        return [cell["recalls"][view][measure] for cell in cells]

    def seconds(self, data, n_bits, method):
        """Return the median time of a fit, or None."""
        cells = self.cells.get((data, n_bits, method))
        return cells and statistics.median(cell["fit_seconds"] for cell in cells)


@dataclass(frozen=True)
class Duel:
    """`NeighborHash` and the best other in one cell.

    ``spread`` is half the range over the seeds, of the one where it is more.
    """

    data: str
    n_bits: int
    measure: str
    other: str
    other_recall: float
    recall: float
    spread: float

    @property
    def difference(self):
        return self.recall - self.other_recall

    @property
    def verdict(self):
        if self.difference >= AHEAD:
            return "ahead"
        return "level" if self.difference >= -self.spread else "behind"

    def cells(self):
        """Return what stands in a row of a table, but for the data."""
        recalls = self.other_recall, self.recall, self.difference
        return [self.measure, self.n_bits, self.other, *recalls, self.spread]


def duels(found, view):
    """Return one a cell, where `NeighborHash` and another were measured."""
    result = []
    for data in found.data():
        for measure in MEASURES:
            for n_bits in found.lengths(data):
                recalls = {
                    method: found.recalls(data, n_bits, method, view, measure)
                    for method in found.methods(data, n_bits)
                    if not method.startswith(variant(""))
                }
                ours = recalls.pop(OURS, None)
                if ours and recalls:
                    other = max(recalls, key=lambda name: np.mean(recalls[name]))
                    spread = max(np.ptp(ours), np.ptp(recalls[other])) / 2
                    means = np.mean(recalls[other]), np.mean(ours)
                    result.append(Duel(data, n_bits, measure, other, *means, spread))
    return result


def show(content):
    """Print all tables."""
    print(describe(content["head"]))
    tables, figures = tables_of(content)
    for name, table in tables.items():
        print(f"\n## {name}")
        table.printed()
    print("\n", figures)


def save_tables(content, path):
    """Save the tables for the documentation."""
    seeds = sorted({int(name.rsplit("/", 1)[1]) for name in content["cells"]})
    save(path, *tables_of(content), seeds=seeds, measured=content["head"])


def tables_of(content):
    """Return tables and single figures, those of validation by names that say so."""
    tables, figures = {}, {}
    for part, views in (("test", ["all"]), ("validation", ["all", "far"])):
        found = Found(content, part)
        for view in views if found.cells else []:
            start = {"test": "", "validation": f"validation_{view}_"}[part]
            own = duel_tables(duels(found, view))
            if found.changes():
                own["changes"], costs = change_table(found, view)
                figures |= {start + name: it for name, it in nesting(costs).items()}
            tables |= {start + name: table for name, table in own.items()}
        if found.cells:
            tables[f"{part}_seconds"] = seconds_table(found)
    if content["left_out"]:
        rows = [list(item) for item in content["left_out"].items()]
        tables["left_out"] = Table({"left out": "", "because": ""}, rows)
    return tables, figures


def duel_tables(cells):
    """Return a table a set, one of where `NeighborHash` is behind, and the counts."""
    tables = {}
    for data in dict.fromkeys(cell.data for cell in cells):
        own = [cell.cells() for cell in cells if cell.data == data]
        tables[data] = Table(DUELS, own)
    if cells:
        behind = [cell for cell in cells if cell.verdict == "behind"]
        rows = [[cell.data, *cell.cells()] for cell in behind]
        tables["behind"] = Table({"data": "", **DUELS}, rows)
        tables["counts"] = count_table(cells)
    return tables


def count_table(cells):
    columns = "data", f"ahead by {AHEAD} or more", "level"
    columns = dict.fromkeys([*columns, "behind by more than the spread"], "")
    rows = []
    for name in [*dict.fromkeys(cell.data for cell in cells), "all"]:
        verdicts = [cell.verdict for cell in cells if name in (cell.data, "all")]
        counts = [verdicts.count(word) for word in ("ahead", "level", "behind")]
        rows.append([name, *counts])
    return Table(columns, rows)


def change_table(found, view):
    """Return the recalls of `NeighborHash` and how those of its changes differ.

    Also returns the differences of fits that are not nested.
    """
    changes = found.changes()
    formats = {"data": "", "recall": "", "bits": "", OURS: ".3f"}
    table, costs = Table(formats | dict.fromkeys(changes, "+.3f")), []
    for data in found.data():
        for measure in MEASURES:
            for n_bits in found.lengths(data):
                task = data, n_bits
                ours = found.recalls(*task, OURS, view, measure)
                differences = {
                    change: difference(
                        found.recalls(*task, variant(change), view, measure), ours
                    )
                    for change in changes
                }
                row = [data, measure, n_bits, with_spread(ours)]
                table.rows.append([*row, *differences.values()])
                cost = differences.get(OWN)
                if cost is not None:
                    costs.append(cost[0] if isinstance(cost, list) else cost)
    return table, costs


def nesting(costs):
    """Return the most that fits of their own gain, and in how many cells they do."""
    if not costs:
        return {}
    n_more = sum(cost > NESTING for cost in costs)
    most, n_more = float(max(costs)), int(n_more)
    return {"own_most": most, "own_more": n_more, "own_cells": len(costs)}


def with_spread(recalls, less=0.0):
    """Return the mean less a number, with half the range where there are seeds."""
    if not recalls:
        return None
    mean = np.mean(recalls) - less
    return mean if len(recalls) == 1 else [mean, np.ptp(recalls) / 2]


def difference(recalls, ours):
    return with_spread(recalls, np.mean(ours)) if recalls and ours else None


def seconds_table(found):
    """Return seconds of fits beside ITQ's: of each length, and of all of them."""
    columns = {"ITQ fit s": ".2f", f"{OURS} fit s": ".2f", "ratio": ".1f"}
    table = Table({"data": "", "bits": "", **columns})
    for data in found.data():
        times, nested = [], None
        for n_bits in found.lengths(data):
            nested = found.seconds(data, n_bits, OURS) or nested
            itq = found.seconds(data, n_bits, "ITQ")
            own = found.seconds(data, n_bits, variant(OWN))
            table.rows.append([data, n_bits, *beside(itq, own)])
            times.append(itq)
        total = sum(times) if all(times) else None
        table.rows.append([data, "all, nested", *beside(total, nested)])
    return table


def beside(itq, ours):
    """Return the cells of two times and their ratio."""
    return itq, ours, ours / itq if itq and ours else None


def draw(content, path):
    """Draw recall 10@100 against bits, a panel a data set; bands are seeds' ranges."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    parts = [Found(content, part) for part in ("test", "validation")]
    found = next(part for part in parts if part.cells)
    drawn = {cell.other for cell in duels(found, "all") if cell.measure == "10@100"}
    names = dict.fromkeys(method for *_, method in found.cells)
    names = [OURS, *(name for name in names if name in drawn)]
    n_columns = min(COLUMNS, len(found.data()))
    n_rows = -(-len(found.data()) // n_columns)
    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(3.6 * n_columns + 1.8, 3.6 * n_rows),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    handles = {}
    for ax, data in zip(axes.flat, found.data(), strict=False):
        for number, name in enumerate(names):
            line = draw_curve(ax, found, data, name, f"C{number}")
            if line:
                handles[name] = line
        decorate(ax, data, found.lengths(data))
    for ax in axes.flat[len(found.data()) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set(ylabel="share of the 10 nearest in the first 100", ylim=(0, 1.02))
    figure.legend(handles.values(), handles, loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curve(ax, found, data, name, color):
    """Draw one method, and return its line, or None where it has no point."""
    lengths = [n for n in found.lengths(data) if name in found.methods(data, n)]
    if not lengths:
        return None
    runs = [found.recalls(data, n, name, "all", "10@100") for n in lengths]
    width = 3 if name == OURS else 1.4
    means = [np.mean(run) for run in runs]
    (line,) = ax.plot(lengths, means, "o-", color=color, linewidth=width, markersize=4)
    lowest, highest = [min(run) for run in runs], [max(run) for run in runs]
    ax.fill_between(lengths, lowest, highest, color=color, alpha=0.2, linewidth=0)
    return line


def decorate(ax, data, lengths):
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [str(n_bits) for n_bits in lengths])
    ax.minorticks_off()
    ax.set_xlabel("bits")
    ax.set_title(TITLES.get(data, data))
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
