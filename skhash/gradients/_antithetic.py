"""ARM and DisARM: pairs of antithetic states."""

import torch

from skhash.gradients._base import (
    UNITS,
    GradientEstimator,
    attach_gradient,
    uniform_like,
)


class ARM(GradientEstimator):
    """stub."""

    def __init__(self, n_samples=1):
        self.n_samples = n_samples

    def surrogate(self, function, logits, generator=None, *, units=UNITS, rows=None):
        log_odds = units.noise.log_odds(logits)
        with torch.no_grad():
            p = torch.sigmoid(log_odds)
            uniform = uniform_like(logits, generator, (self.n_samples,))
            first = units.values((uniform > 1 - p).to(logits.dtype))
            second = units.values((uniform < p).to(logits.dtype))
            difference = function(first) - function(second)
            gradient = (difference[..., None] * (uniform - 0.5)).mean(dim=0)
        return attach_gradient(function(first[0]), log_odds, gradient)
