"""Bytes that stand for numbers, against rounding by its definition."""

import numpy as np
import pytest
from decoded import in_a_byte

from skhash.neighbors.store.levels import levels_of, nearest_levels, unit_for


@pytest.mark.parametrize("power", [-140, -60, 0, 60, 119])
def test_numbers_are_rounded_to_floats_of_eight_bits(power):
    rng = np.random.default_rng(0)
    spreads = np.exp(rng.normal(size=300)), rng.random(300), np.arange(0, 508, 0.5)
    for numbers in spreads:
        numbers = (numbers * 2.0**power).astype(np.float32)
        unit = unit_for(numbers)
        levels = nearest_levels(numbers, unit)
        expected = in_a_byte(numbers).astype(np.float32)
        np.testing.assert_array_equal(levels_of(unit)[levels], expected)


def test_the_unit_is_the_least_that_reaches_all():
    assert [unit_for(np.float32([most])) for most in (508, 509, 254)] == [1, 2, 0.5]
    assert (nearest_levels(np.zeros(3), unit_for(np.zeros(3))) == 0).all()
    assert np.isfinite(levels_of(unit_for(np.float32([3.4e38])))).all()
    assert levels_of(unit_for(np.float32([1e-44])))[1] > 0


def test_levels_stay_in_a_larger_unit():
    """So what was rounded in a unit is not rounded otherwise in the next one."""
    levels = levels_of(1.0)
    again = levels_of(2.0)[nearest_levels(levels, 2.0)]
    np.testing.assert_array_equal(again[levels % 2 == 0], levels[levels % 2 == 0])
