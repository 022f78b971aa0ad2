"""A number of each code in a byte: a float of eight bits.

Six bits are those of the fraction and two of the exponent, in units of a power of two:
bytes stand for 0 to 127 units one by one, then in steps of 2 and of 4, up to 508. So a
number is rounded by at most a 128th of itself, and a small one by half a unit.
"""

import numpy as np

_BYTES = np.arange(256)
_UNITS = np.where(_BYTES < 64, _BYTES, (64 + _BYTES % 64) * 2.0 ** (_BYTES // 64 - 1))
# The units that float32 has levels for.
SMALLEST, LARGEST = 2.0**-149, 2.0**119


def unit_for(numbers) -> float:
    """Return the unit for numbers of at least 0: the least that reaches them."""
    least = np.clip(float(numbers.max(initial=0)) / _UNITS[-1], SMALLEST, LARGEST)
    return float(2.0 ** np.ceil(np.log2(least)))


def levels_of(unit) -> np.ndarray:
    """Return the numbers that bytes stand for, (256,), float32."""
    return (unit * _UNITS).astype(np.float32)


def nearest_levels(numbers, unit) -> np.ndarray:
    """Return the bytes that stand for the nearest numbers, uint8."""
    middles = unit * (_UNITS[1:] + _UNITS[:-1]) / 2
    return np.searchsorted(middles, numbers).astype(np.uint8)
