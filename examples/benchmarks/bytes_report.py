"""Tables and the picture of what `bytes.py` measured."""

import statistics
from collections import defaultdict

import numpy as np
from drawing import finish, panels, powers_of_two
from loaders import TITLES
from result_files import Table, columns

COLUMNS = columns(
    "method | code bytes | search bytes | codebook, MB :.2f | 10@10 :.3f | "
    "10@100 :.3f | +- :.3f | seeds | fit, s :.1f | rows/s :,.0f | options"
)
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


def tables_of(content):
    """Return a table for each set by its title, and what was left out."""
    found, tables = tests(content), {}
    for data in dict.fromkeys(key[0] for key in found):
        own = {key[1:]: cells for key, cells in found.items() if key[0] == data}
        tables[TITLES[data]] = Table(COLUMNS, [_row(*item) for item in _by_memory(own)])
    rows = [list(item) for item in content["left_out"].items()]
    tables["Left out"] = Table({"left out": "", "because": ""}, rows)
    return tables


def _by_memory(found):
    return sorted(found.items(), key=lambda item: item[1][0]["memory_bytes"])


def _row(key, cells):
    first, measures = cells[0], ("10@10", "10@100")
    sizes = first["code_bytes"], first["memory_bytes"], first["codebook_bytes"] / 1e6
    recalls = [mean(cells, measure) for measure in measures]
    spread = max(half_range(cells, measure) for measure in measures)
    times = [
        statistics.median(cell[name] for cell in cells)
        for name in ("fit_seconds", "encoded_per_second")
    ]
    options = ", ".join(f"{name} {value}" for name, value in first["options"].items())
    return [key[0], *sizes, *recalls, spread, len(cells), *times, options]


def draw(content, path):
    """Draw recall 10@10 against the bytes that a search needs, a panel a set."""
    found = tests(content)
    sets = list(dict.fromkeys(data for data, *_ in found))
    sets = [data for data in sets if data != "digits"] or sets
    figure, axes = panels([TITLES[data] for data in sets], size=(3.9, 4.2), sharey=True)
    for ax, data in zip(axes, sets, strict=True):
        for label, (color, line) in STYLES.items():
            points = curve(found, data, label)
            width, order = (3, 3) if label == OURS else (1.4, 2)
            if points:
                style = {"color": color, "linewidth": width, "zorder": order}
                ax.plot(*points, line, label=label, **style)
        powers_of_two(ax, [2**power for power in range(2, 10)])
        ax.set(xlabel="bytes a vector", ylim=(0, 1.02))
    axes[0].set_ylabel("share of the 10 nearest in the first 10")
    finish(figure, path, STYLES)


def curve(found, data, label):
    """Return bytes and recalls of a label; RaBitQ's numbers of bits make one curve."""
    points = sorted(
        (cells[0]["memory_bytes"], mean(cells, "10@10"))
        for (name, method, _), cells in found.items()
        if name == data
        and (method == label or (label == "RaBitQ" and method.startswith("RaBitQ")))
    )
    return list(zip(*points, strict=True))
