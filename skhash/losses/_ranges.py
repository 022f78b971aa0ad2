"""Constraints of parameters of losses."""

from numbers import Integral, Real

from skhash.utils._sklearn import Interval, StrOptions

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
SHARE = [Interval(Real, 0, 1, closed="both")]
COUNT = [Interval(Integral, 1, None, closed="left")]
EPOCH = [Interval(Integral, 0, None, closed="left")]
AUTO = [*POSITIVE, StrOptions({"auto"})]
