"""Parameters of estimators, declared in the body of the class.

With ``max_iter: Count = 50`` the constructor takes `max_iter`, 50 unless it is given,
and scikit-learn checks before a fit that it is in the range of `Count`. A parameter may
also be a strategy: a small estimator with parameters of its own, or its name.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from sklearn.base import BaseEstimator, clone

from skhash.utils._sklearn import Interval, StrOptions, validate_params

Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
CountFrom0 = Annotated[int, Interval(Integral, 0, None, closed="left")]
CountFrom2 = Annotated[int, Interval(Integral, 2, None, closed="left")]
AnyInt = Annotated[int, Integral]
Positive = Annotated[float, Interval(Real, 0, None, closed="neither")]
NotNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Finite = Annotated[float, Interval(Real, None, None, closed="neither")]
Share = Annotated[float, Interval(Real, 0, 1, closed="both")]
ShareBelow1 = Annotated[float, Interval(Real, 0, 1, closed="left")]
ProperShare = Annotated[float, Interval(Real, 0, 1, closed="neither")]
ArrayLike = Annotated[Any, "array-like"]
RandomState = Annotated[Any, "random_state"]
Verbose = Annotated[int, "verbose"]
Metric = Literal["euclidean", "cosine", "inner_product"]
# scikit-learn's names of types.
NAMES: dict = {bool: "boolean", NoneType: None, Callable: callable}


@dataclass_transform(field_specifiers=(field,))
def with_parameters(*, kw_only: bool = False) -> Any:
    """Decorate an estimator whose annotated attributes are its parameters.

    Parameters
    ----------
    kw_only : bool, default=False
        Whether the first parameter is keyword-only too, as all others always are;
        `dataclasses.field` makes exceptions.

    Examples
    --------
    >>> from skhash.base import BaseHasher
    >>> from skhash.utils.parameters import with_parameters
    >>> @with_parameters(kw_only=True)
    ... class CenteredHash(BaseHasher):
    ...     center: bool = True
    >>> CenteredHash._parameter_constraints["center"]
    ['boolean']
    """

    def decorate(cls):
        for first in [*cls.__annotations__][: not kw_only]:
            setattr(cls, first, field(default=getattr(cls, first), kw_only=False))
        cls = dataclass(cls, eq=False, repr=False, kw_only=True)
        kinds = get_type_hints(cls, include_extras=True)
        names = [parameter.name for parameter in fields(cls)]
        cls._parameter_constraints = {name: _constraint(kinds[name]) for name in names}
        cls.__init__.__annotations__ = {}  # `help` would print pages of them
        return cls

    return decorate


def checked(function):
    """Decorate a function: scikit-learn checks its arguments by their types."""
    kinds = get_type_hints(function, include_extras=True)
    kinds.pop("return", None)
    constraints = {name: _constraint(kind) for name, kind in kinds.items()}
    return validate_params(constraints)(function)


def _constraint(kind):
    """Return the constraint that scikit-learn checks for a type."""
    if kind is Any:
        return "no_validation"
    if get_origin(kind) is Annotated:
        return list(kind.__metadata__)
    if get_origin(kind) is Literal:
        return [StrOptions({*get_args(kind)})]
    if get_origin(kind) in (Union, UnionType):
        return [name for part in get_args(kind) for name in _constraint(part)]
    return [NAMES.get(get_origin(kind) or kind, kind)]


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
