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

    def ends(self, values) -> np.ndarray:
        """Return the ends of the interval that holds the central part of values."""
        return np.quantile(values, self.levels)


def _bootstrap(random, sizes):
    n = len(sizes)
    weights = random.multinomial(n, np.full(n, 1 / n), size=N_BOOTSTRAP) * sizes
    return weights / weights.sum(axis=1, keepdims=True)


def summarize(trials_by_label, groups, truth, resampling) -> list[GradientRow]:
    """Return a row for each estimator and group of parameters."""
    # What is relative to a gradient of zeros is infinite, or NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        return [
            GradientRow(label, group, **_measure(trials, truth, number, resampling))
            for label, trials in trials_by_label.items()
            for number, group in enumerate(groups)
        ]


def _measure(trials, truth, group: int, resampling) -> dict:
    """Return the measurements of one estimator on one group, by their names."""
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
    improvement = -_ratio(products.mean(), np.sqrt(squares.mean()))
    improvements = -_ratio(
        resampling.trials @ products, np.sqrt(resampling.trials @ squares)
    )
    rmse = np.sqrt(errors.mean())
    rmse_ends = np.sqrt(resampling.ends(resampling.trials @ errors))
    bias, bias_ends, floor = _bias(trials, truth, group, resampling)
    return {
        **_with_ends("cosine", cosines.mean(), resampling.ends(cosines)),
        **_with_ends("improvement", improvement, resampling.ends(improvements)),
        "optimum": float(-norm),
        **_with_ends("rmse", rmse, rmse_ends),
        "relative_rmse": float(rmse / norm),
        **_with_ends("bias", bias / norm, bias_ends / norm),
        "bias_floor": float(floor / norm),
        "n_zero": n_zero,
    }


def _bias(trials, truth, group, resampling):
    """Return the norm of the bias, its ends, and what it is by chance without any."""
    n_trials, n_batches, _ = trials.errors.shape
    gram = trials.block_products[group] / n_batches
    shares = trials.block_sizes / n_trials
    squared = max(0.0, shares @ gram @ shares)
    resampled = (resampling.blocks @ gram * resampling.blocks).sum(axis=1)
    # Resampling adds its own noise to the norm, which is taken off again.
    resampled += squared - resampled.mean()
    error = trials.errors[..., group].mean(axis=1).mean()
    variance = max(0.0, error - squared) / (n_trials - 1)
    floor = np.sqrt(variance + truth.squared_noise[group] / n_batches)
    ends = np.sqrt(np.clip(resampling.ends(resampled), 0, None))
    return np.sqrt(squared), ends, floor


def _with_ends(name, value, ends) -> dict[str, float]:
    """Return a measurement and the ends of its interval under their names."""
    low, high = ends.tolist()
    return {name: float(value), f"{name}_low": low, f"{name}_high": high}


def _ratio(top, bottom):
    """Divide, with 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)
