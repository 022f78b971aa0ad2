"""The picture of an audit; the only module that draws."""

from skhash._audit._result import SEARCHES

FIGURE_SIZE = (8.5, 4.5)
# By search: its colour, and how the legend calls it.
STYLES = {
    "hamming": ("C0", "by Hamming distance"),
    "asymmetric": ("C1", "by real queries"),
}
# A peer's mark; each is filled after re-scoring and hollow without, as the curves are.
PEER_MARKS = {"sign": "s", "int8": "P", "pq": "^", "rabitq": "D"}
PEER_COLOR = "0.35"
PALE = {"linewidth": 0.8, "alpha": 0.3}
# Where the name of the recommendation ends, in shares of the axes: curves rise, so that
# the lower right is free.
NAME_CORNER = (0.97, 0.04)


def plot_audit(result, ax=None):
    """Draw recall against bytes per vector; see `AuditResult.plot`."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=FIGURE_SIZE, layout="constrained")
    settings = result.settings
    own = [row for row in result.rows if row.method not in PEER_MARKS]
    peers = [row for row in result.rows if row.method in PEER_MARKS]
    stages = (True, False) if result.is_rescored else (False,)
    for rescored in stages:
        for search in reversed(SEARCHES):
            _draw_search(ax, own, search, rescored, settings["rescore"])
    _draw_peers(ax, peers, stages)
    target = settings["target_recall"]
    ax.axhline(target, color="0.6", linewidth=1, zorder=0, label=f"target {target:g}")
    _name(ax, result.choice)
    _label(ax, settings, result.rows)
    # Beside the axes it hides no curve.
    ax.legend(
        fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0
    )
    return ax


def _style(rescored, color):
    """Return how a line or mark looks with or without re-scoring."""
    fill = color if rescored else "white"
    return {"color": color, "markerfacecolor": fill, "zorder": 3}


def _draw_search(ax, rows, search, rescored, rescore):
    """Draw a search: strong the best method of each length, and pale each method."""
    recall, size = SEARCHES[search]
    recall += "_rescored" if rescored else ""
    color, name = STYLES[search]
    line = "-" if rescored else ":"

    def draw(rows, *style, **options):
        points = sorted((getattr(row, size), getattr(row, recall)) for row in rows)
        ax.plot(*zip(*points, strict=True), *style, **options)

    for method in dict.fromkeys(row.method for row in rows):
        of_method = [row for row in rows if row.method == method]
        draw(of_method, line, color=color, **PALE)
    best = {}
    for row in sorted(rows, key=lambda row: getattr(row, recall)):
        best[getattr(row, size)] = row
    label = f"{name}, {rescore} re-scored" if rescored else name
    draw(best.values(), f"o{line}", label=label, **_style(rescored, color))


def _draw_peers(ax, rows, stages):
    for method in dict.fromkeys(row.method for row in rows):
        of_method = [row for row in rows if row.method == method]
        sizes = [row.bytes_per_vector for row in of_method]
        for rescored in stages:
            suffix = "_rescored" if rescored else ""
            recalls = [getattr(row, f"recall_asymmetric{suffix}") for row in of_method]
            style = _style(rescored, PEER_COLOR)
            # The legend has one entry a peer, which stands for both.
            label = method if rescored == stages[0] else None
            mark = PEER_MARKS[method]
            ax.plot(sizes, recalls, mark, label=label, markersize=5, **style)


def _name(ax, choice):
    """Draw a circle around the recommendation, and say in a corner what it is."""
    point = choice.n_bytes, choice.recall
    ax.plot(*point, "o", markersize=12, color="black", fillstyle="none", zorder=4)
    ax.text(
        *NAME_CORNER,
        f"recommended (circle):\n{choice.row.method} at {choice.row.n_bits} bits, "
        f"{choice.n_bytes} bytes a vector",
        transform=ax.transAxes,
        horizontalalignment="right",
        verticalalignment="bottom",
        fontsize="small",
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "0.6"},
        zorder=5,
    )


def _label(ax, settings, rows):
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    sizes = [size for row in rows for size in (row.code_bytes, row.bytes_per_vector)]
    # On a log axis the limits of a single point are far and odd.
    ax.set_xlim(min(sizes) / 1.3, max(sizes) * 1.3)
    ax.set_ylim(0, 1.03)
    kind = "sparse float32" if settings["sparse"] else "float32"
    ax.set_xlabel(
        f"bytes per vector in memory ({kind}: {settings['float_bytes_per_vector']:,})"
    )
    k = settings["k"]
    ax.set_ylabel(f"recall of the {k} nearest" if k > 1 else "recall of the nearest")
    ax.set_title(
        f"{settings['n_database']:,} vectors of {settings['n_features']:,} numbers, "
        f"{settings['metric'].replace('_', ' ')}",
        fontsize="medium",
    )
    ax.grid(alpha=0.3)
