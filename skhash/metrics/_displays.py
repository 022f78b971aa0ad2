"""Pictures of retrieval, in the manner of scikit-learn's displays.

A display keeps the numbers of a metric as attributes; `plot` draws them, and imports
matplotlib where it has to make a figure.
"""

from typing import Self

import numpy as np

from skhash.metrics._hamming import precision_at_k_score
from skhash.metrics._radius import (
    hamming_distance_histogram,
    hamming_precision_recall_curve,
)

FIGURE_SIZE = (5.5, 4)


class _Display:
    """Base of displays. A leaf writes `_measure` and `plot`."""

    @classmethod
    def from_estimator(
        cls, encoder, X_query, X_database, y_query, y_database, *, name=None, **kwargs
    ) -> Self:
        """Encode queries and database with an encoder, and plot the result.

        Parameters
        ----------
        encoder : object
            A fitted encoder, or a Pipeline that ends in one.
        X_query : {array-like, sparse matrix} of shape (n_queries, n_features)
            Vectors of the queries.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features)
            Vectors of the database.
        y_query : array-like of shape (n_queries,) or (n_queries, n_labels)
            Classes, or a 0/1 indicator matrix of several labels.
        y_database : array-like of shape (n_database,) or (n_database, n_labels)
            Labels of the database, in the same format.
        name : str, default=None
            Name in the plot; by default the class of the encoder.
        **kwargs : dict
            As in `from_predictions`.

        Returns
        -------
        display : object
            The display, with the plot.
        """
        codes = encoder.transform(X_query), encoder.transform(X_database)
        name = type(encoder).__name__ if name is None else name
        return cls.from_predictions(*codes, y_query, y_database, name=name, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        query_codes,
        database_codes,
        query_labels,
        database_labels,
        *,
        name=None,
        ax=None,
        plot_kwargs=None,
        **kwargs,
    ) -> Self:
        """Measure given codes, and plot the result.

        Parameters
        ----------
        query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
            Codes: bits 0/1, or packed bytes with ``packed=True``.
        database_codes : array-like of shape (n_database, n_bits) or \
                (n_database, n_bytes)
            Codes to rank, in the same format.
        query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
            Classes, or a 0/1 indicator matrix of several labels.
        database_labels : array-like of shape (n_database,) or (n_database, n_labels)
            Labels of the database, in the same format.
        name : str, default=None
            Name in the plot.
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        plot_kwargs : dict, default=None
            Options of `plot`, such as ``{"color": "black"}``.
        **kwargs : dict
            Options of the metric, such as ``exclude_self=True`` or ``packed=True``.

        Returns
        -------
        display : object
            The display, with the plot.
        """
        data = query_codes, database_codes, query_labels, database_labels
        display = cls(*cls._measure(*data, **kwargs), name=name)
        return display.plot(ax, **(plot_kwargs or {}))

    def _start(self, ax):
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=FIGURE_SIZE, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _draw_line(self, x, y, name, kwargs):
        options = {"marker": "o", "markersize": 3, "label": name or self.name}
        (self.line_,) = self.ax_.plot(x, y, **(options | kwargs))

    def _finish(self, xlabel: str, ylabel: str):
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)
        self.ax_.grid(alpha=0.3)
        if self.ax_.get_legend_handles_labels()[0]:
            self.ax_.legend(fontsize="small")
        return self


class HammingPrecisionRecallDisplay(_Display):
    """Plot of precision against recall of Hamming balls, one point per radius.

    Create it with `from_estimator` or `from_predictions`, which take the options of
    `hamming_precision_recall_curve`. By default, queries with nothing within a radius
    are left out of the precision at that radius (``empty_ball="skip"``). Counted as 0,
    they would pull the start of a long code's curve down to 0.

    Parameters
    ----------
    precision : array-like of shape (n_bits + 1,)
        Precision by radius.
    recall : array-like of shape (n_bits + 1,)
        Recall by radius.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Axes on which the curve is drawn.
    figure_ : matplotlib Figure
        Figure of the axes.

    See Also
    --------
    hamming_precision_recall_curve : Computes the curve.

    Examples
    --------
    >>> from skhash import ITQHash
    >>> from skhash.datasets import load_digits_retrieval
    >>> from skhash.metrics import HammingPrecisionRecallDisplay
    >>> data = load_digits_retrieval()
    >>> encoder = ITQHash(n_bits=16, random_state=0).fit(data.train)
    >>> display = HammingPrecisionRecallDisplay.from_estimator(
    ...     encoder,
    ...     data.query,
    ...     data.database,
    ...     data.query_labels,
    ...     data.database_labels,
    ... )
    >>> display.line_.get_label()
    'ITQHash'
    """

    def __init__(self, precision, recall, *, name=None) -> None:
        self.precision = precision
        self.recall = recall
        self.name = name

    @staticmethod
    def _measure(*data, empty_ball="skip", **kwargs):
        kwargs["empty_ball"] = empty_ball
        return hamming_precision_recall_curve(*data, **kwargs)[:2]

    def plot(self, ax=None, *, name=None, **kwargs) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        name : str, default=None
            Name in the legend; by default that of the display.
        **kwargs : dict
            Options of matplotlib's ``plot``.

        Returns
        -------
        display : HammingPrecisionRecallDisplay
            The display itself.
        """
        ax = self._start(ax)
        self._draw_line(self.recall, self.precision, name, kwargs)
        ax.set(xlim=(-0.02, 1.02), ylim=(0, 1.03))
        return self._finish("recall", "precision")


class PrecisionAtKDisplay(_Display):
    """Plot of the precision of the k nearest codes against k.

    Create it with `from_estimator` or `from_predictions`, which take the options of
    `precision_at_k_score`. By default, up to 30 numbers `k` are spaced evenly on a
    logarithmic scale, from 1 to the size of the database.

    Parameters
    ----------
    k : array-like of shape (n_k,), int
        Numbers of ranks.
    precision : array-like of shape (n_k,)
        Precision at each number of ranks.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Axes on which the curve is drawn.
    figure_ : matplotlib Figure
        Figure of the axes.

    See Also
    --------
    precision_at_k_score : Computes the precisions.

    Examples
    --------
    >>> from skhash.metrics import PrecisionAtKDisplay
    >>> codes, labels = [[0, 0], [0, 1], [1, 1]], [1, 0, 1]
    >>> display = PrecisionAtKDisplay.from_predictions([[0, 0]], codes, [1], labels)
    >>> display.k.tolist(), display.precision.round(2).tolist()
    ([1, 2, 3], [1.0, 0.5, 0.67])
    """

    def __init__(self, k, precision, *, name=None) -> None:
        self.k = k
        self.precision = precision
        self.name = name

    @staticmethod
    def _measure(*data, k=None, **kwargs):
        if k is None:
            n_ranked = len(data[1]) - kwargs.get("exclude_self", False)
            k = np.unique(np.geomspace(1, max(1, n_ranked), 30).round().astype(int))
        k = np.atleast_1d(k)
        return k, precision_at_k_score(*data, k=k, **kwargs)

    def plot(self, ax=None, *, name=None, **kwargs) -> Self:
        """Draw the curve, with k on a logarithmic scale.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        name : str, default=None
            Name in the legend; by default that of the display.
        **kwargs : dict
            Options of matplotlib's ``plot``.

        Returns
        -------
        display : PrecisionAtKDisplay
            The display itself.
        """
        ax = self._start(ax)
        self._draw_line(self.k, self.precision, name, kwargs)
        ax.set(xscale="log", ylim=(0, 1.03))
        return self._finish("number of codes retrieved, k", "precision")


class DistanceHistogramDisplay(_Display):
    """Plot of the distances of pairs that share a label, and of the others.

    Create it with `from_estimator` or `from_predictions`, which take the options of
    `hamming_distance_histogram`. Each histogram is normalized to sum to 1.

    Parameters
    ----------
    relevant : array-like of shape (n_bits + 1,), int
        Number of pairs that share a label, at each distance.
    irrelevant : array-like of shape (n_bits + 1,), int
        The other pairs.
    name : str, default=None
        Name in the title.

    Attributes
    ----------
    patches_ : list of matplotlib StepPatch
        The two histograms, relevant pairs first.
    ax_ : matplotlib Axes
        Axes on which the histograms are drawn.
    figure_ : matplotlib Figure
        Figure of the axes.

    See Also
    --------
    hamming_distance_histogram : Computes the histograms.
    class_distances : Computes the means of the two histograms.

    Examples
    --------
    >>> from skhash.metrics import DistanceHistogramDisplay
    >>> codes, labels = [[0, 0], [0, 1], [1, 1]], [1, 0, 1]
    >>> display = DistanceHistogramDisplay.from_predictions(
    ...     codes, codes, labels, labels, exclude_self=True
    ... )
    >>> display.relevant, display.irrelevant
    (array([0, 0, 2]), array([0, 4, 0]))
    """

    def __init__(self, relevant, irrelevant, *, name=None) -> None:
        self.relevant = relevant
        self.irrelevant = irrelevant
        self.name = name

    _measure = staticmethod(hamming_distance_histogram)

    def plot(self, ax=None, *, name=None, **kwargs) -> Self:
        """Draw the two histograms on top of each other.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        name : str, default=None
            Name in the title; by default that of the display.
        **kwargs : dict
            Options of matplotlib's ``stairs``.

        Returns
        -------
        display : DistanceHistogramDisplay
            The display itself.
        """
        ax = self._start(ax)
        histograms = {
            "pairs that share a label": self.relevant,
            "other pairs": self.irrelevant,
        }
        options = {"fill": True, "alpha": 0.5} | kwargs
        edges = np.arange(len(self.relevant) + 1) - 0.5
        self.patches_ = [
            ax.stairs(
                np.divide(counts, max(np.sum(counts), 1)), edges, label=label, **options
            )
            for label, counts in histograms.items()
        ]
        ax.margins(x=0.02, y=0.25)  # room for the legend
        if name or self.name:
            ax.set_title(name or self.name, fontsize="medium")
        return self._finish("Hamming distance", "share of pairs")
