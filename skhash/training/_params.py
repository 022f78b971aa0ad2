"""Weights of losses that change while a model is trained."""

from sklearn.base import BaseEstimator


class LinearSchedule(BaseEstimator):
    """A weight that goes from `start` to `end` in `n_steps` steps and stays there.

    Parameters
    ----------
    start, end : float
        The weight before the first step, and from step `n_steps` on.
    n_steps : int
        Steps of the optimizer, that is batches, not epochs.

    Examples
    --------
    >>> from skhash.training import LinearSchedule
    >>> warm_up = LinearSchedule(0.0, 1.0, n_steps=4)
    >>> [warm_up(step) for step in (0, 1, 4, 100)]
    [0.0, 0.25, 1.0, 1.0]
    """

    def __init__(self, start, end, n_steps) -> None:
        self.start = start
        self.end = end
        self.n_steps = n_steps

    def __call__(self, step: int) -> float:
        if step >= self.n_steps:
            return self.end
        return self.start + step / self.n_steps * (self.end - self.start)
