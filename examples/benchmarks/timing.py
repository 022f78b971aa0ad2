"""Times of calls that take turns in one process, so that a busy machine harms all."""

import time
from statistics import median


def seconds_of(call, *arguments, **options):
    """Return the seconds that a call takes, and its answer."""
    start = time.perf_counter()
    answer = call(*arguments, **options)
    return time.perf_counter() - start, answer


def turns(calls, rounds, most_seconds=float("inf")):
    """Return the sorted seconds of each call; they take turns, after a first call each.

    Parameters
    ----------
    calls : dict of callable
    rounds : int
    most_seconds : float
        A call that has taken so long is left out of the rounds behind the second.
    """
    seconds = {name: [] for name in calls}
    for call in calls.values():
        call()
    for number in range(rounds):
        for name, call in calls.items():
            if number < 2 or sum(seconds[name]) < most_seconds:
                # Threads of the turn before may spin on for a while.
                time.sleep(0.02)
                seconds[name].append(seconds_of(call)[0])
    return {name: sorted(times) for name, times in seconds.items()}


def medians(calls, rounds):
    """Return the median seconds of each call; they take turns."""
    return {name: median(times) for name, times in turns(calls, rounds).items()}
