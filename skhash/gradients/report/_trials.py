"""Drawn gradients against a reference, and the measurements that are made of them."""

from collections import namedtuple

import numpy as np
import torch

from skhash.utils.torch import widest_float

# The measurements of an estimator on a group of parameters; see `GradientReport`.
Row = namedtuple(
    "Row",
    "estimator group cosine cosine_low cosine_high improvement optimum rmse "
    "relative_rmse bias bias_floor spread n_zero",
)


class Reference:
    """The gradients that others are compared with: the mean of an estimator's.

    Parameters
    ----------
    problem : Problem
    estimator : GradientEstimator or NetworkGradient
    seeds : ndarray of shape (n_calls, n_batches)
        Of the gradients that it is the mean of.
    name : str

    Attributes
    ----------
    gradients : list of Tensor
        One a batch.
    squared_norms : ndarray of shape (n_batches, n_groups)
    squared_noise : ndarray of shape (n_groups,)
        The expected squared distance from the true gradient, summed over batches. The
        spread of the calls tells it.
    """

    def __init__(self, problem, estimator, seeds, name):
        n_calls, n_batches = seeds.shape
        groups = problem.groups.values()
        self.name, self.gradients, self.squared_noise = name, [], 0.0
        for batch in range(n_batches):
            mean, spread = 0.0, np.zeros(len(groups))
            for call, seed in enumerate(seeds[:, batch], start=1):
                change = problem.gradient(estimator, batch, int(seed)) - mean
                mean = mean + change / call
                spread += (call - 1) / call * group_sums(change * change, groups)
            self.gradients.append(mean)
            self.squared_noise += spread / (n_calls * max(n_calls - 1, 1))
        norms = [group_sums(each.square(), groups) for each in self.gradients]
        self.squared_norms = np.stack(norms)

    def relative_noise(self) -> np.ndarray:
        """Return the root of the noise over the norm, for each group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(self.squared_noise / self.squared_norms.sum(axis=0))


def group_sums(values, groups):
    """Sum the last axis within each group, in float64: shape (..., n_groups)."""
    dtype = widest_float(values.device)
    sums = [values[..., part].sum(dim=-1, dtype=dtype) for part in groups]
    return torch.stack(sums, dim=-1).cpu().numpy()


def measure(problem, label, estimator, reference, seeds) -> list[Row]:
    """Draw the gradient h of every trial and batch; return a row for each group.

    Kept of each gradient are the product ``<g, h>`` with the reference, ``|h|^2`` and
    ``|h - g|^2``, and in all the mean error of a batch.
    """
    groups = problem.groups.values()
    kept = np.empty((3, *seeds.shape, len(groups)))
    squared_biases = 0.0
    for batch, truth in enumerate(reference.gradients):
        mean = torch.zeros_like(truth)
        for trial, seed in enumerate(seeds[:, batch]):
            drawn = problem.gradient(estimator, batch, int(seed))
            error = drawn - truth
            values = torch.stack([truth * drawn, drawn * drawn, error * error])
            kept[:, trial, batch] = group_sums(values, groups)
            mean += (error - mean) / (trial + 1)
        squared_biases = squared_biases + group_sums(mean * mean, groups)
    of_groups = zip(
        problem.groups,
        np.moveaxis(kept, -1, 0),
        squared_biases / len(reference.gradients),
        reference.squared_noise / len(reference.gradients),
        reference.squared_norms.T,
        strict=True,
    )
    return [Row(label, group, *_measurements(*values)) for group, *values in of_groups]


def _measurements(kept, squared_bias, squared_noise, norms):
    products, squares, errors = kept
    n_trials, norm = len(products), np.sqrt(norms.mean())
    cosines = _ratio(products, np.sqrt(squares * norms)).mean(axis=1)
    error = errors.mean()
    variance = max(0.0, error - squared_bias) * n_trials / (n_trials - 1)
    floor = variance / n_trials + squared_noise
    # Relative to a gradient of zeros all is infinite, or NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.sqrt([error, squared_bias, floor, variance]) / norm
    return (
        float(cosines.mean()),
        *np.quantile(cosines, [0.15, 0.85]).tolist(),
        float(-_ratio(products.mean(), np.sqrt(squares.mean()))),
        float(-norm),
        float(np.sqrt(error)),
        *relative.tolist(),
        int((squares == 0).sum()),
    )


def _ratio(top, bottom):
    """Divide, with 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)
