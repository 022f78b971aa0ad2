"""The picture of a gradient report; the only module of gradients that draws."""

from skhash.gradients.report._result import MEASURED

LABELS = {
    "cosine": "cosine similarity to the true gradient",
    "improvement": "expected improvement (lower is better)",
    "rmse": "root mean squared error, relative",
    "bias": "bias, relative (tick: by chance alone)",
    "spread": "spread, relative",
}
SHORT_LABELS = LABELS | {
    "cosine": "cosine similarity",
    "improvement": "expected improvement",
    "rmse": "RMSE, relative",
    "bias": "bias (tick: by chance)",
}
COLOR = "#1b6ca8"


def plot_all(report, group):
    """Draw all measurements side by side, and return the array of Axes."""
    import matplotlib.pyplot as plt

    rows, group = _rows_of(report, group)
    figure, axes = plt.subplots(
        1,
        len(MEASURED),
        figsize=(2.3 * len(MEASURED), 1.2 + 0.3 * len(rows)),
        sharey=True,
        layout="constrained",
    )
    for ax, metric in zip(axes, MEASURED, strict=True):
        _draw(ax, report, rows, metric, group)
        ax.set_xlabel(SHORT_LABELS[metric])
    # The square of the first of the three is the sum of those of the others.
    errors = axes[-3:]
    right = max(ax.get_xlim()[1] for ax in errors)
    for ax in errors:
        ax.set_xlim(-0.04 * right, right)
    figure.suptitle(_title(report, group), fontsize="medium")
    return axes


def plot_metric(report, ax, metric, group):
    """Draw one measurement; see `GradientReport.plot`."""
    if metric not in LABELS:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(LABELS)}.")
    rows, group = _rows_of(report, group)
    if ax is None:
        import matplotlib.pyplot as plt

        size = (6, 1.1 + 0.34 * len(rows))
        _, ax = plt.subplots(figsize=size, layout="constrained")
    _draw(ax, report, rows, metric, group)
    ax.set_xlabel(LABELS[metric])
    ax.set_title(_title(report, group), fontsize="medium")
    return ax


def _rows_of(report, group):
    """Return the rows of a group, and its name."""
    groups = list(report.settings["groups"])
    if group == "all" and len(groups) == 1:
        group = groups[0]
    if group not in groups:
        raise ValueError(f"group={group!r} is not one of {', '.join(groups)}.")
    return [row for row in report.rows if row.group == group], group


def _title(report, group):
    return (
        f"{group}, {report.settings['n_trials']} trials, "
        f"{100 * report.settings['confidence']:g}% intervals"
    )


def _draw(ax, report, rows, metric, group):
    for position, row in enumerate(rows):
        # RMSE relative as the bias is.
        unit = -row.optimum if metric == "rmse" else 1.0
        low, high = (end / unit for end in row.intervals[metric])
        ax.plot([low, high], [position, position], color=COLOR, alpha=0.45, linewidth=4)
        ax.plot(getattr(row, metric) / unit, position, "o", color=COLOR)
    if metric == "bias":
        floors = [row.bias_floor for row in rows]
        ax.plot(floors, range(len(rows)), "|k", markersize=12)
    best = {
        "cosine": report.settings["cosine_ceiling"][group],
        "improvement": rows[0].optimum,
    }
    if metric in best:
        ax.axvline(best[metric], color="0.4", linestyle="--", linewidth=1, zorder=0)
        ax.axvline(0, color="0.8", linewidth=1, zorder=0)
    else:
        ax.set_xlim(left=0)
    ax.set_yticks(range(len(rows)), [row.estimator for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)  # in the order given, from the top
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
