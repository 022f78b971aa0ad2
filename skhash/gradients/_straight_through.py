"""Straight-through estimators: drawn values with a slope attached."""

from skhash.gradients._base import UNITS, LayerwiseGradient, attach_slope


class StraightThrough(LayerwiseGradient):
    """stub; the stochastic one of Hinton."""

    def sample(self, logits, generator=None, *, units=UNITS):
        values = units.draw(logits, generator)
        return attach_slope(values, logits, units.slope(logits))
