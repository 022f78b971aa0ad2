"""Charts of an audit, by matplotlib, for `AuditResult.plot` and, as SVG, its page."""

import io
import re
from html import escape

import numpy as np

from skhash.auditing.peers import PEERS
from skhash.auditing.result import SEARCHES

FIGURE_SIZE, SCORES_SIZE = (9.5, 4.5), (9.5, 2.8)
COLORS = {"hamming": "#1f6fd0", "asymmetric": "#d0571b", "peer": "#7a828d"}
LEGEND = {"hamming": "by Hamming distance", "asymmetric": "by real queries"}
# Marks of other engines; filled after re-scoring and hollow without, as curves are.
PEER_MARKS = dict(zip(PEERS, "sP^D", strict=True))
# The right lower corner of the recommendation's name, in shares of the axes: curves
# rise, so that it is free there.
NAME_CORNER = (0.97, 0.04)
N_BINS = 40
# Colours of a chart that follow the page's style, light or dark.
STYLE = {
    "#000000": "var(--front)",
    "#ffffff": "var(--back)",
    "#b0b0b0": "var(--edge)",
    "#cccccc": "var(--edge)",
    **{color: f"var(--{name})" for name, color in COLORS.items()},
}


def draw_recall(result, ax=None):
    """Draw recall against bytes per vector; see `AuditResult.plot`."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=FIGURE_SIZE, layout="constrained")
    target = result.settings["target_recall"]
    own = [row for row in result.rows if row.method not in PEERS]
    stages = (True, False) if result.is_rescored else (False,)
    for rescored in stages:
        for search in reversed(SEARCHES):
            _draw_search(ax, own, search, rescored, result.settings["rescore"])
    for method in PEERS:
        rows = [row for row in result.rows if row.method == method]
        for rescored in stages * bool(rows):
            # The legend has one entry a peer, which stands for both.
            label = method if rescored == stages[0] else None
            style = _style(ax, "peer", rescored) | {"label": label, "markersize": 5}
            ax.plot(*_points(rows, "asymmetric", rescored), PEER_MARKS[method], **style)
    ax.axhline(
        target, color=COLORS["peer"], linewidth=1, zorder=0, label=f"target {target:g}"
    )
    _name(ax, result.choice, result.settings["n_rows"])
    _label(ax, result)
    # Beside the axes it hides no curve.
    ax.legend(
        fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0
    )
    return ax


def _points(rows, search, rescored):
    """Return sizes and recalls of a search of some rows, by their sizes."""
    recall, size = SEARCHES[search]
    recall += "_rescored" * rescored
    points = sorted((getattr(row, size), getattr(row, recall)) for row in rows)
    return np.reshape(points, (-1, 2)).T


def _style(ax, color, rescored):
    """Return how a line or mark looks with or without re-scoring."""
    color = COLORS[color]
    fill = color if rescored else ax.get_facecolor()
    return {"color": color, "markerfacecolor": fill, "zorder": 3}


def _draw_search(ax, rows, search, rescored, rescore):
    """Draw a search: strong the best method of each length, and pale each method."""
    line, style = "-" if rescored else ":", _style(ax, search, rescored)
    for method in dict.fromkeys(row.method for row in rows):
        of_method = [row for row in rows if row.method == method]
        points = _points(of_method, search, rescored)
        ax.plot(*points, line, color=COLORS[search], linewidth=0.8, alpha=0.3)
    best = dict(_points(rows, search, rescored).T)  # of a size the last is the best
    label = LEGEND[search] + f", {rescore} re-scored" * rescored
    ax.plot(best.keys(), best.values(), f"o{line}", label=label, **style)


def _name(ax, choice, n_vectors):
    """Draw a circle around the recommendation, and its name in a corner."""
    point = choice.n_bytes, choice.recall
    ax.plot(*point, "o", markersize=12, color="black", fillstyle="none", zorder=4)
    ax.text(
        *NAME_CORNER,
        f"recommended (circle)\nfor {n_vectors:,} vectors:\n{choice.row.method} at "
        f"{choice.row.n_bits} bits, {choice.n_bytes} bytes",
        transform=ax.transAxes,
        horizontalalignment="right",
        verticalalignment="bottom",
        fontsize="small",
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "#cccccc"},
        zorder=2,  # below the points of curves
    )


def _label(ax, result):
    settings, k = result.settings, result.settings["k"]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    sizes = [
        size for row in result.rows for size in (row.code_bytes, row.bytes_per_vector)
    ]
    # On a log axis the limits of a single point are far and odd.
    ax.set_xlim(min(sizes) / 1.3, max(sizes) * 1.3)
    ax.set_ylim(0, 1.03)
    kind = "sparse float32" if settings["sparse"] else "float32"
    ax.set_xlabel(
        f"bytes per vector in memory ({kind}: {settings['float_bytes_per_vector']:,})"
    )
    ax.set_ylabel(f"recall of the {k} nearest" if k > 1 else "recall of the nearest")
    ax.set_title(
        f"{settings['n_database']:,} vectors of {settings['n_features']:,} numbers, "
        f"{settings['metric'].replace('_', ' ')}",
        fontsize="medium",
    )
    ax.grid(alpha=0.3)


def draw_scores(near, drawn, name, ax):
    """Draw how scores of true neighbours and of random pairs are distributed."""
    edges = _edges(np.concatenate([near, drawn]))
    for values, color, label in (
        (drawn, "peer", "random pairs"),
        (near, "hamming", "true neighbours"),
    ):
        shares = np.full(len(values), 1 / len(values))
        color = COLORS[color]
        ax.hist(values, edges, weights=shares, color=color, alpha=0.65, label=label)
    ax.locator_params(axis="x", integer=edges[0] % 1 == 0.5)
    ax.set_xlabel(name)
    ax.set_ylabel("share of pairs")
    ax.legend(fontsize="small")


def _edges(values) -> np.ndarray:
    """Return the edges of bins: about whole numbers where all values are such."""
    low, high = float(values.min()), float(values.max())
    if (values == np.round(values)).all():
        step = max(1, int(np.ceil((high - low + 1) / N_BINS)))
        return np.arange(low, high + step + 1, step) - 0.5
    return np.linspace(low, high, N_BINS + 1)


def write(draw, file, form, size) -> None:
    """Write a figure that `draw` fills, without a window or a state of the process."""
    import matplotlib.style
    from matplotlib.figure import Figure

    style = {"svg.fonttype": "none", "svg.hashsalt": f"{size}"}
    with matplotlib.style.context(["default", style]):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(file, format=form, dpi=150, metadata=metadata)


def svg(draw, size, points=()) -> str:
    """Return a figure as SVG for a page, in the colours of its style.

    draw : callable
        Fills axes.
    points : sequence of tuples (x, y, text)
        What is said of points under the pointer.
    """

    def draw_all(ax):
        draw(ax)
        for number, (x, y, _) in enumerate(points):
            ax.plot(x, y, "ko", markersize=9, alpha=0, zorder=9, gid=f"point-{number}")

    file = io.StringIO()
    write(draw_all, file, "svg", size)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"(?s)<metadata>.*?</metadata>", "", text)
    for color, name in STYLE.items():
        text = text.replace(color, name)
    for number, (_, _, said) in enumerate(points):
        group = f'<g id="point-{number}">'
        text = text.replace(group, f"<g><title>{escape(said)}</title>")
    # Several charts may be in a page, or in a notebook.
    return re.sub(r' id="[a-zA-Z0-9.]+_\d+"', "", text)
