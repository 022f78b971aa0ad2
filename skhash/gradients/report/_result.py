"""The result of `gradient_report`: rows of measurements, a table and a plot."""

from dataclasses import dataclass
from typing import Any

from skhash.gradients.report._trials import Row

# The measurements that a plot shows, with their labels.
PANELS = {
    "cosine": "cosine similarity",
    "improvement": "expected improvement",
    "relative_rmse": "RMSE, relative",
    "bias": "bias, relative (tick: by chance)",
    "spread": "spread, relative",
}


@dataclass(frozen=True, repr=False)
class GradientReport:
    """Measurements of gradient estimators, as returned by `gradient_report`.

    Attributes
    ----------
    rows : list of named tuples
        One for each estimator and group of parameters, in the order given. With g the
        reference, h the estimate of a trial, and E the mean over trials and batches:

        * ``estimator`` and ``group``;
        * ``cosine``, ``E <g, h> / (|g| |h|)``, where a zero gradient counts as 0;
          ``cosine_low`` and ``cosine_high``, the ends of the central 70 % of the
          trials, each averaged over its batches;
        * ``improvement``, ``-E <g, h> / sqrt(E |h|^2)``: lower is better; ``optimum``,
          that of the reference itself, ``-sqrt(E |g|^2)``;
        * ``rmse``, ``sqrt(E |h - g|^2)``; ``relative_rmse``, divided by
          ``sqrt(E |g|^2)``, as are all of the following;
        * ``bias``, the norm of the mean over trials of h - g; ``bias_floor``, the bias
          that chance alone would show if there were none, from the standard deviation
          of h, the number of trials, and the noise of the reference;
        * ``spread``, the standard deviation of h, ``sqrt(E |h - E h|^2)``;
        * ``n_zero``, the number of trials and batches in which h was zero.
    settings : dict
        The reference, its ``reference_noise`` (its root mean squared error relative to
        its norm, for each group) and the ``cosine_ceiling`` that this noise puts on the
        cosine similarity of even the true gradient; numbers of trials, rows, batches
        and units, and groups with their numbers of parameters.
    """

    rows: list[Row]
    settings: dict

    def __repr__(self) -> str:
        return (
            f"<GradientReport: {len({row.estimator for row in self.rows})} estimators, "
            f"{self.settings['n_trials']} trials, reference "
            f"{self.settings['reference']}>"
        )

    def __str__(self) -> str:
        titles = ("group", "estimator", *PANELS, "bias_floor", "optimum")
        table = [titles] + [
            # A sum with 0 has no sign if it is 0.
            [f"{cell + 0:.3g}" if isinstance(cell, float) else cell for cell in line]
            for line in ([getattr(row, title) for title in titles] for row in self.rows)
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.rjust, line, widths)) for line in table]
        return "\n".join([repr(self), *lines])

    def plot(self, group="all") -> Any:
        """Plot all measurements of every estimator side by side.

        RMSE, bias and spread are relative to the norm of the reference. Dashed lines
        are the optimum of the improvement and the ceiling of the cosine. Error bars are
        the central 70 % of the trials, and ticks the bias that chance alone would show.

        Parameters
        ----------
        group : str, default="all"
            Group of parameters. If there is only one group, it is "all".

        Returns
        -------
        axes : ndarray of five matplotlib Axes
            One for each measurement.
        """
        import matplotlib.pyplot as plt

        groups = list(self.settings["groups"])
        group = groups[0] if group == "all" else group
        if group not in groups:
            raise ValueError(f"group={group!r} is not one of {', '.join(groups)}.")
        rows = [row for row in self.rows if row.group == group]
        places, size = range(len(rows)), (2.3 * len(PANELS), 1.2 + 0.3 * len(rows))
        figure, axes = plt.subplots(
            1, len(PANELS), figsize=size, sharey=True, layout="constrained"
        )
        for ax, (name, label) in zip(axes, PANELS.items(), strict=True):
            ax.plot([getattr(row, name) for row in rows], places, "o")
            ax.set_xlabel(label)
            ax.grid(axis="x", alpha=0.3)
            ax.locator_params(axis="x", nbins=4)
            ax.spines[["top", "right"]].set_visible(False)
        ends = [row.cosine_low for row in rows], [row.cosine_high for row in rows]
        axes[0].hlines(places, *ends, alpha=0.45, linewidth=4)
        axes[3].plot([row.bias_floor for row in rows], places, "|k", markersize=12)
        best = self.settings["cosine_ceiling"][group], rows[0].optimum
        for ax, value in zip(axes, best, strict=False):
            ax.axvline(value, color="0.4", linestyle="--", linewidth=1)
        # The square of the first of the three is the sum of those of the others.
        right = max(ax.get_xlim()[1] for ax in axes[2:])
        for ax in axes[2:]:
            ax.set_xlim(-0.04 * right, right)
        axes[0].set_yticks(places, [row.estimator for row in rows])
        axes[0].set_ylim(len(rows) - 0.4, -0.6)  # in the order given, from the top
        title = f"{group}, {self.settings['n_trials']} trials"
        figure.suptitle(title, fontsize="medium")
        return axes
