"""Proximal maps of penalties that pull values to -1 and +1."""

import torch


def soft_threshold(x, threshold) -> torch.Tensor:
    """Move values towards 0 by `threshold`, not past it."""
    return x.sign() * (x.abs() - threshold).clamp(min=0)


def conjugate_prox(x, step, weight) -> torch.Tensor:
    """Proximal map of the conjugate of the W penalty.

    The conjugate of ``g(u) = weight | |u| - 1 |`` is ``|v|`` on [-weight, weight] and
    infinite beyond, so the map is a soft threshold at `step`, then a clip.

    Parameters
    ----------
    x : Tensor
    step : float
        Any above 0.
    weight : float
    """
    return soft_threshold(x, step).clamp(-weight, weight)


def w_prox(x, threshold) -> torch.Tensor:
    """Proximal map of ``threshold | |x| - 1 |``.

    Values move towards the nearer of -1 and +1 by `threshold`, not past it. At 0, where
    both are as near, it is +1.
    """
    nearer = torch.where(x < 0, -1.0, 1.0)
    return nearer * (1 + soft_threshold(x.abs() - 1, threshold))


def weakly_convex_prox(x, threshold) -> torch.Tensor:
    """Proximal map of ``threshold |x^2 - 1|``.

    Values beyond [-1, 1] shrink, not past -1 and +1. Within, the objective
    ``threshold (1 - z^2) + (z - x)^2 / 2`` is convex for a threshold below 1/2: values
    stretch, and there is no jump. From 1/2 on it is concave, least at an end: values
    become the nearer of -1 and +1, and 0 becomes +1.
    """
    nearer = torch.where(x < 0, -1.0, 1.0)
    beyond = (x.abs() / (1 + 2 * threshold)).clamp(min=1)
    if threshold >= 0.5:
        return nearer * beyond
    within = (x.abs() / (1 - 2 * threshold)).clamp(max=1)
    return nearer * within * beyond
