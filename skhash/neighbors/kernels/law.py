"""How kernels make a score of the sum of a code and its level.

With the number that the level stands for, the score is ``sum + number`` or, of angles,
``term + times / number * sum``, and never below `floor`. Where codes have no levels,
the level 0 adds nothing.
"""

from collections import namedtuple

import numpy as np
from numba import float32, int64

from skhash.utils.kernels import inner_kernel
from skhash.utils.llvm import FLOAT, INT32, instruction

# spare, base, shift : int, of levels, see `skhash.numerics._levels`; term, times (0
# where scores are not of angles), nothing (the score of level 0, of angles), floor :
# float32.
Law = namedtuple("Law", "spare base shift term times nothing floor")


@instruction(float32)
def _as_float(code, pattern: int64):
    return code.bitcast(code.trunc(pattern, INT32), FLOAT)


@inner_kernel
def factor_and_term(law, level):
    """Return what the sum of a code is multiplied by, and what is added.

    level : int, its bytes
    """
    zero, level = np.float32(0), level >> law.spare
    number = _as_float((level + law.base) << law.shift) if level else zero
    if law.times == zero:
        return np.float32(1), number
    if number > zero:
        return law.times / number, law.term
    return zero, law.nothing
