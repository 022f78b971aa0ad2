"""What `gradient_report` returns."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GradientRow:
    """The measurements of one estimator on one group of parameters.

    With g the reference and h the estimate of a trial; E is the mean over trials and
    batches. ``_low`` and ``_high`` end the interval of a measurement.

    Attributes
    ----------
    estimator, group : str
    cosine, cosine_low, cosine_high : float
        ``E <g, h> / (|g| |h|)``, a gradient of zeros counted as 0. The interval is the
        central one of the trials, each the mean over its batches.
    improvement, improvement_low, improvement_high : float
        ``-E <g, h> / sqrt(E |h|^2)``: lower is better.
    optimum : float
        The improvement of the reference itself, ``-sqrt(E |g|^2)``.
    rmse, rmse_low, rmse_high : float
        ``sqrt(E |h - g|^2)``.
    relative_rmse : float
        The same over ``sqrt(E |g|^2)``; infinite, as the bias, where g is zero.
    bias, bias_low, bias_high : float
        The norm of the mean over trials of h - g, over that of g.
    bias_floor : float
        What `bias` comes to by chance where there is none: the standard deviation of h
        over the root of the number of trials, and the noise of the reference.
    n_zero : int
        In how many trials and batches h was zero.
    """

    estimator: str
    group: str
    cosine: float
    cosine_low: float
    cosine_high: float
    improvement: float
    improvement_low: float
    improvement_high: float
    optimum: float
    rmse: float
    rmse_low: float
    rmse_high: float
    relative_rmse: float
    bias: float
    bias_low: float
    bias_high: float
    bias_floor: float
    n_zero: int


@dataclass(frozen=True, repr=False)
class GradientReport:
    """The measurements of `gradient_report`.

    Attributes
    ----------
    rows : list of GradientRow
        One an estimator and group, in the order in which they were asked for.
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
        width = max(len(row.estimator) for row in self.rows)
        lines = [repr(self)]
        for group, size in self.settings["groups"].items():
            rows = [row for row in self.rows if row.group == group]
            ceiling = self.settings["cosine_ceiling"][group]
            lines += [
                f"{group}: {size:,} parameters, best improvement "
                f"{rows[0].optimum:.4g}, cosine at most {ceiling:.3f}",
                f"  {'':{width}}  cosine  improvement  relative RMSE  bias (by chance)",
            ]
            lines += [
                f"  {row.estimator:{width}}  {row.cosine:6.3f}  {row.improvement:11.4g}"
                f"  {row.relative_rmse:13.3g}  {row.bias:.3g} ({row.bias_floor:.2g})"
                for row in rows
            ]
        return "\n".join(lines)

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def to_dict(self) -> dict:
        """Return all as plain data, ready for JSON."""
        return {
            "settings": self.settings,
            "rows": [dict(vars(row)) for row in self.rows],
        }

    def plot(self, ax=None, metric="cosine", group="all"):
        """Draw one measurement of every estimator, with its interval.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        metric : {"cosine", "improvement", "rmse", "bias"}, default="cosine"
            RMSE and bias are relative to the norm of the reference. A dashed line is
            the optimum of the improvement, and the ceiling of the cosine. A tick is the
            bias that chance alone gives.
        group : str, default="all"
            Of parameters; where there is only one group, it is "all".

        Returns
        -------
        ax : matplotlib Axes
        """
        from skhash.gradients.report._plot import plot_report

        return plot_report(self, ax, metric, group)
