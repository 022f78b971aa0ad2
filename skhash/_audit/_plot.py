"""The picture of an audit; the only module that draws."""

FIGURE_SIZE = (8.5, 4.5)
# So that the two curves of a method differ where they are one point each.
HOLLOW = {"markerfacecolor": "white"}


def plot_audit(result, ax=None):
    """Draw recall against bytes per vector; see `AuditResult.plot`."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=FIGURE_SIZE, layout="constrained")
    settings = result.settings
    methods = dict.fromkeys(row.method for row in result.rows)
    for number, method in enumerate(methods):
        rows = [row for row in result.rows if row.method == method]
        _draw_method(ax, method, rows, color=f"C{number}")
    target = settings["target_recall"]
    ax.axhline(target, color="0.6", linewidth=1, zorder=0, label=f"target {target:g}")
    _mark(ax, result.recommended)
    # The styles explained once, for all methods.
    rescored = f"after re-scoring {settings['rescore']}"
    ax.plot([], [], "o-", color="0.3", label=rescored)
    ax.plot([], [], "o:", color="0.3", label="Hamming distance alone", **HOLLOW)
    _label(ax, settings, sorted({row.bytes_per_vector for row in result.rows}))
    # Beside the axes it hides no curve.
    ax.legend(
        fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0
    )
    return ax


def _draw_method(ax, method, rows, color):
    rows = sorted(rows, key=lambda row: row.n_bits)
    sizes = [row.bytes_per_vector for row in rows]
    rescored = [row.recall_rescored for row in rows]
    ax.plot(sizes, rescored, "o-", color=color, label=method)
    ax.plot(sizes, [row.recall for row in rows], "o:", color=color, **HOLLOW)


def _mark(ax, best):
    ax.plot(
        best.bytes_per_vector,
        best.recall_rescored,
        "o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor="black",
        linestyle="none",
        label=f"recommended:\n{best.method} at {best.n_bits} bits",
    )


def _label(ax, settings, sizes):
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [f"{size}" for size in sizes])
    ax.minorticks_off()
    if len(sizes) == 1:  # on a log axis the limits of a single point are far and odd
        ax.set_xlim(sizes[0] / 2, sizes[0] * 2)
    ax.set_ylim(0, 1.03)
    kind = "sparse float32" if settings["sparse"] else "float32"
    ax.set_xlabel(f"bytes per vector ({kind}: {settings['float_bytes_per_vector']:,})")
    k = settings["k"]
    ax.set_ylabel(f"recall of the {k} nearest" if k > 1 else "recall of the nearest")
    ax.set_title(
        f"{settings['n_database']:,} vectors of {settings['n_features']:,} numbers, "
        f"{settings['metric'].replace('_', ' ')}",
        fontsize="medium",
    )
    ax.grid(alpha=0.3)
