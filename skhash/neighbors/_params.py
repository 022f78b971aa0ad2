"""Parameters held against what `fit` takes, and other arguments."""

from functools import lru_cache
from numbers import Integral
from operator import attrgetter

from skhash.utils._sklearn import validate_parameter_constraints


def check_params(estimator) -> None:
    """Raise scikit-learn's ``ValueError`` for a parameter that `fit` would not take.

    Values that passed are remembered, as checking them takes as long as a small search.
    """
    cls = type(estimator)
    try:
        _check_values(cls, *_reader(cls)(estimator))
    except TypeError:  # a wrong value, or one that cannot be remembered
        estimator._validate_params()


def check_count(name, value):
    """Raise ``ValueError`` for what is no integer of at least 0."""
    if not isinstance(value, Integral) or value < 0:
        raise ValueError(f"{name} must be an integer of at least 0, got {value!r}.")


@lru_cache
def _reader(cls):
    return attrgetter(*cls._parameter_constraints)


@lru_cache(maxsize=256, typed=True)
def _check_values(cls, *values):
    constraints = cls._parameter_constraints
    params = dict(zip(constraints, values, strict=True))
    validate_parameter_constraints(constraints, params, caller_name=cls.__name__)
