"""Tables, verdicts and a picture of what `st_estimators.py` has measured so far::

    python examples/benchmarks/st_estimators_report.py FILE ... --picture-folder DIR

Several files are read as one. "Early" is the first tenth of the first phase, "late" its
end, "corrected" the end of the second phase, in which all go on with ARM of 10 samples.
"""

import argparse
import inspect
import sys
from pathlib import Path

import numpy as np
from drawing import finish, panels
from growing_results import describe, merged
from result_files import Table, save, with_spread
from st_estimators import ESTIMATORS, FULL, OTHERS, TRAINED

TITLES = {
    "loss": "Loss of drawn bits, nats a document, by phase and bits",
    "code_loss": "Loss of the likeliest code, the same",
    "gradients": "Cosine similarity, and expected improvement over its optimum, of the "
    "encoder, mean over the points of ARM's trajectory",
    "claims": "The claims of the paper",
}
PHASES = ("early", "late", "corrected")
# The biased estimators of the paper.
BIASED = [name for name in ESTIMATORS if name not in ("arm", *OTHERS)]
COLORS = {
    "arm": "#222222",
    "gumbel 1.0": "#8e5ea2",
    "gumbel 0.1": "#c3a1d1",
    "st": "#1b6ca8",
    "det_st": "#d95f02",
    "identity_st": "#e6ab02",
    "zgr": "#2a9d6f",
    "disarm": "#9a9a9a",
    "exact": "#c51b7d",
}


class Run:
    """One training, its losses by epoch."""

    def __init__(self, cell, n_epochs):
        self.cell, self.n_epochs = cell, n_epochs
        self.epochs = np.array(cell["epoch"])

    def at(self, epoch, column="loss"):
        """Return the mean of the three records up to an epoch."""
        end = max(1, np.searchsorted(self.epochs, epoch, side="right"))
        return float(np.mean(self.cell[column][max(0, end - 3) : end]))

    def phase(self, name, column="loss"):
        early, late = self.n_epochs // 10, self.n_epochs
        ends = {"early": early, "late": late, "corrected": self.epochs[-1]}
        return self.at(ends[name], column)

    def falls(self):
        """Return by how much the loss falls an epoch, and how much it has fallen.

        In the last quarter of the first phase, then in the first tenth of the second;
        last, the share that the last quarter has in the fall of the first phase.
        """
        late, quarter = self.at(self.n_epochs), self.n_epochs // 4
        before = self.at(self.n_epochs - quarter)
        rest = int(self.epochs[-1]) - self.n_epochs
        tenth = max(1, rest // 10)
        repair = (late - self.at(self.n_epochs + tenth)) / tenth
        first = self.cell["loss"][0]
        return (before - late) / quarter, repair, (before - late) / (first - late)


class Measured:
    """All trainings; what they say about one number of bits, a seed at a time."""

    def __init__(self, content):
        self.settings = content["settings"]
        self.runs = {
            (cell["seed"], cell["n_bits"], cell["estimator"]): Run(
                cell, self.settings["epochs"]
            )
            for cell in content["cells"].values()
        }
        self.every_seed = sorted({seed for seed, _, _ in self.runs})
        self.bits = sorted({n_bits for _, n_bits, _ in self.runs})
        self.few, self.many = self.bits[0], self.bits[-1]
        self.names = [n for n in TRAINED if any(n == key[2] for key in self.runs)]

    def seeds(self, *lengths, name="arm"):
        """Return the seeds that an estimator is done with, at all of the lengths."""
        runs = self.runs
        return [
            s for s in self.every_seed if all((s, b, name) in runs for b in lengths)
        ]

    def of(self, n_bits, name):
        """Return the trainings of one estimator, one a seed."""
        return [self.runs[s, n_bits, name] for s in self.seeds(n_bits, name=name)]

    def points(self, seed, n_bits):
        return self.runs[seed, n_bits, "arm"].cell["points"]

    def along(self, seed, n_bits, name, what="cosine"):
        """Return a measure at each point of ARM's trajectory."""
        points = [it["estimators"][name] for it in self.points(seed, n_bits)]
        return np.array([MEASURES[what](point) for point in points])

    def cosine(self, seed, n_bits, name):
        return self.along(seed, n_bits, name).mean()

    def mean(self, name, n_bits, what):
        """Return the mean of a measure over the points of ARM's trajectory."""
        seeds = self.seeds(n_bits)
        return with_spread([self.along(s, n_bits, name, what).mean() for s in seeds])

    def loss(self, name, n_bits, phase, column):
        return with_spread([run.phase(phase, column) for run in self.of(n_bits, name)])


# The best expected improvement is the norm of the gradient, with its sign turned.
MEASURES = {
    "cosine": lambda point: point["cosine"],
    "gain": lambda point: point["improvement"] / point["optimum"],
    "rmse": lambda point: -point["rmse"] / point["optimum"],
}


def read(paths):
    """Return the trainings of all files, which have to be of one setting."""
    content = merged(paths)
    for path in paths:
        settings = merged([path])["settings"]
        if settings != content["settings"]:
            sys.exit(f"{path} holds another setting than {paths[-1]}: {settings}.")
    return content


def table_of(names, cell, columns, form=""):
    """Return a table of estimators; columns have what a cell is asked for, by title."""
    rows = [[name, *(cell(name, *key) for key in columns.values())] for name in names]
    return Table({"estimator": "", **dict.fromkeys(columns, form)}, rows)


def cosines_table(measured, n_bits):
    """Return the cosine at each point, and what the true gradient would have."""
    seeds = measured.seeds(n_bits)
    points = [measured.points(seed, n_bits) for seed in seeds]
    columns = {f"epoch {point['epoch']}": ".2f" for point in points[0]}
    table = Table({"estimator": "", **columns})
    for name in ESTIMATORS:
        means = np.mean([measured.along(s, n_bits, name) for s in seeds], axis=0)
        table.rows.append([name, *means.tolist()])
    ceilings = [[point["ceiling"] for point in own] for own in points]
    table.rows.append(["true gradient", *np.mean(ceilings, axis=0).tolist()])
    return table


def paces_table(measured):
    """Return milliseconds a step of both phases, where they were measured."""
    columns = {"bits": "", "estimator": "", "ms a step": ".1f", "of ARM-10": ".1f"}
    table = Table(columns)
    for (_, n_bits, name), run in sorted(measured.runs.items()):
        if "ms_a_step" in run.cell:
            table.rows.append([n_bits, name, *run.cell["ms_a_step"]])
    return table


def tables_of(measured):
    """Return all tables by their names."""
    names, bits = measured.names, measured.bits
    phases = {f"{phase}, {b}": (b, phase) for b in bits for phase in PHASES}
    tables = {}
    for column in ("loss", "code_loss"):
        columns = {title: (*key, column) for title, key in phases.items()}
        tables[column] = table_of(names, measured.loss, columns, ".1f")
    gradients = {f"{what}, {b}": (b, what) for b in bits for what in ("cosine", "gain")}
    tables["gradients"] = table_of(ESTIMATORS, measured.mean, gradients, ".2f")
    rmse = {f"{b} bits": (b, "rmse") for b in bits}
    tables["rmse"] = table_of(ESTIMATORS, measured.mean, rmse, ".2f")
    tables |= {f"cosines_{b}": cosines_table(measured, b) for b in bits}
    done = {f"{b} bits": (b,) for b in bits}
    tables["seeds"] = table_of(names, lambda n, b: len(measured.of(b, n)), done)
    paces = paces_table(measured)
    tables |= {"paces": paces} if paces.rows else {}
    columns = dict.fromkeys(("", "claim", "holds if", "verdict", "in so many"), "")
    rows = [row_of_claim(measured, number, judge) for number, judge in CLAIMS.items()]
    return tables | {"claims": Table(columns, rows)}


def row_of_claim(measured, number, judge):
    """Return the verdict on a claim of the paper."""
    text = inspect.getdoc(judge).format(few=measured.few, many=measured.many)
    claim, _, rule = text.replace("\n\n", "\t").replace("\n", " ").partition("\t")
    votes = judge(measured)
    return [number, claim, rule, verdict(votes), f"{sum(votes)} of {len(votes)}"]


# The claims of the paper, and by which rule they hold; a vote is that of a seed.


def stalling(measured):
    """With few bits ({few}) st and det_st stall or rise

    the last quarter of the first phase brings less than 5% of its fall
    """
    runs = [run for name in ("st", "det_st") for run in measured.of(measured.few, name)]
    return [run.falls()[2] < 0.05 for run in runs]


def repair(measured):
    """With few bits ({few}) ARM-10 repairs st and det_st quickly

    the first tenth of the correction falls more than twice as fast as the last quarter
    before it
    """
    runs = [run for name in ("st", "det_st") for run in measured.of(measured.few, name)]
    falls = [run.falls() for run in runs]
    return [after > max(0, 2 * before) for before, after, _ in falls]


def direction(measured):
    """With few bits ({few}) biased estimators point in a wrong direction

    mean cosine below 0 in the second half of the points, for most
    """
    few, votes = measured.few, []
    for seed in measured.seeds(few):
        cosines = [measured.along(seed, few, name) for name in BIASED]
        wrong = [own[len(own) // 2 :].mean() < 0 for own in cosines]
        votes.append(sum(wrong) > len(wrong) / 2)
    return votes


def more_bits(measured):
    """With more bits all biased estimators improve

    mean cosine higher at {many} bits than at {few}
    """
    few, many, cosine = measured.few, measured.many, measured.cosine
    return [
        all(cosine(seed, many, name) > cosine(seed, few, name) for name in BIASED)
        for seed in measured.seeds(few, many)
    ]


def variants(measured):
    """Stochastic straight-through is more accurate than det_st and identity_st

    mean cosine, at every length
    """
    others, cosine = ("det_st", "identity_st"), measured.cosine
    return [
        all(
            cosine(s, b, "st") >= cosine(s, b, n) for b in measured.bits for n in others
        )
        for s in measured.seeds(*measured.bits)
    ]


def saturation(measured):
    """det_st improves as the units saturate

    {many} bits: both higher in the second half of the points
    """
    many, votes = measured.many, []
    for seed in measured.seeds(many):
        run, points = measured.runs[seed, many, "arm"], measured.points(seed, many)
        certainty = np.array([run.at(it["epoch"], "certainty") for it in points])
        both, half = (certainty, measured.along(seed, many, "det_st")), len(points) // 2
        votes.append(all(own[half:].mean() > own[:half].mean() for own in both))
    return votes


def training(measured):
    """Biased estimators can beat 1-sample ARM in training

    a lower loss at the end of the first phase, at any length
    """
    votes = []
    for seed in measured.every_seed:
        ends = {
            (b, n): run.phase("late")
            for (s, b, n), run in measured.runs.items()
            if s == seed
        }
        held = [
            end < ends[b, "arm"]
            for (b, name), end in ends.items()
            if name in BIASED and (b, "arm") in ends
        ]
        votes += [any(held)] if held else []
    return votes


CLAIMS = {
    **{"1a": stalling, "1b": repair, "2": direction, "3": more_bits},
    **{"4": variants, "5": saturation, "6": training},
}


def verdict(votes):
    """Return what the votes of seeds come to."""
    if not votes or any(votes) != all(votes):
        return "cannot be told at this size"
    return "holds" if votes[0] else "does not hold here"


def draw(measured, folder):
    """Draw losses, those of each phase, and cosines, a column for each length."""
    lengths = measured.bits
    titles = [f"{n_bits} bits" for n_bits in lengths] + [""] * 2 * len(lengths)
    figure, axes = panels(titles, len(lengths), size=(3.6, 3), legend=True)
    axes = np.reshape(axes, (3, -1))
    for n_bits, column in zip(lengths, axes.T, strict=True):
        draw_losses(column[0], measured, n_bits)
        draw_phases(column[1], measured, n_bits)
        draw_cosines(column[2], measured, n_bits)
    axes[0, 0].set_ylabel("loss of drawn bits, nats")
    axes[1, 0].set_ylabel("loss of drawn bits, nats")
    axes[2, 0].set_ylabel("cosine similarity")
    for name in {**ESTIMATORS, **dict.fromkeys(measured.names)}:
        axes[0, 0].plot([], [], "o-", color=COLORS[name], markersize=4, label=name)
    folder.mkdir(parents=True, exist_ok=True)
    finish(figure, folder / "st_estimators.png")


def draw_losses(ax, measured, n_bits):
    """Draw the loss by epoch: the mean of the seeds and their range."""
    for name in measured.names:
        runs = measured.of(n_bits, name)
        if not runs:
            continue
        # The first steep fall would flatten the rest.
        shown = runs[0].epochs >= runs[0].n_epochs // 50
        losses = np.array([run.cell["loss"] for run in runs])[:, shown]
        epochs, color = runs[0].epochs[shown], COLORS[name]
        ax.plot(epochs, losses.mean(axis=0), color=color, linewidth=1.2)
        lowest, highest = losses.min(axis=0), losses.max(axis=0)
        ax.fill_between(epochs, lowest, highest, color=color, alpha=0.2, linewidth=0)
    ax.axvline(measured.settings["epochs"], color="0.4", linewidth=0.8, linestyle=":")
    ax.set(xlabel="epoch; dotted: switch to ARM-10")


def draw_phases(ax, measured, n_bits):
    """Draw a dot for each seed early, late and corrected, lines between means."""
    for number, name in enumerate(measured.names):
        runs = measured.of(n_bits, name)
        if not runs:
            continue
        losses = np.array([[run.phase(phase) for phase in PHASES] for run in runs])
        beside = np.arange(len(PHASES)) + 0.05 * (number - len(measured.names) / 2)
        ax.plot(beside, losses.mean(axis=0), color=COLORS[name], linewidth=1)
        for row in losses:
            ax.plot(beside, row, "o", color=COLORS[name], markersize=3)
    ax.set_xticks(range(len(PHASES)), PHASES)


def draw_cosines(ax, measured, n_bits):
    """Draw the cosines along ARM's trajectory: mean of the seeds and range."""
    seeds = measured.seeds(n_bits)
    if not seeds:
        return
    epochs = [point["epoch"] for point in measured.points(seeds[0], n_bits)]
    for number, name in enumerate(ESTIMATORS):
        cosines = np.array([measured.along(seed, n_bits, name) for seed in seeds])
        middle = cosines.mean(axis=0)
        errors = [middle - cosines.min(axis=0), cosines.max(axis=0) - middle]
        beside = np.array(epochs) + epochs[0] / 30 * (number - len(ESTIMATORS) / 2)
        style = {"color": COLORS[name], "linewidth": 1, "elinewidth": 0.8}
        ax.errorbar(beside, middle, errors, marker="o", markersize=3, **style)
    ax.axhline(0, color="0.4", linewidth=0.8)
    ax.set(xlabel="epoch of ARM's trajectory")


def print_head(content, measured):
    print(describe(content["head"]))
    settings = measured.settings
    print(", ".join(f"{name} {value}" for name, value in settings.items()))
    reduced = [
        f"{name} {settings[name]} ({'all' if value is None else value})"
        for name, value in FULL.items()
        if settings[name] != value
    ]
    print(f"Differs from the full setting: {'; '.join(reduced) or 'nothing'}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--picture-folder", type=Path)
    parser.add_argument("--results", type=Path, help="a file of the tables")
    options = parser.parse_args()
    content = read(options.files)
    measured = Measured(content)
    print_head(content, measured)
    tables = tables_of(measured)
    for name, table in tables.items():
        print(f"\n{TITLES.get(name, name)}:")
        table.printed()
    seeds = measured.every_seed
    save(options.results, tables, seeds=seeds, measured=content["head"])
    if options.picture_folder is not None:
        draw(measured, options.picture_folder)


if __name__ == "__main__":
    main()
