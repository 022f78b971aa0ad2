"""Drawn gradients against a reference, and the few numbers that are kept of each."""

from dataclasses import dataclass

import numpy as np
import torch

from skhash.utils.torch import widest_float


@dataclass
class Reference:
    """The gradient that others are compared with, a flat tensor a batch.

    ``squared_noise`` estimates, for each group, the expected squared distance of this
    gradient from the true one, summed over batches; ``squared_norms`` are its own, of
    shape (n_batches, n_groups).
    """

    gradients: list[torch.Tensor]
    squared_noise: np.ndarray
    squared_norms: np.ndarray
    name: str

    def relative_noise(self) -> np.ndarray:
        """Return the root of the noise over the norm, for each group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(self.squared_noise / self.squared_norms.sum(axis=0))


def sampled_reference(problem, estimator, seeds, name):
    """Return the mean of an estimator's gradients, one a seed.

    Their spread tells the noise of the mean.
    """
    n_calls, n_batches = seeds.shape
    groups = problem.groups.values()
    gradients, noise = [], np.zeros(len(groups))
    for batch in range(n_batches):
        mean, spread = 0.0, np.zeros(len(groups))
        for call, seed in enumerate(seeds[:, batch], start=1):
            change = problem.gradient(estimator, batch, int(seed)) - mean
            mean = mean + change / call
            spread += (call - 1) / call * group_sums(change * change, groups)
        gradients.append(mean)
        noise += spread / (n_calls * max(n_calls - 1, 1))
    return Reference(gradients, noise, _squared_norms(gradients, groups), name)


def _squared_norms(gradients, groups):
    return np.stack([group_sums(gradient.square(), groups) for gradient in gradients])


def group_sums(values, groups):
    """Sum the last axis within each group, in float64: shape (..., n_groups)."""
    dtype = widest_float(values.device)
    sums = [values[..., part].sum(dim=-1, dtype=dtype) for part in groups]
    return torch.stack(sums, dim=-1).cpu().numpy()


@dataclass
class Trials:
    """Sums over an estimator's gradients h against the reference g.

    Arrays of shape (n_trials, n_batches, n_groups): products ``<g, h>``, squared norms
    ``|h|^2`` and ``|h - g|^2``. ``squared_biases`` are the squared norms of the mean
    errors, summed over batches, one a group.
    """

    products: np.ndarray
    squares: np.ndarray
    errors: np.ndarray
    squared_biases: np.ndarray


def run_trials(problem, estimator, reference, seeds):
    """Draw the gradient of every trial and batch and keep a few numbers of each."""
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
    return Trials(*kept, squared_biases)
