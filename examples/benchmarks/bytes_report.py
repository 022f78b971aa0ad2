"""Tables and the picture of what `bytes.py` measured."""

import statistics
from collections import defaultdict

import numpy as np
from growing_results import describe
from result_files import Table, save

FEATURES = {
    "digits": 64,
    "MiniLM": 384,
    "Fashion-MNIST": 784,
    "GloVe": 50,
    "GloVe 100k": 50,
}
TITLES = {
    "digits": "digits, 8 x 8",
    "Fashion-MNIST": "Fashion-MNIST images",
    "MiniLM": "MiniLM sentence embeddings",
    "GloVe": "GloVe word vectors",
    "GloVe 100k": "GloVe word vectors",
}
COLUMNS = {
    "method": "",
    "code bytes": "",
    "search bytes": "",
    "codebook, MB": ".2f",
    "10@10": ".3f",
    "10@100": ".3f",
    "+-": ".3f",
    "seeds": "",
    "fit, s": ".1f",
    "rows/s": ",.0f",
    "options": "",
}
OURS = "ours, bytes decoded"
# Colour, line and marker of what is drawn; what is not named here stands in the tables.
STYLES = {
    OURS: ("#c1121f", "o-"),
    "ours, bits decoded": ("#ef8a80", "o-"),
    "ours, Hamming": ("#ef8a80", "o:"),
    "RQ": ("#1b4965", "s--"),
    "LSQ": ("#5fa8d3", "D--"),
    "OPQ": ("#2a9d5c", "^--"),
    "PQ": ("#90be6d", "v--"),
    "RaBitQ": ("#7b2cbf", "P--"),
    "PCA, int8": ("0.55", "x--"),
}


def tests(content):
    """Return the cells of the test by (set, method, bytes), those of all seeds."""
    found = defaultdict(list)
    for name, cell in content["cells"].items():
        data, part, method, n_bytes, *_ = name.split("/")
        if part == "test":
            size = None if n_bytes == "None" else int(n_bytes)
            found[data, method, size].append(cell)
    return found


def mean(cells, measure):
    return np.mean([cell["recalls"][measure] for cell in cells])


def half_range(cells, measure):
    return np.ptp([cell["recalls"][measure] for cell in cells]) / 2


def show(content):
    """Print the tables."""
    print(describe(content["head"]))
    for name, table in tables_of(content).items():
        print(f"\n## {name}")
        table.printed()


def save_tables(content, path):
    """Save the tables for the documentation."""
    tested = [name for name in content["cells"] if "/test/" in name]
    seeds = sorted({int(name.split("/")[4]) for name in tested})
    save(path, tables_of(content), seeds=seeds, measured=content["head"])


def tables_of(content):
    """Return a table for each set, and others where there is something to say."""
    found, tables = tests(content), {}
    for data in dict.fromkeys(key[0] for key in found):
        own = {key[1:]: cells for key, cells in found.items() if key[0] == data}
        name = data.lower().replace("-", "_").replace(" ", "_")
        tables[name] = Table(COLUMNS, [_row(*item) for item in _by_memory(own)])
    if content.get("speed"):
        tables["speed"] = _speed(content["speed"])
    if content["left_out"]:
        rows = [list(item) for item in content["left_out"].items()]
        tables["left_out"] = Table({"left out": "", "because": ""}, rows)
    return tables


def _by_memory(found):
    return sorted(found.items(), key=lambda item: item[1][0]["memory_bytes"])


def _row(key, cells):
    first = cells[0]
    return [
        key[0],
        first["code_bytes"],
        first["memory_bytes"],
        first["codebook_bytes"] / 1e6,
        mean(cells, "10@10"),
        mean(cells, "10@100"),
        max(half_range(cells, measure) for measure in ("10@10", "10@100")),
        len(cells),
        statistics.median(cell["fit_seconds"] for cell in cells),
        statistics.median(cell["encoded_per_second"] for cell in cells),
        ", ".join(f"{name} {value}" for name, value in first["options"].items()),
    ]


def _speed(measured):
    columns = {"set": "", "n": ",", "method": "", "search bytes": "", "threads": ""}
    names = "set", "n", "method", "memory_bytes", "threads", "queries_per_second"
    rows = sorted(measured, key=lambda row: (row["set"], row["memory_bytes"]))
    rows = [[row[name] for name in names] for row in rows]
    return Table({**columns, "queries/s": ",.0f"}, rows)


def draw(content, path):
    """Draw recall 10@10 against the bytes that a search needs, a panel a set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = tests(content)
    sets = [data for data in FEATURES if any(key[0] == data for key in found)]
    sets = [data for data in sets if data != "digits"] or sets
    figure, axes = plt.subplots(
        1,
        len(sets),
        figsize=(3.9 * len(sets) + 1.6, 4.2),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    named = {}
    for ax, data in zip(axes[0], sets, strict=True):
        for label, (color, line) in STYLES.items():
            points = curve(found, data, label)
            width, order = (3, 3) if label == OURS else (1.4, 2)
            if points:
                (named[label],) = ax.plot(
                    *points, line, color=color, linewidth=width, zorder=order
                )
        ax.set_xscale("log", base=2)
        ticks = 2 ** np.arange(2, 10)
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_xlabel("bytes a vector")
        ax.set_title(f"{TITLES[data]}\n(float32: {4 * FEATURES[data]:,} bytes)")
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set(ylabel="share of the 10 nearest in the first 10", ylim=(0, 1.02))
    labels = [label for label in STYLES if label in named]
    handles = [named[label] for label in labels]
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110)


def curve(found, data, label):
    """Return bytes and recalls of a label; RaBitQ's numbers of bits make one curve."""
    points = sorted(
        (cells[0]["memory_bytes"], mean(cells, "10@10"))
        for (name, method, _), cells in found.items()
        if name == data
        and (method == label or (label == "RaBitQ" and method.startswith("RaBitQ")))
    )
    return list(zip(*points, strict=True))
