"""Strategies: small objects with parameters, and names for them."""

from sklearn.base import BaseEstimator, clone


def resolved(value, names: dict, base: type, parameter: str) -> BaseEstimator:
    """Return a new strategy by name, or a clone of a given one.

    Parameters
    ----------
    value : str, None or instance of `base`
    names : dict
        The class of each name, which may be None.
    base : type
        The base class of the strategies.
    parameter : str
        The name of the caller's parameter.

    Raises
    ------
    ValueError
        If it is neither, or if one of its parameters is out of range.
    """
    if isinstance(value, base):
        strategy = clone(value)
    elif (value is None or isinstance(value, str)) and value in names:
        strategy = names[value]()
    else:
        raise ValueError(
            f"{parameter}={value!r} is not one of {', '.join(map(repr, names))}, nor "
            f"a {base.__name__}."
        )
    strategy._validate_params()
    return strategy
