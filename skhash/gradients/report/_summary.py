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
            _measure(label, group, number, trials, truth, resampling)
            for label, trials in trials_by_label.items()
            for number, group in enumerate(groups)
        ]


def _measure(label, group, number: int, trials, truth, resampling) -> GradientRow:
    """Return the measurements of one estimator on the group of this number."""
    products, squares, errors = (
        kept[..., number] for kept in (trials.products, trials.squares, trials.errors)
    )
    norms = truth.squared_norms[:, number]
    norm = np.sqrt(norms.mean())
    cosines = _ratio(products, np.sqrt(squares * norms)).mean(axis=1)
    n_zero = int((squares == 0).sum())
    # The mean over batches first: trials are what is resampled.
    n_trials, n_batches = products.shape
    products, squares, errors = (
        values.mean(axis=1) for values in (products, squares, errors)
    )
    improvements = -_ratio(
        resampling.trials @ products, np.sqrt(resampling.trials @ squares)
    )
    biases = _squared_biases(trials, number, resampling)
    variances = _variances(errors, trials.block_sizes, biases, resampling)
    noise = truth.squared_noise[number] / n_batches
    resampled = {
        "cosine": cosines,
        "improvement": improvements,
        "rmse": np.sqrt(resampling.trials @ errors),
        "bias": np.sqrt(biases[1:]) / norm,
        "spread": np.sqrt(variances[1:]) / norm,
    }
    return GradientRow(
        estimator=label,
        group=group,
        cosine=float(cosines.mean()),
        improvement=float(-_ratio(products.mean(), np.sqrt(squares.mean()))),
        optimum=float(-norm),
        rmse=float(np.sqrt(errors.mean())),
        bias=float(np.sqrt(biases[0]) / norm),
        bias_floor=float(np.sqrt(variances[0] / n_trials + noise) / norm),
        spread=float(np.sqrt(variances[0]) / norm),
        intervals={name: resampling.ends(values) for name, values in resampled.items()},
        n_zero=n_zero,
    )


def _squared_biases(trials, number, resampling):
    """Return the squared norm of the bias, and behind it the resampled ones."""
    gram = trials.block_products[number] / trials.errors.shape[1]
    shares = trials.block_sizes / len(trials.errors)
    resampled = (resampling.blocks @ gram * resampling.blocks).sum(axis=1)
    squared = shares @ gram @ shares
    # Resampling adds its own noise to the norm, which is taken off again.
    resampled += squared - resampled.mean()
    return np.clip([squared, *resampled], 0, None)


def _variances(errors, block_sizes, squared_biases, resampling):
    """Return what the squared error of trials has besides the bias, and resampled."""
    n_trials = block_sizes.sum()
    blocks = np.repeat(np.arange(len(block_sizes)), block_sizes)
    resampled = resampling.blocks @ (np.bincount(blocks, errors) / block_sizes)
    variances = [errors.mean(), *resampled] - squared_biases
    return np.clip(variances, 0, None) * n_trials / (n_trials - 1)


def _ratio(top, bottom):
    """Divide, with 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)
