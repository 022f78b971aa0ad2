"""Draw the six small pictures of the benchmarks' overview, from stored results.

    python examples/benchmarks/overview.py docs/images

Each takes its numbers from ``docs/results``, as the page does that it leads to.
"""

import argparse
from pathlib import Path

import matplotlib
from pages import Results

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

OURS, OTHER, PALE, LIGHT = "#1b6ca8", "#d95f02", "#8a8a8a", "#7fb2d9"
# They are shown at a third of the width of a page.
STYLE = {
    "figure.figsize": (4.4, 3.3),
    "figure.facecolor": "white",
    "font.size": 15,
    "axes.titlesize": 16,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 2.5,
    "lines.markersize": 7,
    "svg.hashsalt": "overview",
}


def column(rows, name):
    """Return a column of rows, the mean alone where there is a spread."""
    values = [row[name] for row in rows]
    return [value[0] if isinstance(value, list) else value for value in values]


def records(table, **equal):
    """Return the rows of a table as dictionaries, those that have these cells."""
    rows = [dict(zip(table.formats, row, strict=True)) for row in table.rows]
    return [row for row in rows if equal.items() <= row.items()]


def draw_search(ax, results):
    rows = records(results["knn"].settings, codes="real", bits=64, asked="k = 10")
    n = column(rows, "n")
    ax.loglog(n, column(rows, "ours, queries/s"), "o-", color=OURS, label="skhash")
    ax.loglog(n, column(rows, "faiss, queries/s"), "o-", color=OTHER, label="faiss")
    ax.set(title="Exact Hamming search", xlabel="codes of 64 bits", ylabel="queries/s")


def draw_bytes(ax, results):
    lines = {
        "ours, bytes decoded": ("skhash", OURS),
        "RQ": ("RQ", PALE),
        "OPQ": ("OPQ", LIGHT),
        "PQ": ("PQ", OTHER),
    }
    for method, (label, color) in lines.items():
        rows = records(results["bytes"].minilm, method=method)
        at = column(rows, "code bytes"), column(rows, "10@10")
        ax.plot(*at, "o-", color=color, label=label)
    ax.set_xscale("log", base=2)
    ax.set_xticks([4, 8, 16], ["4", "8", "16"])
    ax.set(title="Recall against bytes", xlabel="bytes a vector", ylabel="10@10")


def draw_text(ax, results):
    lines = {
        "neighbor": ("semantic_hashing_neighbor", "NeighborHash", OURS),
        "independent": ("semantic_hashing", "autoencoder", LIGHT),
        "SGH": ("semantic_hashing", "SGH", PALE),
        "ITQ": ("semantic_hashing", "ITQ", OTHER),
    }
    for method, (file, label, color) in lines.items():
        rows = records(results[file].found, method=method)
        at = column(rows, "bits"), column(rows, "Precision@100")
        ax.plot(*at, "o-", color=color, label=label)
    ax.set_xscale("log", base=2)
    ax.set_xticks([8, 16, 32, 64, 128], ["8", "16", "32", "64", "128"])
    ax.set(title="Messages of a group", xlabel="bits", ylabel="Precision@100")


def draw_labels(ax, results):
    names = {
        "default": "DualHash",
        "hashnet": "HashNet",
        "contrastive": "contrast",
        "cross_entropy": "cross-entropy",
        "ITQ": "ITQ",
    }
    table = results["supervised_hashing"].separate_32
    values = column([records(table, method=name)[0] for name in names], "mAP")
    colors = [OURS] * (len(names) - 1) + [OTHER]
    ax.barh(list(names.values()), values, color=colors)
    ax.invert_yaxis()
    ax.set(title="Codes from labels", xlabel="mAP, 32 bits")


def draw_networks(ax, results):
    names = {"newsgroups": "texts", "fashion 10k": "images,\n10 000"}
    names["fashion 60k"] = "images,\n55 000"
    table = results["sbn_twin"].test
    places = range(len(names))
    twins = [
        next(r for r in records(table, data=n) if r["network"].startswith("relu"))
        for n in names
    ]
    ours = [records(table, data=name, network="default")[0] for name in names]
    bars = {
        "ten networks of bits": (-0.2, column(ours, "ece 10"), OURS),
        "ReLU units": (0.2, column(twins, "ece det"), OTHER),
    }
    for label, (beside, values, color) in bars.items():
        at = [place + beside for place in places]
        ax.bar(at, values, 0.4, color=color, label=label)
    ax.set_xticks(places, names.values())
    ax.set(title="Knowing what one knows", ylabel="calibration error, %", ylim=(0, 15))


def draw_gradients(ax, results):
    lines = {
        "gumbel 1.0": LIGHT,
        "st": OURS,
        "det_st": OTHER,
        "arm": PALE,
    }
    table = results["st_estimators"].gradients
    bits = [name.split(", ")[1] for name in table.formats if name.startswith("cos")]
    for name, color in lines.items():
        (row,) = records(table, estimator=name)
        cosines = [column([row], f"cosine, {n_bits}")[0] for n_bits in bits]
        ax.plot(bits, cosines, "o-", color=color, label=name)
    ax.axhline(0, color="0.4", linewidth=1)
    ax.set_ylim(-0.6, 0.65)
    ax.set(title="Gradient estimators", xlabel="bits", ylabel="cosine to the gradient")


PICTURES = {
    "search": draw_search,
    "bytes": draw_bytes,
    "text": draw_text,
    "labels": draw_labels,
    "networks": draw_networks,
    "gradients": draw_gradients,
}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    results = Results()
    with plt.rc_context(STYLE):
        for name, draw in PICTURES.items():
            figure, ax = plt.subplots(layout="constrained")
            draw(ax, results)
            if ax.get_legend_handles_labels()[0]:
                ax.legend(frameon=False, fontsize="small")
            path = folder / f"overview_{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
