"""Weights that change with the steps of training."""

import pickle

import pytest
from sklearn.base import clone

from skhash.training import LinearSchedule
from skhash.training._weights import weight_at


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (1.0, 0.05), (0.1, 0.7)])
@pytest.mark.parametrize("n_steps", [1, 3, 1000])
def test_it_starts_and_ends_where_it_says(start, end, n_steps):
    """Exactly, not up to rounding."""
    schedule = LinearSchedule(start, end, n_steps)
    assert schedule(0) == start
    for step in (n_steps, n_steps + 1, 10 * n_steps):
        assert schedule(step) == end


def test_steps_are_equal():
    schedule = LinearSchedule(2.0, -1.0, n_steps=6)
    assert [schedule(step) for step in range(8)] == pytest.approx(
        [2, 1.5, 1, 0.5, 0, -0.5, -1, -1]
    )


def test_without_steps_it_is_at_its_end():
    assert LinearSchedule(0.0, 0.3, n_steps=0)(0) == 0.3


def test_a_constant_schedule():
    assert {LinearSchedule(0.4, 0.4, 5)(step) for step in range(8)} == {0.4}


def test_schedules_are_parameters():
    """They can be cloned and pickled, and their own parameters set in a grid."""
    schedule = LinearSchedule(0.0, 1.0, n_steps=10)
    for copy in (clone(schedule), pickle.loads(pickle.dumps(schedule))):
        assert copy.get_params() == schedule.get_params()
    assert schedule.set_params(end=0.5)(10) == 0.5


def test_weight_at_takes_numbers_and_functions():
    assert weight_at(0.3, 7) == 0.3
    assert weight_at(1, 7) == 1.0
    assert weight_at(LinearSchedule(0.0, 1.0, 10), 7) == 0.7
    assert weight_at(lambda step: step**2, 7) == 49.0
    assert type(weight_at(1, 0)) is float
