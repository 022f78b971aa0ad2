"""How long an audit has run, and about how long it will."""

import math
import time

from skhash._audit._peers import PEERS
from skhash.utils.progress import duration


class Clock:
    """Times the steps of an audit, and says what is left from those that are done.

    What follows a fit takes about the same for every encoder of a length: codes are
    made, a decoder is fitted to them, and they are searched. So it is estimated by that
    of other methods at this length, or at the nearest one that is known. Another engine
    takes as long as its other lengths, or as an encoder before it is known. A fit takes
    as long as others of the method, or as the quickest where there is none yet. Between
    lengths times go with the square root of the bits: some steps hardly depend on them,
    and others are in proportion.

    Parameters
    ----------
    asked : list of tuples (method, n_bits)
        The steps; ``n_bits`` is None of engines that have one length.
    fitted_once : sequence of str
        Methods of which one fit serves all lengths.
    """

    def __init__(self, asked, fitted_once):
        self._asked, self._fitted_once = asked, fitted_once
        self._start = time.perf_counter()
        self._rests = {}  # seconds without the fit, by (is it a peer, bits)
        self._fits = {}  # seconds of fits and their weights, by method

    def finished(self, step, seconds, fit_seconds) -> None:
        """Take in a step that is done; ``fit_seconds`` is None where there was none."""
        method, bits = step
        kind = method if method in PEERS else None
        rest = seconds - (fit_seconds or 0)
        self._rests.setdefault(kind, {}).setdefault(bits or 1, []).append(rest)
        if fit_seconds is not None:
            spent, weight = self._fits.get(method, (0.0, 0.0))
            self._fits[method] = spent + fit_seconds, weight + self._weight(step)

    def _weight(self, step) -> float:
        """Return what the seconds of a fit go with."""
        method, bits = step
        if method in self._fitted_once:
            bits = max(other for one, other in self._asked if one == method)
        return math.sqrt(bits)

    def line(self, number) -> str:
        """Say how long it runs and what is left, before a step is measured."""
        passed = time.perf_counter() - self._start
        if not self._rests:
            return ""
        left = self._fits_left(self._asked[number:])
        left += sum(self._rest(*step) for step in self._asked[number:])
        return f", {duration(passed)} passed, about {duration(left)} left"

    def _rest(self, method, bits) -> float:
        known = self._rests.get(method if method in PEERS else None)
        # Of this kind nothing is known: then as for an encoder of its length.
        known = known or next(iter(self._rests.values()))
        bits = bits or min(known)
        nearest = min(known, key=lambda other: abs(other - bits))
        mean = sum(known[nearest]) / len(known[nearest])
        return mean * math.sqrt(bits / nearest)

    def _fits_left(self, asked) -> float:
        """Return the seconds of fits that are left."""
        if not self._fits:
            return 0.0
        quickest = min(self._fits.values(), key=lambda fit: fit[0] / fit[1])
        left, begun = 0.0, set(self._fits)
        for step in asked:
            method = step[0]
            if method in PEERS or (method in self._fitted_once and method in begun):
                continue
            spent, known = self._fits.get(method, quickest)
            left += spent * self._weight(step) / known
            begun.add(method)
        return left
