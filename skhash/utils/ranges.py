"""Constraints of numeric parameters; each is a list, to which more may be added."""

from numbers import Integral, Real

from skhash.utils._sklearn import Interval, StrOptions

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
AUTO = [*POSITIVE, StrOptions({"auto"})]
SHARE = [Interval(Real, 0, 1, closed="both")]
SHARE_BELOW_1 = [Interval(Real, 0, 1, closed="left")]
PROPER_SHARE = [Interval(Real, 0, 1, closed="neither")]
COUNT = [Interval(Integral, 1, None, closed="left")]
COUNT_FROM_0 = [Interval(Integral, 0, None, closed="left")]
COUNT_FROM_2 = [Interval(Integral, 2, None, closed="left")]
