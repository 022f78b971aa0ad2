"""Pictures of supervised codes on Fashion-MNIST, with the methods of the benchmark.

How much the penalty's two weights matter, and the Hamming distances of a few methods::

    python examples/benchmarks/supervised_pictures.py docs/images
"""

import argparse
from pathlib import Path

import numpy as np
from drawing import finish, panels
from supervised_hashing import REDUCED, experiment, run_all

from skhash.metrics import DistanceHistogramDisplay

W_WEIGHTS, PENALTIES = (1e-3, 1e-2, 1e-1, 1.0), (1e-2, 1e-1, 1.0, 10.0)
# Methods whose distances are drawn, with what the benchmark chose for them.
SHOWN = {
    "ITQ": {},
    "cross_entropy": {"lr": 1e-3},
    "mdshc": {"lr": 3e-3, "quantization_weight": 0.1},
    "default": {},
}


def draw_sensitivity(arguments, setting):
    """Draw what w_weight and penalty do to precision and to the quantization error."""
    data = experiment("fashion_mnist", "tuning", 0, arguments.data_home)
    jobs = [
        ("prox", {"w_weight": w, "penalty": rho}, arguments.bits, 0) + (data, setting)
        for w in W_WEIGHTS
        for rho in PENALTIES
    ]
    results = list(run_all(jobs, arguments.jobs))
    titles = {
        "mAP": "mean average precision, validation",
        "quantization_error_": "quantization error",
    }
    figure, axes = panels([*titles.values()], size=(3.8, 3.3), legend=False)
    for ax, name in zip(axes, titles, strict=True):
        values = np.reshape([result[name] for result in results], (len(W_WEIGHTS), -1))
        ax.imshow(values, origin="lower", cmap="viridis", aspect="auto")
        middle = (values.max() + values.min()) / 2
        for (row, column), value in np.ndenumerate(values):
            color = "white" if value < middle else "black"
            ax.text(column, row, f"{value:.3f}", color=color, ha="center", va="center")
        ax.set_xticks(range(len(PENALTIES)), [f"{rho:g}" for rho in PENALTIES])
        ax.set_yticks(range(len(W_WEIGHTS)), [f"{w:g}" for w in W_WEIGHTS])
        ax.set_xlabel("penalty")
        ax.grid(False)
    axes[0].set_ylabel("w_weight")
    finish(figure, arguments.folder / "supervised_sensitivity.png")


def draw_distances(arguments, setting):
    """Draw the distances of queries to a database, with and without a common label."""
    data = experiment("fashion_mnist", "seen", 0, arguments.data_home)
    jobs = [
        (name, params, arguments.bits, 0, data, setting)
        for name, params in SHOWN.items()
    ]
    runs = run_all(jobs, arguments.jobs)
    results = [run for run in runs if run["protocol"] == "separate"]
    titles = [f"{it['method']}, mAP {it['mAP']:.3f}" for it in results]
    figure, axes = panels(titles, 2, size=(3.8, 2.5), sharex=True, sharey=True)
    for ax, title, result in zip(axes, titles, results, strict=True):
        DistanceHistogramDisplay(*result["histogram"], name=title).plot(ax)
        ax.label_outer()
        ax.get_legend().remove()
    finish(figure, arguments.folder / "supervised_distances.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=REDUCED["epochs"])
    parser.add_argument("--hidden", type=int, default=REDUCED["hidden"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-home")
    arguments = parser.parse_args()
    setting = vars(arguments) | {"cnn": False, "tuning": False}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    draw_sensitivity(arguments, setting)
    draw_distances(arguments, setting)


if __name__ == "__main__":
    main()
