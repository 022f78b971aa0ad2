"""Pictures of benchmarks: panels side by side, and one legend beside them."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

DPI = 130


def panels(titles, n_columns=3, size=(3.8, 3.8), legend=True, **options):
    """Return a figure and an axes for each title, row by row."""
    n_columns = min(n_columns, len(titles))
    n_rows = -(-len(titles) // n_columns)
    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(size[0] * n_columns + 1.8 * legend, size[1] * n_rows),
        squeeze=False,
        layout="constrained",
        **options,
    )
    for ax in axes.flat[len(titles) :]:
        ax.set_axis_off()
    axes = axes.flat[: len(titles)]
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def powers_of_two(ax, ticks):
    """Let an axis of sizes double from tick to tick."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()


def finish(figure, path, order=None):
    """Write the figure with a legend of the labels of all panels, each once."""
    named = {}
    for ax in figure.axes:
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    names = [name for name in order or named if name in named]
    if names:
        lines = [named[name] for name in names]
        figure.legend(lines, names, loc="outside right center", frameon=False)
    figure.savefig(path, dpi=DPI)
    plt.close(figure)
