"""How good gradient estimators are on a model: `gradient_report`."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.utils import check_random_state

from skhash.gradients._base import UNITS, BernoulliUnits, GradientEstimator
from skhash.gradients._exact import Exact
from skhash.gradients._exact_network import ExactNetwork
from skhash.gradients._network import NetworkGradient
from skhash.gradients._report_measure import (
    N_BOOTSTRAP,
    FunctionProblem,
    ModuleProblem,
    flatten_given,
    given_reference,
    own_random,
    run_trials,
    sampled_reference,
)
from skhash.utils._sklearn import Interval, validate_params
from skhash.utils.torch import resolve_device

# Up to so many units the reference is an enumeration of all states.
MAX_EXACT_BITS = 12
# Samples of one call of a sampled reference: they bound its memory.
REFERENCE_CHUNK = 10


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
        from skhash.gradients._report_plot import plot_report

        return plot_report(self, ax, metric, group)


@validate_params(
    {
        "n_trials": [Interval(Integral, 2, None, closed="left")],
        "reference": [str, GradientEstimator, NetworkGradient, Mapping],
        "reference_samples": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "units": [BernoulliUnits, None],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
        "device": [str],
    }
)
def gradient_report(
    model,
    X,
    estimators,
    *,
    y=None,
    n_trials=100,
    reference="auto",
    reference_samples=1000,
    batch_size=None,
    units=None,
    confidence=0.7,
    random_state=None,
    device="cpu",
) -> GradientReport:
    r"""Measure how well gradient estimators do on a model, at its present parameters.

    Every estimator draws its gradient h many times, which is compared with a reference
    g. With E the mean over trials and batches, the measurements are the expected cosine
    similarity, the expected improvement, the root mean squared error and the bias:

    .. math::
        E \frac{\langle g, h \rangle}{|g| |h|}, \quad
        -\frac{E \langle g, h \rangle}{\sqrt{E |h|^2}}, \quad
        \sqrt{E |h - g|^2}, \quad
        \frac{|E h - g|}{|g|}

    The improvement is what a step along -h gains if its length is the best for this
    estimator: of ``E[-alpha <g, h> + alpha^2 |h|^2 / (2 eps)]``, at its minimum over
    alpha, the root, without a factor that all estimators share. It weighs bias against
    variance; its optimum is :math:`-\sqrt{E |g|^2}`.

    Parameters
    ----------
    model : callable, torch module or fitted encoder
        A function from values of units, shape (..., n_rows, n_bits), to losses, shape
        (..., n_rows): then the gradient is that of their mean over rows in the logits.
        Or a module with an attribute ``gradient``, that holds a gradient estimator, and
        the methods ``forward(X)`` and ``loss(outputs, X, y)``: then it is that of the
        loss in all parameters. Or an encoder that was trained with such a module, or a
        fitted `skhash.SBNClassifier`. The model is copied and stays as it is.
    X : array-like or Tensor of shape (n_rows, n_columns)
        For a function the logits, else the rows that the loss is computed on.
    estimators : list or dict
        Names as `resolve_gradient` knows them, or instances; a dict gives the labels.
        For a network, whose ``gradient`` is a `NetworkGradient`, those of
        `resolve_network_gradient`.
    y : array-like of shape (n_rows,) or None, default=None
        What the loss of a module takes besides; the classes, for a classifier.
    n_trials : int, default=100
        How often each estimator draws its gradient of each batch.
    reference : "auto", str, GradientEstimator or mapping, default="auto"
        What the true gradient is taken from. "auto" enumerates all states (`Exact`, or
        `ExactNetwork`) up to 12 units a layer and averages `ARM` above. An estimator is
        averaged over `reference_samples` samples. A mapping gives the gradient itself,
        under "logits" or the names of the parameters; it takes all rows to be one
        batch.
    reference_samples : int, default=1000
        How many samples a reference other than the exact one is averaged over.
    batch_size : int or None, default=None
        Rows in a batch, of which each has a gradient and reference of its own; by
        default all. A function sees all rows at once.
    units : BernoulliUnits or None, default=None
        Noise and coding; by default logistic and 0/1 for a function, and what a module
        has.
    confidence : float, default=0.7
        Of the intervals. That of the cosine is the central part of the trials; the
        others are of the bootstrap over trials.
    random_state : int, RandomState instance or None, default=None
        Draws the seeds, which are the same for every estimator.
    device : str, default="cpu"
        Where to compute.

    Returns
    -------
    report : GradientReport
        With ``rows``, ``settings``, ``to_frame()``, ``to_dict()`` and ``plot()``.

    Raises
    ------
    ValueError
        If an argument is out of its range, or `X` has no rows.
    TypeError
        If `model` is none of the three.

    Notes
    -----
    Of a module, the groups of parameters are the first components of their names, and
    "all"; of a network its layers. A classifier is measured with batch norms at rest,
    and with its present ``n_train_samples`` draws of the noise in each estimate. An
    estimator with a memory, such as a moving baseline, starts afresh and learns over
    the trials. A sampled reference has noise of its own, which enters every
    measurement: ``settings`` tell how much.

    References
    ----------
    A. Shekhovtsov and V. Yanush, "Reintroducing straight-through estimators as
    principled methods for stochastic binary networks", GCPR 2021; equations 61 to 66 of
    the preprint's appendix.

    Examples
    --------
    The loss ``(x w - 1)^2`` of three units. Straight-through is biased here. ZGR, for
    a quadratic function, and ARM are not: what they show is within chance.

    >>> import torch
    >>> from skhash.gradients import gradient_report
    >>> w = torch.tensor([1.0, -2.0, 0.5])
    >>> logits = torch.tensor([[1.0, -1.0, 1.5]])
    >>> report = gradient_report(
    ...     lambda x: (x @ w - 1).square(), logits, ["st", "zgr", "arm"],
    ...     n_trials=1000, random_state=0,
    ... )
    >>> report
    <GradientReport: 3 estimators, 1000 trials, reference Exact()>
    >>> [row.bias > 3 * row.bias_floor for row in report.rows]
    [True, False, False]
    """
    device = resolve_device(device)
    random = check_random_state(random_state)
    with own_random(device):
        problem = _make_problem(model, X, y, batch_size, units, device)
        estimators = _labelled(estimators, _resolver(problem))
        seeds = _seeds(random, n_trials, problem.n_batches)
        truth = _make_reference(problem, reference, reference_samples, random)
        trials = {
            label: run_trials(problem, estimator, truth, seeds)
            for label, estimator in estimators.items()
        }
    # What is relative to a gradient of zeros is infinite, or NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = _summarize_all(trials, problem, truth, confidence, random)
        noise = np.sqrt(truth.squared_noise / truth.squared_norms.sum(axis=0))
    ceiling = np.sqrt(np.clip(1 - noise**2, 0, 1))
    settings = {
        "n_trials": int(n_trials),
        "n_rows": problem.n_rows,
        "n_batches": problem.n_batches,
        "batch_size": problem.batch_rows,
        "n_bits": problem.widths[0] if len(problem.widths) == 1 else problem.widths,
        "groups": {name: s.stop - s.start for name, s in problem.groups.items()},
        "reference": truth.name,
        "reference_noise": dict(zip(problem.groups, noise.tolist(), strict=True)),
        "cosine_ceiling": dict(zip(problem.groups, ceiling.tolist(), strict=True)),
        "confidence": float(confidence),
        "random_state": (
            int(random_state) if isinstance(random_state, Integral) else None
        ),
        "device": str(device),
    }
    return GradientReport(rows, settings)


def _resolver(problem):
    """Return what makes estimators of one layer, or of a network."""
    from skhash.gradients import resolve_gradient, resolve_network_gradient

    return resolve_network_gradient if problem.is_network else resolve_gradient


def _labelled(estimators, resolve) -> dict[str, GradientEstimator | NetworkGradient]:
    """Return fresh estimators by label."""
    if isinstance(estimators, str | GradientEstimator | NetworkGradient):
        estimators = [estimators]
    if not isinstance(estimators, Mapping):
        labels = [e if isinstance(e, str) else repr(e) for e in estimators]
        twice = [label for label in labels if labels.count(label) > 1]
        if twice:
            raise ValueError(
                f"estimators has {twice[0]!r} more than once: give a dict from labels "
                "to estimators."
            )
        estimators = dict(zip(labels, estimators, strict=True))
    if not estimators:
        raise ValueError("estimators is empty: give at least one, such as ['st'].")
    return {str(label): resolve(e) for label, e in estimators.items()}


def _make_problem(model, X, y, batch_size, units, device):
    if hasattr(model, "_training_inputs"):
        model, X, y = model._training_inputs(X, y)
    elif not callable(model):
        raise TypeError(
            f"model={model!r} is neither a function of bits, nor a torch module with "
            "`gradient` and `loss`, nor a fitted encoder that was trained with one."
        )
    X = X.detach() if isinstance(X, torch.Tensor) else torch.as_tensor(np.asarray(X))
    if X.ndim != 2 or not len(X):
        raise ValueError(
            f"X has the shape {tuple(X.shape)}; it takes two axes and at least one row."
        )
    if not X.is_floating_point():
        X = X.to(torch.get_default_dtype())
    if not hasattr(model, "loss"):
        if y is not None or batch_size not in (None, len(X)):
            raise ValueError(
                "A function of bits sees all rows at once and no targets: leave "
                f"batch_size={batch_size!r} and y out, or pass a module with a loss."
            )
        return FunctionProblem(model, X, UNITS if units is None else units, device)
    gradient = getattr(model, "gradient", None)
    if not isinstance(gradient, GradientEstimator | NetworkGradient):
        raise TypeError(
            f"gradient={gradient!r} of this {type(model).__name__} is no gradient "
            "estimator, so there is nothing to exchange; pass a module that holds an "
            "instance of a class of skhash.gradients."
        )
    if units is not None and not hasattr(model, "units"):
        raise ValueError(
            f"units={units!r} cannot be set: this {type(model).__name__} has none. "
            "Leave units out."
        )
    if y is not None and len(y) != len(X):
        raise ValueError(f"y has {len(y)} rows, but X has {len(X)}.")
    return ModuleProblem(model, X, y, batch_size, units, device)


def _make_reference(problem, reference, n_samples, random):
    if isinstance(reference, Mapping):
        return given_reference(problem, flatten_given(problem, reference))
    if isinstance(reference, str) and reference == "auto":
        few = 0 < max(problem.widths, default=0) <= MAX_EXACT_BITS
        exact = "exact_network" if problem.is_network else "exact"
        few = few and (problem.is_network or len(problem.widths) == 1)
        reference = exact if few else "arm"
    estimator = _resolver(problem)(reference)
    # What draws: the estimator, or the one that a network has in each layer.
    part = getattr(estimator, "gradient", estimator)
    if isinstance(reference, str) and "n_samples" in part.get_params():
        part.set_params(n_samples=min(n_samples, REFERENCE_CHUNK))
    if isinstance(estimator, Exact | ExactNetwork):
        seeds, name = np.zeros((1, problem.n_batches), dtype=int), repr(estimator)
    else:
        per_call = getattr(part, "n_samples", 1)
        n_calls = max(2, -(-n_samples // per_call))  # from two on, their spread shows
        seeds = _seeds(random, n_calls, problem.n_batches)
        name = f"{type(part).__name__}, {n_calls * per_call} samples"
    return sampled_reference(problem, estimator, seeds, name)


def _seeds(random, *shape):
    """Return integers that seed torch."""
    return random.randint(np.iinfo(np.int32).max, size=shape)


def _bootstrap(random, sizes):
    """Return weights of resampled blocks, shape (N_BOOTSTRAP, n_blocks)."""
    n = len(sizes)
    weights = random.multinomial(n, np.full(n, 1 / n), size=N_BOOTSTRAP) * sizes
    return weights / weights.sum(axis=1, keepdims=True)


def _summarize_all(trials, problem, truth, confidence, random):
    """Return the rows of all estimators; one bootstrap sample serves them all."""
    sizes = next(iter(trials.values())).block_sizes
    weights = _bootstrap(random, np.ones(sizes.sum())), _bootstrap(random, sizes)
    return [
        row
        for label, kept in trials.items()
        for row in _summarize(label, problem, truth, kept, *weights, confidence)
    ]


def _summarize(label, problem, truth, trials, weights, block_weights, confidence):
    """Return the row of each group."""
    levels = 0.5 + 0.5 * confidence * np.array([-1, 1])
    n_trials, n_batches = trials.products.shape[:2]
    rows = []
    for number, group in enumerate(problem.groups):
        products, squares, errors = (
            values[..., number]
            for values in (trials.products, trials.squares, trials.errors)
        )
        reference_norms = truth.squared_norms[:, number]
        norm = np.sqrt(reference_norms.mean())
        cosines = _ratio(products, np.sqrt(squares * reference_norms)).mean(axis=1)
        # The mean over batches first: trials are what is resampled.
        products, errors = products.mean(axis=1), errors.mean(axis=1)
        mean_squares = squares.mean(axis=1)
        improvements = -_ratio(weights @ products, np.sqrt(weights @ mean_squares))
        improvement = -_ratio(products.mean(), np.sqrt(mean_squares.mean()))
        rmse = np.sqrt(errors.mean())
        gram = trials.block_products[number] / n_batches
        shares = trials.block_sizes / n_trials
        squared_bias = max(0.0, shares @ gram @ shares)
        resampled = (block_weights @ gram * block_weights).sum(axis=1)
        # Resampling adds its own noise to the norm, which is taken off again.
        resampled += squared_bias - resampled.mean()
        variance = max(0.0, errors.mean() - squared_bias) / (n_trials - 1)
        floor = np.sqrt(variance + truth.squared_noise[number] / n_batches)
        intervals = (
            np.quantile(cosines, levels),
            np.quantile(improvements, levels),
            np.sqrt(np.quantile(weights @ errors, levels)),
            np.sqrt(np.clip(np.quantile(resampled, levels), 0, None)) / norm,
        )
        cosine, improved, error, bias = (pair.tolist() for pair in intervals)
        rows.append(
            GradientRow(
                label,
                group,
                float(cosines.mean()),
                *cosine,
                float(improvement),
                *improved,
                float(-norm),
                float(rmse),
                *error,
                float(rmse / norm),
                float(np.sqrt(squared_bias) / norm),
                *bias,
                float(floor / norm),
                int((squares == 0).sum()),
            )
        )
    return rows


def _ratio(top, bottom):
    """Divide, with 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)
