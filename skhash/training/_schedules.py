"""How the step size falls while a net is trained."""

import math

from sklearn.base import BaseEstimator, clone


class LRSchedule(BaseEstimator):
    """A step size that stays as it is: the base of schedules."""

    def start_epoch(self, now: float, lr: float, epoch: int, n_epochs) -> float:
        """Return the step size of an epoch.

        Parameters
        ----------
        now, lr : float
            The step size as it is, and what it was at first.
        epoch : int
            Its number, from 0.
        n_epochs : int or None
            How many there will be, where that is known.
        """
        return now

    def end_step(self, now: float, n_steps: int) -> float:
        """Return the step size after so many steps, at least 1."""
        return now


class InverseSqrt(LRSchedule):
    """Step t is ``lr / sqrt(t)``; the count goes on in `partial_fit`.

    The size at hand is multiplied, so that one that is set on the way is gone on from.

    Examples
    --------
    >>> from skhash.training import InverseSqrt
    >>> round(InverseSqrt().end_step(0.1, n_steps=1), 4)
    0.0707
    """

    def end_step(self, now, n_steps):
        return now * (n_steps / (n_steps + 1)) ** 0.5


class Cosine(LRSchedule):
    """Epochs of half a period of a cosine: from ``lr`` down to 0.

    It needs to know the number of epochs, so that `partial_fit` goes on as it is.

    Examples
    --------
    >>> from skhash.training import Cosine
    >>> [round(Cosine().start_epoch(0.1, 0.1, i, n_epochs=4), 3) for i in range(4)]
    [0.1, 0.085, 0.05, 0.015]
    """

    def start_epoch(self, now, lr, epoch, n_epochs):
        if n_epochs is None:
            return now
        return lr * (0.5 * (1 + math.cos(math.pi * min(epoch / n_epochs, 1))))


class Steps(LRSchedule):
    """The step size is multiplied at some shares of the epochs.

    Parameters
    ----------
    shares : sequence of float, default=(0.6, 0.8)
    factor : float, default=0.1

    Examples
    --------
    >>> from skhash.training import Steps
    >>> [round(Steps().start_epoch(1.0, 1.0, i, n_epochs=10), 3) for i in (0, 6, 8)]
    [1.0, 0.1, 0.01]
    """

    def __init__(self, shares=(0.6, 0.8), factor=0.1):
        self.shares = shares
        self.factor = factor

    def start_epoch(self, now, lr, epoch, n_epochs):
        if n_epochs is None:
            return now
        n_falls = sum(epoch >= share * n_epochs for share in self.shares)
        return lr * self.factor**n_falls


SCHEDULES = {"cosine": Cosine, "inverse_sqrt": InverseSqrt, "step": Steps}


def resolve_schedule(schedule) -> LRSchedule:
    """Return the schedule of a name, of None, or a clone of the schedule itself.

    Parameters
    ----------
    schedule : str, LRSchedule or None
        None is a step size that stays.
    """
    if schedule is None:
        return LRSchedule()
    return SCHEDULES[schedule]() if isinstance(schedule, str) else clone(schedule)
