"""Tables and pictures of what `sgh_paper.py` measured, by the figures of the paper::

    python examples/benchmarks/sgh_paper_pictures.py results docs/images \
        --results docs/results/sgh_paper.md
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from drawing import finish, panels, powers_of_two
from result_files import Table, print_all, save

# Ours stand out, the rest of the binary codes are thin, quantisers are dotted.
COLORS = {
    "SGH": "#1b6ca8",
    "SGH, random start": "#7fb2d9",
    "SGH, pairs": "#7b2cbf",
    "NeighborHash": "#d95f02",
    "ITQ": "#2a9d6f",
    "PCA": "#8a8a8a",
    "KMH": "#5c8a3a",
    "spherical": "#c49c00",
    "spectral": "#e377c2",
    "scalable graph": "#17a2b8",
    "binary autoencoder": "#8c564b",
    "random": "#bcbd22",
    "PQ": "#222222",
    "OPQ": "#666666",
}
DASHES = {"Hamming": "-", "asymmetric": "--", "refined": ":", "own distance": "--"}


def grouped(rows, *names):
    """Return the rows by the values of these columns."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def means(rows, x, y):
    """Return the values of x, and the mean of y over the seeds at each."""
    points = grouped(rows, x)
    xs = sorted(value for (value,) in points)
    return xs, [np.mean([row[y] for row in points[value,]]) for value in xs]


def lengths_of(rows):
    """Return a figure with a panel a code length, and the rows of each."""
    lengths = sorted({row["bits"] for row in rows})
    titles = [f"{n_bits} bits" for n_bits in lengths]
    figure, axes = panels(titles, len(titles), size=(2.7, 3))
    own = [[row for row in rows if row["bits"] == n_bits] for n_bits in lengths]
    return figure, list(zip(axes, own, strict=True))


def style(method, search="Hamming"):
    """Return how a line looks."""
    ours = method.startswith(("SGH", "Neighbor"))
    dashes = ":" if method in ("PQ", "OPQ") else DASHES[search]
    return {"color": COLORS[method], "ls": dashes, "lw": 1.8 if ours else 1.1}


def label(method, search):
    """Name a line."""
    plain = search == "Hamming" or method in ("PQ", "OPQ")
    return method if plain else f"{method}, {search}"


def draw_error(rows):
    """Figure 4: reconstruction error against examples seen."""
    figure, parts = lengths_of(rows)
    for ax, own in parts:
        for (method,), lines in grouped(own, "method").items():
            ax.plot(*means(lines, "seen", "error"), label=method, **style(method))
        ax.set_xscale("log")
        ax.set_xlabel("examples seen")
    parts[0][0].set_ylabel("squared error, held-out rows")
    return figure


def draw_time(rows):
    """Figure 5: recall against the seconds of a fit."""
    figure, parts = lengths_of(rows)
    for ax, own in parts:
        for (method,), lines in grouped(own, "method").items():
            (budget,) = {"max_epochs", "max_iter"} & set(lines[0])
            steps = grouped(lines, budget)
            seconds = [np.median([r["seconds"] for r in steps[s]]) for s in steps]
            recall = [np.mean([r["10@100"] for r in steps[s]]) for s in steps]
            ax.plot(seconds, recall, marker="o", ms=3, label=method, **style(method))
        ax.set_xscale("log")
        ax.set_xlabel("processor seconds of a fit")
    parts[0][0].set_ylabel("recall 10@100")
    return figure


def draw_curves(rows, k):
    """Figures 6 and 8: recall of the k nearest against how many are looked at."""
    figure, parts = lengths_of(rows)
    for ax, own in parts:
        for (method, search), lines in grouped(own, "method", "search").items():
            cuts = [name for name in lines[0] if name.startswith(f"{k}@")]
            places = [int(name.split("@")[1]) for name in cuts]
            recall = [np.mean([row[cut] for row in lines]) for cut in cuts]
            name = label(method, search)
            ax.plot(places, recall, label=name, **style(method, search))
        ax.set_xscale("log")
        ax.set_xlabel("N")
    parts[0][0].set_ylabel(f"recall {k}@N")
    return figure


def draw_lengths(rows):
    """Figure 7: recall 100@100 against the length of the codes."""
    figure, (ax,) = panels([""], size=(4.6, 3.6))
    for (method, search), lines in grouped(rows, "method", "search").items():
        points = means(lines, "bits", "100@100")
        looks = style(method, search) | {"marker": "o", "ms": 3}
        ax.plot(*points, label=label(method, search), **looks)
    powers_of_two(ax, sorted({row["bits"] for row in rows}))
    ax.set(xlabel="bits", ylabel="recall 100@100")
    return figure


def recall_table(rows, cut):
    """Return a recall, means over the seeds, a column a length."""
    lengths = sorted({row["bits"] for row in rows})
    columns = {f"{n_bits} bits": ".3f" for n_bits in lengths}
    table = Table({"method": "", "search": "", **columns})
    for names, lines in grouped(rows, "method", "search").items():
        found = dict(zip(*means(lines, "bits", cut), strict=True))
        recalls = (found.get(n_bits) for n_bits in lengths)
        cells = [None if recall is None else float(recall) for recall in recalls]
        table.rows.append([*names, *cells])
    return table


def time_figures(rows):
    """Return seconds of SGH, and how much longer the binary autoencoder takes.

    The least and the most over the lengths, for the longest training of each.
    """
    longest = {"SGH": "max_epochs", "binary autoencoder": "max_iter"}
    seconds = {}
    for (method, n_bits), lines in grouped(rows, "method", "bits").items():
        if method in longest:
            most = max(row[longest[method]] for row in lines)
            own = [r["seconds"] for r in lines if r[longest[method]] == most]
            seconds.setdefault(method, {})[n_bits] = float(np.median(own))
    ours, theirs = seconds["SGH"], seconds["binary autoencoder"]
    ratios = [theirs[n_bits] / ours[n_bits] for n_bits in theirs]
    seconds = {"least_seconds": min(ours.values()), "most_seconds": max(ours.values())}
    least, most = min(ratios), max(ratios)
    return seconds | {"least_autoencoder_ratio": least, "most_autoencoder_ratio": most}


# Tables by the figure that they are of, and the recall in them.
TABLES = {
    "recall_10_100": ("recall", "10@100"),
    "recall_100_100": ("recall", "100@100"),
    "mips_10_100": ("mips", "10@100"),
    "mips_images_10_100": ("mips_images", "10@100"),
    "scales": ("scales", "10@100"),
    "coding": ("coding", "10@100"),
}
PICTURES = {
    "sgh_paper_error": ("error", draw_error),
    "sgh_paper_time": ("time", draw_time),
    "sgh_paper_recall_1": ("recall", lambda rows: draw_curves(rows, 1)),
    "sgh_paper_recall_10": ("recall", lambda rows: draw_curves(rows, 10)),
    "sgh_paper_recall_100": ("recall", draw_lengths),
    "sgh_paper_mips": ("mips", lambda rows: draw_curves(rows, 10)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what sgh_paper.py has written")
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--results", type=Path, help="a file of the tables")
    arguments = parser.parse_args()
    contents = {
        path.stem: json.loads(path.read_text())
        for path in arguments.folder.glob("*.json")
    }
    for name, (source, draw) in PICTURES.items():
        if source in contents:
            finish(draw(contents[source]["rows"]), arguments.pictures / f"{name}.png")
    tables = {
        name: recall_table(contents[source]["rows"], cut)
        for name, (source, cut) in TABLES.items()
        if source in contents
    }
    print_all(tables)
    figures = time_figures(contents["time"]["rows"]) if "time" in contents else {}
    commands = [content["head"]["commands"] for content in contents.values()]
    commands = dict.fromkeys(sum(commands, []))
    last = list(contents.values())[-1]
    measured = {**last["head"], "commands": list(commands)}
    seeds = sorted({row["seed"] for c in contents.values() for row in c["rows"]})
    save(arguments.results, tables, figures, seeds=seeds, measured=measured)


if __name__ == "__main__":
    main()
