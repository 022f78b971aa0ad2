"""Checks of parameters and other arguments."""

from functools import lru_cache
from math import inf, isfinite
from numbers import Integral, Real
from operator import attrgetter
from weakref import ref

from skhash.utils._sklearn import validate_parameter_constraints


def check_params(estimator) -> None:
    """Raise scikit-learn's ``ValueError`` for a parameter that `fit` would refuse.

    Values that passed are remembered, as the check is as slow as a small search.
    """
    cls = type(estimator)
    try:
        _check_values(cls, *map(_kept, _reader(cls)(estimator)))
    except TypeError:  # a wrong value, or one that cannot be remembered
        estimator._validate_params()


def check_count(name, value, least=0):
    """Raise ``ValueError`` unless `value` is an integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"{name} must be an integer of at least {least}, got {value!r}."
        )


def check_radius(radius, least=-inf):
    """Raise ``ValueError`` unless the radius is a finite number of at least `least`."""
    if not isinstance(radius, Real) or not isfinite(radius) or radius < least:
        at_least = "" if least == -inf else f" of at least {least}"
        raise ValueError(f"radius must be a finite number{at_least}, got {radius!r}.")


def check_candidates(k, rerank):
    """Raise ``ValueError`` if more neighbours are asked for than codes re-ranked."""
    if k > rerank:
        raise ValueError(f"rerank={rerank} must be at least n_neighbors={k}.")


@lru_cache
def _reader(cls):
    return attrgetter(*cls._parameter_constraints)


def _kept(value):
    """Return the key of a value in the cache, which keeps no estimator alive."""
    return ref(value) if hasattr(value, "fit") else value


@lru_cache(maxsize=256, typed=True)
def _check_values(cls, *values):
    constraints = cls._parameter_constraints
    values = [value() if type(value) is ref else value for value in values]
    params = dict(zip(constraints, values, strict=True))
    validate_parameter_constraints(constraints, params, caller_name=cls.__name__)
