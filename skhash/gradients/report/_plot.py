"""The picture of a gradient report; the only module of gradients that draws."""

LABELS = {
    "cosine": "cosine similarity to the true gradient",
    "improvement": "expected improvement (lower is better)",
    "rmse": "root mean squared error, relative",
    "bias": "bias, relative",
}
COLOR = "#1b6ca8"


def plot_report(report, ax=None, metric="cosine", group="all"):
    """Draw a measurement of every estimator; see `GradientReport.plot`."""
    if metric not in LABELS:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(LABELS)}.")
    groups = list(report.settings["groups"])
    if group == "all" and len(groups) == 1:
        group = groups[0]
    if group not in groups:
        raise ValueError(f"group={group!r} is not one of {', '.join(groups)}.")
    rows = [row for row in report.rows if row.group == group]
    if ax is None:
        import matplotlib.pyplot as plt

        size = (6, 1.1 + 0.34 * len(rows))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    for position, row in enumerate(rows):
        value, low, high = _measured(row, metric)
        ax.plot([low, high], [position, position], color=COLOR, alpha=0.45, linewidth=4)
        ax.plot(value, position, "o", color=COLOR)
    if metric == "bias":
        floors = [row.bias_floor for row in rows]
        ax.plot(floors, range(len(rows)), "|k", markersize=12, label="by chance alone")
        ax.legend(fontsize="small", framealpha=0.9, edgecolor="none")
    _draw_best(ax, report, rows, metric, group)
    ax.set_yticks(range(len(rows)), [row.estimator for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)  # in the order given, from the top
    if metric in ("rmse", "bias"):
        ax.set_xlim(left=0)
    ax.set_xlabel(LABELS[metric])
    ax.set_title(
        f"{group}, {report.settings['n_trials']} trials, "
        f"{100 * report.settings['confidence']:g}% intervals",
        fontsize="medium",
    )
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _measured(row, metric):
    """Return the value and the ends of its interval, RMSE relative as the bias is."""
    names = (metric, f"{metric}_low", f"{metric}_high")
    values = [getattr(row, name) for name in names]
    return [value / -row.optimum for value in values] if metric == "rmse" else values


def _draw_best(ax, report, rows, metric, group):
    """Draw where the best estimator would be, and where 0 is."""
    best = {"cosine": report.settings["cosine_ceiling"][group]}
    best["improvement"] = rows[0].optimum
    if metric in best:
        ax.axvline(best[metric], color="0.4", linestyle="--", linewidth=1, zorder=0)
        ax.axvline(0, color="0.8", linewidth=1, zorder=0)
