"""Measurements of trials, and their intervals from a bootstrap."""

from dataclasses import dataclass

import numpy as np

from skhash.gradients.report._result import GradientRow

N_BOOTSTRAP = 500


@dataclass(frozen=True)
class Resampling:
    """Weights that resample trials, and blocks of trials, and the ends of intervals.

    Weights have shape (N_BOOTSTRAP, n_trials) and (N_BOOTSTRAP, n_blocks).
    """

    trials: np.ndarray
    blocks: np.ndarray
    levels: np.ndarray

    @classmethod
    def draw(cls, random, block_sizes, confidence):
        """Draw what serves all estimators and groups of a report."""
        trials = _bootstrap(random, np.ones(block_sizes.sum()))
        blocks = _bootstrap(random, block_sizes)
        return cls(trials, blocks, 0.5 + 0.5 * confidence * np.array([-1, 1]))

    def ends(self, values) -> tuple[float, float]:
        """Return the ends of the interval that holds the central part of values."""
        low, high = np.quantile(values, self.levels).tolist()
        return low, high


def _bootstrap(random, sizes):
    n = len(sizes)
    weights = random.multinomial(n, np.full(n, 1 / n), size=N_BOOTSTRAP) * sizes
    return weights / weights.sum(axis=1, keepdims=True)


def summarize(trials_by_label, groups, truth, resampling) -> list[GradientRow]:
    """Return a row for each estimator and group of parameters."""
    # What is relative to a gradient of zeros is infinite, or NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        return [
            _measure(label, group, trials, truth, number, resampling)
            for label, trials in trials_by_label.items()
            for number, group in enumerate(groups)
        ]


def _measure(label, name, trials, truth, group: int, resampling) -> GradientRow:
    """Return the measurements of one estimator on one group."""
    products, squares, errors = (
        kept[..., group] for kept in (trials.products, trials.squares, trials.errors)
    )
    norms = truth.squared_norms[:, group]
    norm = np.sqrt(norms.mean())
    cosines = _ratio(products, np.sqrt(squares * norms)).mean(axis=1)
    n_zero = int((squares == 0).sum())
    # The mean over batches first: trials are what is resampled.
    products, squares, errors = (
        values.mean(axis=1) for values in (products, squares, errors)
    )
    improvements = -_ratio(
        resampling.trials @ products, np.sqrt(resampling.trials @ squares)
    )
    bias, biases, spread, spreads, floor = _parts_of_error(
        trials, truth, group, resampling
    )
    resampled = {
        "cosine": cosines,
        "improvement": improvements,
        "rmse": np.sqrt(resampling.trials @ errors),
        "bias": biases / norm,
        "spread": spreads / norm,
    }
    return GradientRow(
        estimator=label,
        group=name,
        cosine=float(cosines.mean()),
        improvement=float(-_ratio(products.mean(), np.sqrt(squares.mean()))),
        optimum=float(-norm),
        rmse=float(np.sqrt(errors.mean())),
        bias=float(bias / norm),
        bias_floor=float(floor / norm),
        spread=float(spread / norm),
        intervals={key: resampling.ends(values) for key, values in resampled.items()},
        n_zero=n_zero,
    )


def _parts_of_error(trials, truth, group, resampling):
    """Return the norm of the bias and the standard deviation, each also resampled.

    And last the norm that the bias has by chance without any.
    """
    n_trials, n_batches, _ = trials.errors.shape
    gram = trials.block_products[group] / n_batches
    shares = trials.block_sizes / n_trials
    squared = max(0.0, shares @ gram @ shares)
    resampled = (resampling.blocks @ gram * resampling.blocks).sum(axis=1)
    # Resampling adds its own noise to the norm, which is taken off again.
    resampled += squared - resampled.mean()
    errors = trials.errors[..., group].mean(axis=1)
    blocks = np.repeat(np.arange(len(shares)), trials.block_sizes)
    block_errors = np.bincount(blocks, errors) / trials.block_sizes
    variance = max(0.0, errors.mean() - squared)
    variances = np.clip(resampling.blocks @ block_errors - resampled, 0, None)
    floor = np.sqrt(variance / (n_trials - 1) + truth.squared_noise[group] / n_batches)
    unbiased = n_trials / (n_trials - 1)
    return (
        np.sqrt(squared),
        np.sqrt(np.clip(resampled, 0, None)),
        np.sqrt(unbiased * variance),
        np.sqrt(unbiased * variances),
        floor,
    )


def _ratio(top, bottom):
    """Divide, with 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)
