"""The result of `gradient_report`: rows of measurements, a table and a plot."""

from dataclasses import asdict, dataclass

import numpy as np

# The measurements that a plot shows, with their labels.
PANELS = {
    "cosine": "cosine similarity",
    "improvement": "expected improvement",
    "relative_rmse": "RMSE, relative",
    "bias": "bias, relative (tick: by chance)",
    "spread": "spread, relative",
}


@dataclass(frozen=True, kw_only=True)
class GradientRow:
    """The measurements of one estimator on one group of parameters.

    With g the reference and h the estimate of a trial; E is the mean over trials and
    batches.

    Attributes
    ----------
    estimator, group : str
    cosine : float
        ``E <g, h> / (|g| |h|)``, a gradient of zeros counted as 0.
    cosine_low, cosine_high : float
        The ends of the central 70 % of the trials, each the mean over its batches.
    improvement : float
        ``-E <g, h> / sqrt(E |h|^2)``: lower is better.
    optimum : float
        The improvement of the reference itself, ``-sqrt(E |g|^2)``.
    rmse, relative_rmse : float
        ``sqrt(E |h - g|^2)``, and this over ``sqrt(E |g|^2)``.
    bias : float
        The norm of the mean over trials of h - g, over that of g.
    bias_floor : float
        The bias that chance alone would show where there is none: the standard
        deviation of h over the root of the number of trials, and the noise of the
        reference.
    spread : float
        The standard deviation of h, ``sqrt(E |h - E h|^2)``, over the norm of g.
    n_zero : int
        In how many trials and batches h was zero.
    """

    estimator: str
    group: str
    cosine: float
    cosine_low: float
    cosine_high: float
    improvement: float
    optimum: float
    rmse: float
    relative_rmse: float
    bias: float
    bias_floor: float
    spread: float
    n_zero: int

    @classmethod
    def of(cls, label, group, number, trials, truth) -> "GradientRow":
        """Measure the trials of an estimator on the group of this number."""
        kept = (trials.products, trials.squares, trials.errors)
        products, squares, errors = (values[..., number] for values in kept)
        n_trials, n_batches = products.shape
        norms = truth.squared_norms[:, number]
        norm = np.sqrt(norms.mean())
        cosines = _ratio(products, np.sqrt(squares * norms)).mean(axis=1)
        low, high = np.quantile(cosines, [0.15, 0.85]).tolist()
        error = errors.mean()
        squared_bias = trials.squared_biases[number] / n_batches
        variance = max(0.0, error - squared_bias) * n_trials / (n_trials - 1)
        floor = variance / n_trials + truth.squared_noise[number] / n_batches
        # Relative to a gradient of zeros all is infinite, or NaN.
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.sqrt([error, squared_bias, floor, variance]) / norm
        relative_rmse, bias, bias_floor, spread = relative.tolist()
        return cls(
            estimator=label,
            group=group,
            cosine=float(cosines.mean()),
            cosine_low=low,
            cosine_high=high,
            improvement=float(-_ratio(products.mean(), np.sqrt(squares.mean()))),
            optimum=float(-norm),
            rmse=float(np.sqrt(error)),
            relative_rmse=relative_rmse,
            bias=bias,
            bias_floor=bias_floor,
            spread=spread,
            n_zero=int((squares == 0).sum()),
        )


@dataclass(frozen=True, repr=False)
class GradientReport:
    """The measurements of `gradient_report`.

    Attributes
    ----------
    rows : list
        One an estimator and group, in the order in which they were asked for, with the
        attributes ``estimator``, ``group``, ``cosine``, ``cosine_low``,
        ``cosine_high``, ``improvement``, ``optimum``, ``rmse``, ``relative_rmse``,
        ``bias``, ``bias_floor``, ``spread`` and ``n_zero``.
    settings : dict
        What was measured: the reference, its ``reference_noise`` (its root mean squared
        error relative to its norm, for each group) and the ``cosine_ceiling`` that this
        noise puts on the cosine similarity of even the true gradient; numbers of trials
        and rows, groups with their numbers of parameters, and so on.
    """

    rows: list[GradientRow]
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
            [f"{cell:.3g}" if isinstance(cell, float) else cell for cell in line]
            for line in ([getattr(row, title) for title in titles] for row in self.rows)
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.rjust, line, widths)) for line in table]
        return "\n".join([repr(self), *lines])

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()["rows"])

    def to_dict(self) -> dict:
        """Return all as plain data, ready for JSON."""
        return {"settings": self.settings, "rows": [asdict(row) for row in self.rows]}

    def plot(self, group="all"):
        """Draw all measurements of every estimator side by side.

        RMSE, bias and spread are relative to the norm of the reference. A dashed line
        is the optimum of the improvement, and the ceiling of the cosine; a bar is the
        central 70 % of the trials, and a tick the bias that chance alone gives.

        Parameters
        ----------
        group : str, default="all"
            Of parameters; where there is only one group, it is "all".

        Returns
        -------
        axes : ndarray of five matplotlib Axes
        """
        import matplotlib.pyplot as plt

        groups = list(self.settings["groups"])
        group = groups[0] if group == "all" else group
        if group not in groups:
            raise ValueError(f"group={group!r} is not one of {', '.join(groups)}.")
        rows = [row for row in self.rows if row.group == group]
        places = range(len(rows))
        figure, axes = plt.subplots(
            1,
            len(PANELS),
            figsize=(2.3 * len(PANELS), 1.2 + 0.3 * len(rows)),
            sharey=True,
            layout="constrained",
        )
        for ax, (name, label) in zip(axes, PANELS.items(), strict=True):
            ax.plot([getattr(row, name) for row in rows], places, "o")
            ax.set_xlabel(label)
            ax.grid(axis="x", alpha=0.3)
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


def _ratio(top, bottom):
    """Divide, with 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)
