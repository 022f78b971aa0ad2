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
        """Encode queries and database, and draw.

        Parameters
        ----------
        encoder : object
            A fitted encoder, or a Pipeline that ends in one.
        X_query : {array-like, sparse matrix} of shape (n_queries, n_features)
            Vectors of the queries.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features)
            Vectors of the database.
        y_query : array-like of shape (n_queries,) or (n_queries, n_labels)
            Classes, or an indicator matrix.
        y_database : array-like of shape (n_database,) or (n_database, n_labels)
            Labels of the database, in the same format.
        name : str, default=None
            The name in the picture; by default the class of the encoder.
        **kwargs : dict
            As in `from_predictions`.

        Returns
        -------
        display : object
            Of this class.
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
        """Measure codes, and draw.

        Parameters
        ----------
        query_codes : array-like of shape (n_queries, n_bits) or (n_queries, n_bytes)
            Bits 0/1, or packed bytes with ``packed=True``.
        database_codes : array-like of shape (n_database, n_bits) or \
                (n_database, n_bytes)
            The codes to rank, in the same format.
        query_labels : array-like of shape (n_queries,) or (n_queries, n_labels)
            Classes, or an indicator matrix.
        database_labels : array-like of shape (n_database,) or (n_database, n_labels)
            Labels of the database, in the same format.
        name : str, default=None
            The name in the picture.
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        plot_kwargs : dict, default=None
            Passed to `plot`, such as ``{"color": "black"}``.
        **kwargs : dict
            Options of the metric, such as ``exclude_self=True`` or ``packed=True``.

        Returns
        -------
        display : object
            Of this class.
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
    """Precision against recall of Hamming balls, a point for each radius.

    Make it by `from_estimator` or `from_predictions`, which take the options of
    `hamming_precision_recall_curve`. Here queries with nothing within a radius are left
    out of its precision by default (``empty_ball="skip"``): counted as 0, they draw the
    curve of a long code down to 0 at its start.

    Parameters
    ----------
    precision : array-like of shape (n_bits + 1,)
        Precision by radius.
    recall : array-like of shape (n_bits + 1,)
        Recall by radius.
    name : str, default=None
        The name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    hamming_precision_recall_curve : The numbers.

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
            The name in the legend; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

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
    """Precision of the k nearest codes, over k.

    Make it by `from_estimator` or `from_predictions`, which take the options of
    `precision_at_k_score`. By default there are up to 30 numbers `k` in even ratios,
    from 1 to the size of the database.

    Parameters
    ----------
    k : array-like of shape (n_k,), int
        The numbers of ranks.
    precision : array-like of shape (n_k,)
        The precision at each.
    name : str, default=None
        The name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    precision_at_k_score : The numbers.

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
    def _measure(query_codes, database_codes, *labels, k=None, **kwargs):
        if k is None:
            n_ranked = len(database_codes) - kwargs.get("exclude_self", False)
            k = np.unique(np.geomspace(1, max(1, n_ranked), 30).round().astype(int))
        k = np.atleast_1d(k)
        data = query_codes, database_codes, *labels
        return k, precision_at_k_score(*data, k=k, **kwargs)

    def plot(self, ax=None, *, name=None, **kwargs) -> Self:
        """Draw the curve, with k in logarithms.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        name : str, default=None
            The name in the legend; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

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
    """Histograms of the distances of pairs that share a label and of the others.

    Make it by `from_estimator` or `from_predictions`, which take the options of
    `hamming_distance_histogram`. Each histogram is drawn as shares that add up to 1.

    Parameters
    ----------
    relevant : array-like of shape (n_bits + 1,), int
        Pairs that share a label, at each distance.
    irrelevant : array-like of shape (n_bits + 1,), int
        The other pairs.
    name : str, default=None
        The name in the title.

    Attributes
    ----------
    patches_ : list of matplotlib StepPatch
        The two histograms, relevant pairs first.
    ax_ : matplotlib Axes
        Where they are drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    hamming_distance_histogram : The numbers.
    class_distances : The means of the two histograms.

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
        """Draw the two histograms over each other.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default those of a new figure.
        name : str, default=None
            The name in the title; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's ``stairs``.

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
