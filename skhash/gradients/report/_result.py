"""What `gradient_report` returns."""

from dataclasses import dataclass

import numpy as np

# The measurements that have intervals.
MEASURED = ("cosine", "improvement", "rmse", "bias", "spread")


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
    improvement : float
        ``-E <g, h> / sqrt(E |h|^2)``: lower is better.
    optimum : float
        The improvement of the reference itself, ``-sqrt(E |g|^2)``.
    rmse : float
        ``sqrt(E |h - g|^2)``.
    bias : float
        The norm of the mean over trials of h - g, over that of g.
    bias_floor : float
        What `bias` comes to by chance where there is none: the standard deviation of h
        over the root of the number of trials, and the noise of the reference.
    spread : float
        The standard deviation of h, ``sqrt(E |h - E h|^2)``, over the norm of g.
    intervals : dict of str to tuple of two floats
        The ends of the intervals of cosine, improvement, rmse, bias and spread. That of
        the cosine is the central one of the trials, each the mean over its batches.
    n_zero : int
        In how many trials and batches h was zero.
    """

    estimator: str
    group: str
    cosine: float
    improvement: float
    optimum: float
    rmse: float
    bias: float
    bias_floor: float
    spread: float
    intervals: dict[str, tuple[float, float]]
    n_zero: int

    @property
    def relative_rmse(self) -> float:
        """The RMSE over ``sqrt(E |g|^2)``; infinite, as the bias, where g is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(self.rmse, -self.optimum))

    def to_dict(self) -> dict:
        """Return all as flat plain data: the ends of intervals as ``cosine_low``..."""
        fields = dict(vars(self)) | {"relative_rmse": self.relative_rmse}
        for name, (low, high) in fields.pop("intervals").items():
            fields |= {f"{name}_low": low, f"{name}_high": high}
        return fields


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
                f"  {'':{width}}  cosine  improvement      RMSE    spread      bias"
                "  by chance",
            ]
            lines += [
                f"  {row.estimator:{width}}  {row.cosine:6.3f}  {row.improvement:11.4g}"
                f"  {row.relative_rmse:8.3g}  {row.spread:8.3g}  {row.bias:8.3g}"
                f"  {row.bias_floor:9.2g}"
                for row in rows
            ]
        lines.append("RMSE, spread and bias are relative to the norm of the gradient.")
        return "\n".join(lines)

    def to_frame(self):
        """Return the rows as a pandas DataFrame, one column a measurement."""
        import pandas as pd

        return pd.DataFrame([row.to_dict() for row in self.rows])

    def to_dict(self) -> dict:
        """Return all as plain data, ready for JSON."""
        return {
            "settings": self.settings,
            "rows": [row.to_dict() for row in self.rows],
        }

    def plot(self, ax=None, metric=None, group="all"):
        """Draw measurements of every estimator, with their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        metric : {"cosine", "improvement", "rmse", "bias", "spread"}, default=None
            By default all five side by side, or the cosine where there is an `ax`.
            RMSE, bias and spread are relative to the norm of the reference. A dashed
            line is the optimum of the improvement, and the ceiling of the cosine. A
            tick is the bias that chance alone gives.
        group : str, default="all"
            Of parameters; where there is only one group, it is "all".

        Returns
        -------
        ax : matplotlib Axes, or ndarray of five Axes
        """
        from skhash.gradients.report._plot import plot_all, plot_metric

        if ax is None and metric is None:
            return plot_all(self, group)
        return plot_metric(self, ax, metric or "cosine", group)
