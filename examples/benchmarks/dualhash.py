"""DualHash: optimizers tuned by one protocol, its solvers by length, and its weights.

Every optimizer of DualHash has a grid of step sizes, and STORM of its forgetting too,
wide enough that the best in mean average precision on validation rows is inside it.
With three seeds that setting is then trained, and its losses are kept by epoch. Solvers
and losses are compared at three lengths, and the penalty's two weights on a grid::

    python examples/benchmarks/dualhash.py optimizers --output runs.json
    python examples/benchmarks/dualhash.py lengths weights --output runs.json
    python examples/benchmarks/dualhash.py --show runs.json \
        --picture-folder docs/images --results docs/results/dualhash.md

Data, networks and schedule are those of ``supervised_hashing.py``, and other losses
have the settings that it chose. The file grows; an interrupted run goes on.
"""

import argparse
import json
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from drawing import finish, panels
from growing_results import Results
from result_files import Table, mean_of, print_all, read_table, save, with_spread
from supervised_hashing import METHODS, NESTEROV, TUNING_SEED, Search, dual, experiment
from supervised_hashing import measure as fit_and_measure

from skhash.datasets import load_digits_retrieval
from skhash.training import Optimizer

STORM_STEPS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FORGETTING = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
GRID = {
    "adamw": ("adamw", (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)),
    "momentum": (NESTEROV, (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)),
} | {f"storm {c}": (Optimizer("storm", forgetting=c), STORM_STEPS) for c in FORGETTING}
BITS = (64, 16, 48)
SEEDS = (0, 1, 2)
# How the paper's supplement has the penalty, all with momentum, and other losses.
SOLVERS = {
    "StoM (dual)": "dual",
    "SGDM (subgradient)": "subgradient",
    "SPGD (prox)": "prox",
    "WCR": "wcr",
    "no penalty": None,
}
LOSSES = ("dhn", "hashnet", "orthohash", "mdshc")
KNOWN = Path(__file__).parents[2] / "docs/results/supervised_hashing.md"
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
WEIGHTS = {"w_weight": (0.001, 0.01, 0.1, 1.0), "penalty": (0.01, 0.1, 1.0, 10.0)}
SETTING = {"cnn": False, "device": "cpu", "data_home": None}


@cache
def digits(part):
    """Return digits to train on, and a search of the others or of the queries."""
    data = load_digits_retrieval()
    X, y = data.train, data.train_labels
    if part == "test":
        return (X, y), {"separate": Search(data.query, data.query_labels, X, y)}
    held, kept = np.split(np.random.RandomState(0).permutation(len(X)), [300])
    train = X[kept], y[kept]
    return train, {"validation": Search(X[held], y[held], *train)}


def data_of(name, part):
    if name == "digits":
        return digits(part)
    return experiment("fashion_mnist", "seen" if part == "test" else "tuning", 0, None)


def fit(name, part, make, params, n_bits, seed):
    """Fit once; return the losses by epoch and what each search reaches."""
    setting = {"epochs": 15, "hidden": 256} | SETTING | {"tuning": part != "test"}
    METHODS["this"] = (make, [])
    runs = fit_and_measure("this", params, n_bits, seed, data_of(name, part), setting)
    for run in runs:
        if "histogram" in run:
            run["PR"] = precision_at_recall(np.array(run.pop("histogram"), float))
    return {run.pop("protocol"): run for run in runs}


def precision_at_recall(histogram):
    """Return the precision where each share of the relevant rows is within a radius.

    Means over the queries at each radius, linear between two radii.
    """
    found, other = histogram.cumsum(axis=1)
    recall, precision = found / found[-1], found / np.maximum(found + other, 1)
    return {str(level): float(np.interp(level, recall, precision)) for level in LEVELS}


def dual_with(optimizer, solver="dual"):
    def make(n_bits, seed, setting, **params):
        return dual(n_bits, seed, setting, solver=solver, optimizer=optimizer, **params)

    return make


def tuned(results, name):
    """Return the best step size of each line of the grid, on validation rows."""
    best = {}
    for label, (optimizer, lrs) in GRID.items():
        for lr in lrs:
            it = name, "validation", dual_with(optimizer), {"lr": lr}
            cell = results.get(
                f"{name} / tuning / {label} / {lr}", partial(fit, *it, 32, TUNING_SEED)
            )
            if cell:
                value = cell["validation"]["mAP"]
                best[label] = max(best.get(label, (0, 0)), (value, lr))
    return best


def chosen(results, name):
    """Return the setting of each optimizer: of STORM that of the best forgetting."""
    best = tuned(results, name)
    storm = max((it for it in best if it.startswith("storm")), key=best.get)
    labels = dict.fromkeys(["adamw", "momentum", storm, "storm 0.1", "storm 1.0"])
    return {label: best[label][1] for label in labels}


def optimizers(results):
    """Tune all optimizers, and train what was chosen with each seed."""
    for name in ("digits", "fashion_mnist"):
        for label, lr in chosen(results, name).items():
            for seed in SEEDS:
                it = name, "test", dual_with(GRID[label][0]), {"lr": lr}
                results.get(
                    f"{name} / chosen / {label} / {lr} / {seed}",
                    partial(fit, *it, 32, seed),
                )


def lengths(results):
    """Compare solvers and losses at three lengths, what says most first."""
    picked = chosen(results, "fashion_mnist")
    storm = [label for label in picked if label.startswith("storm")][0]
    makes = {
        label: (dual_with(NESTEROV, solver), {"lr": picked["momentum"]})
        for label, solver in SOLVERS.items()
    }
    makes["StoRM"] = (dual_with(GRID[storm][0]), {"lr": picked[storm]})
    for row in read_table(KNOWN, "mAP of the candidates"):
        if row["method"] in LOSSES:
            makes[row["method"]] = (
                METHODS[row["method"]][0],
                json.loads(row["chosen"].strip("`")),
            )
    for seed, n_bits, (label, it) in product(SEEDS, BITS, makes.items()):
        results.get(
            f"lengths / {label} / {n_bits} / {seed}",
            partial(fit, "fashion_mnist", "test", *it, n_bits, seed),
        )


def weights(results):
    """Try pairs of the penalty's weights, with the solver of the paper, at 64 bits."""
    lr = chosen(results, "fashion_mnist")["momentum"]
    for n_bits, *values in product((64, 16), *WEIGHTS.values()):
        params = {"lr": lr} | dict(zip(WEIGHTS, values, strict=True))
        it = dual_with(NESTEROV), params, n_bits, TUNING_SEED
        results.get(
            f"weights / {n_bits} / {values}",
            partial(fit, "fashion_mnist", "validation", *it),
        )


def cells_of(cells, start):
    return [cell for name, cell in cells.items() if name.startswith(f"{start} / ")]


def grid_tables(cells, name):
    """Return mean average precision on validation rows, and the last loss, by step."""
    tables = {}
    for key, measure in {"grid": mAP, "grid_losses": last_loss}.items():
        table = Table(dict.fromkeys(("optimizer", "step sizes", "reached"), ""))
        for label, (_, lrs) in GRID.items():
            found = [cells.get(f"{name} / tuning / {label} / {lr}") for lr in lrs]
            values = [f"{measure(it):.3f}" if it else "diverged" for it in found]
            steps = " ".join(f"{lr:g}" for lr in lrs)
            table.rows.append([label, steps, " ".join(values)])
        tables[f"{name}_{key}"] = table
    return tables


def mAP(cell):
    return cell["validation"]["mAP"]


def last_loss(cell):
    return cell["validation"]["losses"][-1]


def least_losses(cells):
    """Return the lowest last loss of each kind of optimizer on Fashion-MNIST."""
    found = {}
    for cell_name, cell in cells.items():
        if cell_name.startswith("fashion_mnist / tuning"):
            kind = cell_name.split(" / ")[2].split()[0]
            found[kind] = min(found.get(kind, np.inf), last_loss(cell))
    return found


def chosen_tables(results, name):
    """Return what the chosen settings reach, and their losses by epoch."""
    labels = chosen(results, name)
    forms = {"mAP": ".3f", "P@r2": ".3f", "last loss": ".3f", "s/epoch": ".2f"}
    table = Table({"optimizer": "", "step": "", **forms})
    curves = Table({"epoch": "", **dict.fromkeys(labels, ".3f")})
    losses = {}
    for label, lr in labels.items():
        found = cells_of(results.content["cells"], f"{name} / chosen / {label} / {lr}")
        runs = [cell["separate"] for cell in found]
        losses[label] = np.mean([run["losses"] for run in runs], axis=0)
        values = [with_spread([run[key] for run in runs]) for key in ("mAP", "P@r2")]
        last = with_spread([run["losses"][-1] for run in runs])
        seconds = float(np.median([run["seconds"] for run in runs]))
        table.rows.append([label, f"{lr:g}", *values, last, seconds])
    for epoch, values in enumerate(zip(*losses.values(), strict=True), 1):
        curves.rows.append([epoch, *map(float, values)])
    return {f"{name}_chosen": table, f"{name}_curves": curves}


MEASURES = dict.fromkeys(
    ("mAP", "P@100", "P@1000", "P@r2", "coverage", "quantization_error_"), ".3f"
) | {"separability": ".1f"}


def length_tables(cells):
    """Return all measures in both databases, and precision by recall at 64 bits."""
    found, tables = {}, {}
    for name, cell in cells.items():
        part, label, n_bits, *_ = name.split(" / ")
        if part == "lengths":
            found.setdefault((label, int(n_bits)), []).append(cell)
    for n_bits, database in product(sorted(BITS), ("separate", "training")):
        table = Table({"method": "", **MEASURES, "s/epoch": ".2f", "seeds": ""})
        for (label, bits), every in found.items():
            if bits == n_bits:
                runs = [cell[database] for cell in every]
                values = [mean_of([run[name] for run in runs]) for name in MEASURES]
                seconds = float(np.median([run["seconds"] for run in runs]))
                table.rows.append([label, *values, seconds, len(runs)])
        table.rows.sort(key=lambda row: -row[1])
        tables[f"{database}_{n_bits}"] = table
    curve = Table({"method": "", **{f"recall {it:g}": ".3f" for it in LEVELS}})
    for label in dict.fromkeys(label for label, _ in found):
        points = [cell["separate"]["PR"] for cell in found.get((label, 64), ())]
        means = [mean_of([it[str(level)] for it in points]) for level in LEVELS]
        curve.rows.append([label, *means])
    return tables | {"precision_by_recall": curve}


def weight_tables(cells):
    """Return mean average precision on validation rows for all pairs of weights."""
    table = Table(
        {"bits": "", "w_weight": ""}
        | {f"penalty {it:g}": ".3f" for it in WEIGHTS["penalty"]}
    )
    for n_bits, w in product((16, 64), WEIGHTS["w_weight"]):
        names = [f"weights / {n_bits} / {[w, p]}" for p in WEIGHTS["penalty"]]
        if all(name in cells for name in names):
            found = [mAP(cells[name]) for name in names]
            table.rows.append([n_bits, f"{w:g}", *found])
    return {"weights": table}


def draw(curves, folder):
    """Draw the loss of each optimizer by epochs and by gradients of each row."""
    titles = ["epochs", "gradients of each training row"]
    figure, axes = panels(titles, size=(3.8, 3.2), sharey=True)
    epochs, *losses = np.transpose(curves.rows)
    for label, loss in zip(list(curves.formats)[1:], losses, strict=True):
        dashes = "--" if label == "storm 1.0" else "-"
        axes[0].plot(epochs, loss, dashes, label=label)
        axes[1].plot((1 + label.startswith("storm")) * epochs, loss, dashes)
    axes[0].set_ylabel("training loss")
    finish(figure, folder / "supervised_convergence.png")


def show(results, arguments):
    cells, tables = results.content["cells"], {}
    for name in ("fashion_mnist", "digits"):
        tables |= grid_tables(cells, name) | chosen_tables(results, name)
    if any(key.startswith("lengths") for key in cells):
        tables |= length_tables(cells)
    if any(key.startswith("weights") for key in cells):
        tables |= weight_tables(cells)
    print_all(tables)
    about = "Fashion-MNIST: 10 000 training images, 5000 queries; digits"
    head = results.content["head"]  # whose last command is this one
    measured = {**head, "commands": head["commands"][:-1]}
    figures = {"least_losses": least_losses(cells)}
    save(arguments.results, tables, figures, seeds=SEEDS, data=about, measured=measured)
    if arguments.picture_folder:
        draw(tables["fashion_mnist_curves"], arguments.picture_folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {"optimizers": optimizers, "lengths": lengths, "weights": weights}
    parser.add_argument("parts", nargs="*", help=", ".join(parts))
    parser.add_argument("--output", type=Path, help="a JSON file that grows")
    parser.add_argument("--show", type=Path, help="such a file, to print")
    parser.add_argument("--results", type=Path, help="a file of the tables")
    parser.add_argument("--picture-folder", type=Path)
    arguments = parser.parse_args()
    if arguments.show:
        show(Results(arguments.show), arguments)
        return
    results = Results(
        arguments.output, lambda cell: [round(it["mAP"], 4) for it in cell.values()]
    )
    for part in arguments.parts:
        parts[part](results)


if __name__ == "__main__":
    main()
