"""Tables and the picture of what `every_cell.py` measured."""

import statistics
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from drawing import finish, panels, powers_of_two
from loaders import TITLES
from result_files import Table, columns, with_spread

OURS = "NeighborHash"
OWN = "not nested"
# How many true neighbours, among how many.
MEASURES = [(10, 10), (10, 100), (100, 100)]
NAMES = [f"{k}@{cut}" for k, cut in MEASURES]
# From here on a method is ahead of another.
AHEAD = 0.01
DUELS = columns(
    f"recall | bits | best other | its recall :.3f | {OURS} :.3f | "
    "difference :+.3f | +- :.3f"
)


def variant(change):
    """Return what `NeighborHash` with a change is called."""
    return f"{OURS}, {change}"


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
        return cells and statistics.median(cell["fit_seconds"] for cell in cells)

    def tasks(self):
        """Yield data set, measure and length, in the order of the tables."""
        for data in self.data:
            for measure in NAMES:
                for n_bits in self.lengths(data):
                    yield data, measure, n_bits


@dataclass(frozen=True)
class Duel:
    """`NeighborHash` and the best other in one cell.

    ``spread`` is half the range over the seeds, of the one where it is more.
    """

    data: str
    measure: str
    n_bits: int
    other: str
    other_recall: float
    recall: float
    spread: float

    @property
    def verdict(self):
        difference = self.recall - self.other_recall
        if difference >= AHEAD:
            return "ahead"
        return "level" if difference >= -self.spread else "behind"

    def cells(self):
        """Return a row of a table, but for the data."""
        recalls = self.other_recall, self.recall, self.recall - self.other_recall
        return [self.measure, self.n_bits, self.other, *recalls, self.spread]


def duels(found):
    """Return one a cell, where `NeighborHash` and another were measured."""
    result = []
    for data, measure, n_bits in found.tasks():
        recalls = {it: found.recalls(data, n_bits, it, measure) for it in found.methods}
        recalls = {name: values for name, values in recalls.items() if values}
        ours = recalls.pop(OURS, None)
        if ours and recalls:
            other = max(recalls, key=lambda name: np.mean(recalls[name]))
            spread = max(np.ptp(ours), np.ptp(recalls[other])) / 2
            means = np.mean(recalls[other]), np.mean(ours)
            result.append(Duel(data, measure, n_bits, other, *means, spread))
    return result


def tables_of(content):
    """Return the tables by their captions."""
    tables = {}
    for part in ("test", "validation"):
        found = Found(content, part)
        if cells := duels(found):
            tables["Cells"] = count_table(cells)
            behind = [cell for cell in cells if cell.verdict == "behind"]
            for data in found.data:
                own = [cell.cells() for cell in cells if cell.data == data]
                tables[TITLES[data]] = Table(DUELS, own)
            rows = [[cell.data, *cell.cells()] for cell in behind]
            tables["The cells where it is behind"] = Table({"data": "", **DUELS}, rows)
        if found.changes:
            what = "how it differs with a change"
            if part == "test":
                what = "how much more a fit of its own has"
            tables[f"Recall, and {what}"] = change_table(found)
        if found.cells:
            tables["Seconds of a fit"] = seconds_table(found)
    rows = [list(item) for item in content["left_out"].items()]
    tables["Left out"] = Table({"left out": "", "because": ""}, rows)
    return tables


def count_table(cells):
    names = f"data | ahead by {AHEAD} or more | level | behind by more than the spread"
    table = Table(columns(names))
    for name in [*dict.fromkeys(cell.data for cell in cells), "all"]:
        verdicts = [cell.verdict for cell in cells if name in (cell.data, "all")]
        counts = [verdicts.count(word) for word in ("ahead", "level", "behind")]
        table.rows.append([name, *counts])
    return table


def change_table(found):
    """Return the recalls of `NeighborHash` and how those of its changes differ."""
    formats = {"data": "", "recall": "", "bits": "", OURS: ".3f"}
    table = Table(formats | dict.fromkeys(found.changes, "+.3f"))
    for data, measure, n_bits in found.tasks():
        ours = found.recalls(data, n_bits, OURS, measure)
        row = [data, measure, n_bits, with_spread(ours)]
        for change in found.changes:
            changed = found.recalls(data, n_bits, variant(change), measure)
            row.append(with_spread(changed, np.mean(ours)) if ours else None)
        table.rows.append(row)
    return table


def seconds_table(found):
    """Return seconds of fits beside ITQ's: of each length, and of all of them."""
    names = f"data | bits | ITQ fit s :.2f | {OURS} fit s :.2f | ratio :.1f"
    table = Table(columns(names))
    for data in found.data:
        lengths = found.lengths(data)
        itq, own, nested = (
            [found.seconds(data, n_bits, method) for n_bits in lengths]
            for method in ("ITQ", variant(OWN), OURS)
        )
        rows = [*zip(lengths, itq, own, strict=True)]
        rows.append(("all, nested", sum(itq) if all(itq) else None, nested[-1]))
        for bits, theirs, ours in rows:
            ratio = ours / theirs if ours and theirs else None
            table.rows.append([data, bits, theirs, ours, ratio])
    return table


def draw(content, path):
    """Draw recall 10@100 against bits, a panel a data set; bands are seeds' ranges."""
    found = Found(content, "test")
    drawn = {cell.other for cell in duels(found) if cell.measure == "10@100"}
    names = [OURS, *(name for name in found.methods if name in drawn)]
    titles = [TITLES[data] for data in found.data]
    figure, axes = panels(titles, size=(3.6, 3.6), sharey=True)
    for ax, data in zip(axes, found.data, strict=True):
        for name in names:
            runs = {
                n: found.recalls(data, n, name, "10@100") for n in found.lengths(data)
            }
            runs = {n: run for n, run in runs.items() if run}
            width = 3 if name == OURS else 1.4
            means = list(map(np.mean, runs.values()))
            (line,) = ax.plot(list(runs), means, "o-", linewidth=width, label=name)
            ranges = list(map(min, runs.values())), list(map(max, runs.values()))
            ax.fill_between(list(runs), *ranges, color=line.get_color(), alpha=0.2)
        powers_of_two(ax, found.lengths(data))
        ax.set(xlabel="bits", ylabel="10 nearest in the first 100", ylim=(0, 1.02))
        ax.label_outer()
    finish(figure, path)
