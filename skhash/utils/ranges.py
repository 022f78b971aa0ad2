"""Constraints of numeric parameters; each is a list, to which more may be added."""

from numbers import Integral

from skhash.utils._sklearn import Interval

COUNT = [Interval(Integral, 1, None, closed="left")]
COUNT_FROM_0 = [Interval(Integral, 0, None, closed="left")]
