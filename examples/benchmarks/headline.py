"""Draw the picture of the README: recall against bytes, of sentence embeddings.

    python examples/benchmarks/headline.py docs/images/headline.png

It draws what ``bytes.py`` measured, as ``docs/results/bytes.json`` has it.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from result_files import Result

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "bytes.json"
OURS = "skhash"
# Of the table's methods: the name in the picture, and the colour.
METHODS = {
    "ours, bytes decoded": (OURS, "#c1121f"),
    "RQ": ("RQ", "#1d4e6b"),
    "OPQ": ("OPQ", "#2a9d5c"),
    "PQ": ("PQ", "#8fbf6a"),
    "RaBitQ": ("RaBitQ", "#7b2cbf"),
}
PANELS = {
    "10@10": "among the first 10 found",
    "10@100": "among the first 100 found,\nto be ranked again by the vectors",
}
FLOAT_BYTES = 4 * 384


def curves(table):
    """Return by method the rows of the table: bytes a search needs, and recalls."""
    result = {name: [] for name in METHODS}
    names = list(table.formats)
    for row in table.rows:
        record = dict(zip(names, row, strict=True))
        method = record["method"].partition(",")[0]
        name = record["method"] if record["method"] in METHODS else method
        if name in METHODS:
            result[name].append(record)
    return {
        name: sorted(rows, key=lambda one: one["search bytes"])
        for name, rows in result.items()
    }


def draw(axes, recall, found):
    for name, rows in found.items():
        label, colour = METHODS[name]
        bytes_, recalls = ([row[it] for row in rows] for it in ("search bytes", recall))
        width = 3.5 if label == OURS else 1.5
        axes.plot(bytes_, recalls, "o-", color=colour, linewidth=width, label=label)
    axes.plot(FLOAT_BYTES, 1, "s", color="#555555", label="float32")
    axes.set_xscale("log", base=2)
    ticks = [4, 16, 64, 256, FLOAT_BYTES]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set(xlabel="bytes a vector", ylim=(0.2, 1.03))
    axes.set_title(PANELS[recall], fontsize=11, loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("picture", type=Path)
    picture = parser.parse_args().picture
    found = curves(Result.read(RESULTS).minilm)
    figure, panels = plt.subplots(
        1, 2, figsize=(9, 4), sharey=True, layout="constrained"
    )
    for axes, recall in zip(panels, PANELS, strict=True):
        draw(axes, recall, found)
    panels[0].set_ylabel("share of the ten nearest")
    panels[1].legend(frameon=False, loc="lower right")
    figure.suptitle(
        "Ten nearest of sentence embeddings, by a few bytes of each",
        fontsize=13,
        x=0.01,
        ha="left",
    )
    figure.savefig(picture, dpi=160)


if __name__ == "__main__":
    main()
