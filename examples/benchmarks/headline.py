"""Draw the picture of the README: recall against bytes, of sentence embeddings.

    python examples/benchmarks/headline.py docs/images/headline.png

It draws what ``bytes.py`` measured, as ``docs/results/bytes.md`` has it.
"""

import sys

from tools import ROOT, finish, panels, powers_of_two, read_table

RESULTS = ROOT / "docs" / "results" / "bytes.md"
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


def curves(rows):
    """Return by method the rows: bytes that a search needs, and recalls."""
    result = {name: [] for name in METHODS}
    for row in rows:
        method = row["method"]
        name = method if method in METHODS else method.partition(",")[0]
        if name in METHODS:
            recalls = {recall: float(row[recall]) for recall in PANELS}
            result[name].append({"bytes": int(row["search bytes"]), **recalls})
    return {
        name: sorted(rows, key=lambda one: one["bytes"])
        for name, rows in result.items()
    }


def main(picture):
    found = curves(read_table(RESULTS, "MiniLM sentence embeddings"))
    figure, axes = panels(list(PANELS.values()), size=(4.5, 4), sharey=True)
    for ax, recall in zip(axes, PANELS, strict=True):
        for name, rows in found.items():
            label, color = METHODS[name]
            points = [(row["bytes"], row[recall]) for row in rows]
            style = {"color": color, "linewidth": 3.5 if label == OURS else 1.5}
            ax.plot(*zip(*points, strict=True), "o-", label=label, **style)
        ax.plot(FLOAT_BYTES, 1, "s", color="#555555", label="float32")
        powers_of_two(ax, [4, 16, 64, 256, FLOAT_BYTES])
        ax.set(xlabel="bytes a vector", ylim=(0.2, 1.03))
    axes[0].set_ylabel("share of the ten nearest")
    figure.suptitle("Ten nearest of sentence embeddings, by a few bytes of each")
    finish(figure, picture)


if __name__ == "__main__":
    main(sys.argv[1])
