"""Charts of an audit, by matplotlib, for `AuditResult.plot` and, as SVG, its page."""

import io
import re
from html import escape

import numpy as np

from skhash.auditing.choices import SEARCHES, choices_in, name_of
from skhash.auditing.peers import PEERS

FIGURE_SIZE, SCORES_SIZE = (9.5, 4.5), (9.5, 2.8)
COLORS = {"hamming": "#1f6fd0", "asymmetric": "#d0571b", "peer": "#7a828d"}
# Marks of other engines; filled after re-ranking and hollow without, as curves are.
PEER_MARKS = dict(zip(PEERS, "sP^D", strict=True))
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
    settings, best = result.settings, result.choice
    stages = (True, False) if result.is_reranked else (False,)
    for is_reranked in stages:
        choices = choices_in(result, is_reranked)
        for search in reversed(SEARCHES):
            curve = [choice for choice in choices if choice.row.search == search]
            curve = [choice for choice in curve if choice.row.method not in PEERS]
            if curve:
                rerank = (settings["rerank"] or 0) * is_reranked
                _draw_search(ax, curve, search, rerank)
        for method, mark in PEER_MARKS.items():
            marked = [choice for choice in choices if choice.row.method == method]
            marked = [choice for choice in marked if choice.row.search == "asymmetric"]
            # The legend has one entry a peer, which stands for both.
            label = method if marked and is_reranked == stages[0] else None
            style = _style(ax, "peer", is_reranked) | {"label": label, "markersize": 5}
            ax.plot(*_points(marked), mark, **style)
    target = settings["target_recall"]
    style = {"color": COLORS["peer"], "linewidth": 1, "zorder": 0}
    ax.axhline(target, **style, label=f"target {target:g}")
    label = f"recommended: {name_of(best.row.method, best.row.n_bits)}"
    style = {"color": "black", "markersize": 12, "fillstyle": "none", "zorder": 4}
    ax.plot(best.row.bytes_per_vector, best.recall, "o", **style, label=label)
    _label(ax, result)
    # Beside the axes it hides no curve.
    place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1), "borderaxespad": 0}
    ax.legend(fontsize="small", **place)
    return ax


def _points(choices):
    """Return sizes and recalls, by sizes."""
    points = sorted((choice.row.bytes_per_vector, choice.recall) for choice in choices)
    return np.reshape(points, (-1, 2)).T


def _style(ax, color, is_reranked):
    """Return the style of a line or mark with or without re-ranking."""
    color = COLORS[color]
    fill = color if is_reranked else ax.get_facecolor()
    return {"color": color, "markerfacecolor": fill, "zorder": 3}


def _draw_search(ax, choices, search, rerank):
    """Draw one search: the best method of each length strong, the methods pale.

    rerank : number of candidates, 0 without re-ranking
    """
    line, style = "-" if rerank else ":", _style(ax, search, rerank)
    for method in dict.fromkeys(choice.row.method for choice in choices):
        points = _points(choice for choice in choices if choice.row.method == method)
        ax.plot(*points, line, color=COLORS[search], linewidth=0.8, alpha=0.3)
    best = dict(_points(choices).T)  # the last of a size is the best
    label = f"by {SEARCHES[search]}" + f", {rerank} re-ranked" * (rerank > 0)
    ax.plot(best.keys(), best.values(), f"o{line}", label=label, **style)


def _label(ax, result):
    settings, k = result.settings, result.settings["n_neighbors"]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    sizes = [row.bytes_per_vector for row in result.rows]
    ax.set_xlim(min(sizes) / 1.3, max(sizes) * 1.3)  # limits for a single point too
    ax.set_ylim(0, 1.03)
    floats, kind = settings["float_bytes_per_vector"], settings["vector_type"]
    ax.set_xlabel(f"bytes per vector in memory ({kind}: {floats:,})")
    ax.set_ylabel(f"recall of the {k} nearest" if k > 1 else "recall of the nearest")
    shape = f"{settings['n_database']:,} vectors of {settings['n_features']:,} numbers"
    metric = settings["metric"].replace("_", " ")
    ax.set_title(f"{shape}, {metric}", fontsize="medium")
    ax.grid(alpha=0.3)


def draw_scores(near, drawn, name, ax):
    """Draw histograms of the scores of true neighbours and of random pairs."""
    ax.ecdf(drawn, color=COLORS["peer"], label="random pairs")
    ax.ecdf(near, color=COLORS["hamming"], label="true neighbours")
    ax.set_xlabel(name)
    ax.set_ylabel("share up to this")
    ax.legend(fontsize="small", loc="lower right")


def write(draw, file, form, size) -> None:
    """Write a figure that `draw` fills, without window or global state."""
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
        Tooltips of points.
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
