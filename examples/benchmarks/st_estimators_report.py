"""Tables, verdicts and a picture of what `st_estimators.py` has measured so far::

    python examples/benchmarks/st_estimators_report.py FILE ... --picture-folder DIR

Several files are read as one. "Early" is the first tenth of the first phase, "late" its
end, "corrected" the end of the second phase, in which all go on with ARM of 10 samples.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from drawing import finish, panels
from growing_results import describe, merged
from result_files import Table, save
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
        self.bits = sorted({n_bits for _, n_bits, _ in self.runs})
        self.names = [n for n in TRAINED if any(n == key[2] for key in self.runs)]

    def seeds(self, n_bits, names):
        """Return the seeds that all of these estimators are done with."""
        seeds = sorted({seed for seed, _, _ in self.runs})
        return [s for s in seeds if all((s, n_bits, n) in self.runs for n in names)]

    def of(self, n_bits, name):
        """Return the trainings of one estimator, one a seed."""
        return [self.runs[s, n_bits, name] for s in self.seeds(n_bits, [name])]

    def points(self, seed, n_bits):
        return self.runs[seed, n_bits, "arm"].cell["points"]

    def along(self, seed, n_bits, name, metric="cosine"):
        """Return a measurement at each point of ARM's trajectory."""
        points = self.points(seed, n_bits)
        return np.array([point["estimators"][name][metric] for point in points])

    def gain(self, seed, n_bits, name):
        """Return the expected improvement over that of the reference."""
        optimum = self.along(seed, n_bits, name, "optimum")
        return self.along(seed, n_bits, name, "improvement") / optimum


def read(paths):
    """Return the trainings of all files, which have to be of one setting."""
    content = merged(paths)
    for path in paths:
        settings = merged([path])["settings"]
        if settings != content["settings"]:
            sys.exit(f"{path} holds another setting than {paths[-1]}: {settings}.")
    return content


def with_spread(values):
    """Return the mean, with half the range where there are several values."""
    if not len(values):
        return None
    mean = float(np.mean(values))
    return [mean, float(np.ptp(values)) / 2] if len(values) > 1 else mean


def losses_table(measured, column):
    columns = {f"{phase}, {b}": ".1f" for b in measured.bits for phase in PHASES}
    rows = [
        [name]
        + [
            with_spread([run.phase(phase, column) for run in measured.of(b, name)])
            for b in measured.bits
            for phase in PHASES
        ]
        for name in measured.names
    ]
    return Table({"estimator": "", **columns}, rows)


def gradients_table(measured):
    """Return means over the points of ARM's trajectory."""
    columns = {f"{w}, {b}": ".2f" for b in measured.bits for w in ("cosine", "gain")}
    table = Table({"estimator": "", **columns})
    for name in ESTIMATORS:
        row = [name]
        for n_bits in measured.bits:
            for function in (measured.along, measured.gain):
                means = [
                    function(seed, n_bits, name).mean()
                    for seed in measured.seeds(n_bits, ["arm"])
                ]
                row.append(with_spread(means))
        table.rows.append(row)
    return table


def rmse_table(measured):
    """Return root mean squared errors of one sample, over the gradient's norm.

    The norm is the best expected improvement, with its sign turned.
    """
    columns = {f"{n_bits} bits": ".2f" for n_bits in measured.bits}
    table = Table({"estimator": "", **columns})
    for name in ESTIMATORS:
        row = [name]
        for n_bits in measured.bits:
            ratios = [
                measured.along(seed, n_bits, name, "rmse")
                / -measured.along(seed, n_bits, name, "optimum")
                for seed in measured.seeds(n_bits, ["arm"])
            ]
            row.append(with_spread([ratio.mean() for ratio in ratios]))
        table.rows.append(row)
    return table


def cosines_table(measured, n_bits):
    """Return the cosine at each point, and what the true gradient would have."""
    seeds = measured.seeds(n_bits, ["arm"])
    points = [measured.points(seed, n_bits) for seed in seeds]
    columns = {f"epoch {point['epoch']}": ".2f" for point in points[0]}
    table = Table({"estimator": "", **columns})
    for name in ESTIMATORS:
        means = np.mean([measured.along(s, n_bits, name) for s in seeds], axis=0)
        table.rows.append([name, *means.tolist()])
    ceilings = [[point["ceiling"] for point in own] for own in points]
    table.rows.append(["true gradient", *np.mean(ceilings, axis=0).tolist()])
    return table


def seeds_table(measured):
    """Return how many trainings there are of each estimator."""
    rows = [
        [n, *(len(measured.of(b, n)) for b in measured.bits)] for n in measured.names
    ]
    columns = {f"{n_bits} bits": "" for n_bits in measured.bits}
    return Table({"estimator": "", **columns}, rows)


def paces_table(measured):
    """Return milliseconds a step of both phases, where they were measured."""
    columns = {"bits": "", "estimator": "", "ms a step": ".1f", "of ARM-10": ".1f"}
    table = Table(columns)
    for (_, n_bits, name), run in sorted(measured.runs.items()):
        if "ms_a_step" in run.cell:
            table.rows.append([n_bits, name, *run.cell["ms_a_step"]])
    return table


def claims_table(measured):
    """Return the verdicts on the claims of the paper."""
    table = Table(dict.fromkeys(("", "claim", "holds if", "verdict", "in so many"), ""))
    for judge in JUDGES:
        text, votes = judge(measured)
        number, _, claim = text.partition(". ")
        what, _, rule = claim.removesuffix(")").rpartition(" (")
        share = f"{sum(votes)} of {len(votes)}"
        table.rows.append([number, what, rule, verdict(votes), share])
    return table


def judge_stalling(measured):
    few = measured.bits[0]
    runs = [*measured.of(few, "st"), *measured.of(few, "det_st")]
    return (
        f"1a. With few bits ({few}) st and det_st stall or rise (the last quarter of "
        "the first phase brings less than 5% of its fall)",
        [run.falls()[2] < 0.05 for run in runs],
    )


def judge_repair(measured):
    few = measured.bits[0]
    falls = [run.falls() for name in ("st", "det_st") for run in measured.of(few, name)]
    return (
        f"1b. With few bits ({few}) ARM-10 repairs st and det_st quickly (the first "
        "tenth of the correction falls more than twice as fast as the last quarter "
        "before it)",
        [after > max(0, 2 * before) for before, after, _ in falls],
    )


def judge_direction(measured):
    few, votes = measured.bits[0], []
    for seed in measured.seeds(few, ["arm"]):
        cosines = [measured.along(seed, few, name) for name in BIASED]
        wrong = [own[len(own) // 2 :].mean() < 0 for own in cosines]
        votes.append(sum(wrong) > len(wrong) / 2)
    return (
        f"2. With few bits ({few}) biased estimators point in a wrong direction (mean "
        "cosine below 0 in the second half of the points, for most)",
        votes,
    )


def judge_more_bits(measured):
    few, many = measured.bits[0], measured.bits[-1]
    common = set(measured.seeds(few, ["arm"])) & set(measured.seeds(many, ["arm"]))
    votes = [
        all(
            measured.along(seed, many, name).mean()
            > measured.along(seed, few, name).mean()
            for name in BIASED
        )
        for seed in sorted(common)
    ]
    return (
        "3. With more bits all biased estimators improve (mean cosine higher at "
        f"{many} bits than at {few})",
        votes,
    )


def judge_variants(measured):
    lengths = [set(measured.seeds(n_bits, ["arm"])) for n_bits in measured.bits]
    votes = [
        all(
            measured.along(seed, n_bits, "st").mean()
            >= max(
                measured.along(seed, n_bits, name).mean()
                for name in ("det_st", "identity_st")
            )
            for n_bits in measured.bits
        )
        for seed in sorted(set.intersection(*lengths))
    ]
    return (
        "4. Stochastic straight-through is more accurate than det_st and identity_st "
        "(mean cosine, at every length)",
        votes,
    )


def judge_saturation(measured):
    many, votes = measured.bits[-1], []
    for seed in measured.seeds(many, ["arm"]):
        run = measured.runs[seed, many, "arm"]
        epochs = [point["epoch"] for point in measured.points(seed, many)]
        half = len(epochs) // 2
        certainty = np.array([run.at(epoch, "certainty") for epoch in epochs])
        cosines = measured.along(seed, many, "det_st")
        both = certainty, cosines
        votes.append(all(own[half:].mean() > own[:half].mean() for own in both))
    return (
        f"5. det_st improves as the units saturate ({many} bits: both higher in the "
        "second half of the points)",
        votes,
    )


def judge_training(measured):
    votes = []
    for seed in sorted({seed for seed, _, _ in measured.runs}):
        held = []
        for n_bits in measured.bits:
            done = [n for n in BIASED if (seed, n_bits, n) in measured.runs]
            if done and seed in measured.seeds(n_bits, ["arm"]):
                end = measured.runs[seed, n_bits, "arm"].phase("late")
                ends = [measured.runs[seed, n_bits, n].phase("late") for n in done]
                held.append(min(ends) < end)
        votes += [any(held)] if held else []
    return (
        "6. Biased estimators can beat 1-sample ARM in training (a lower loss at the "
        "end of the first phase, at any length)",
        votes,
    )


JUDGES = (
    judge_stalling,
    judge_repair,
    judge_direction,
    judge_more_bits,
    judge_variants,
    judge_saturation,
    judge_training,
)


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
    seeds = measured.seeds(n_bits, ["arm"])
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
    tables = {
        "loss": losses_table(measured, "loss"),
        "code_loss": losses_table(measured, "code_loss"),
        "gradients": gradients_table(measured),
        "rmse": rmse_table(measured),
    }
    tables |= {f"cosines_{b}": cosines_table(measured, b) for b in measured.bits}
    tables["seeds"] = seeds_table(measured)
    if paces_table(measured).rows:
        tables["paces"] = paces_table(measured)
    tables["claims"] = claims_table(measured)
    for name, table in tables.items():
        print(f"\n{TITLES.get(name, name)}:")
        table.printed()
    seeds = sorted({seed for seed, _, _ in measured.runs})
    save(options.results, tables, seeds=seeds, measured=content["head"])
    if options.picture_folder is not None:
        draw(measured, options.picture_folder)


if __name__ == "__main__":
    main()
