"""Declared parameters are those of an estimator written by hand."""

import inspect
from collections.abc import Callable
from dataclasses import field
from numbers import Integral, Real
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from cases import each
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

from skhash.utils.parameters import (
    ArrayLike,
    Count,
    NotNegative,
    RandomState,
    checked,
    with_parameters,
)


@with_parameters(kw_only=True)
class Base(BaseEstimator):
    size: Count = field(default=8, kw_only=False)
    device: str = "auto"
    step: NotNegative = 0.5


@with_parameters(kw_only=True)
class Named(Base):
    """Its annotations are strings, as `from __future__ import annotations` has them."""

    step: "NotNegative" = 0.1
    kind: "Literal['plain'] | None" = None


@with_parameters(kw_only=True)
class Declared(Base):
    step: NotNegative = 0.1
    kind: Literal["plain", "round"] | None = "plain"
    limit: Count | Literal["auto"] = "auto"
    share: Annotated[float, Interval(Real, 0, 1, closed="both")] = 1.0
    is_fast: bool = True
    sizes: ArrayLike | None = None
    change: Callable | None = None
    part: Base | None = None
    random_state: RandomState = None
    anything: Any = None


class Written(BaseEstimator):
    _parameter_constraints = {
        "size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "step": [Interval(Real, 0, None, closed="left")],
        "kind": [StrOptions({"plain", "round"}), None],
        "limit": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "share": [Interval(Real, 0, 1, closed="both")],
        "is_fast": ["boolean"],
        "sizes": ["array-like", None],
        "change": [callable, None],
        "part": [Base, None],
        "random_state": ["random_state"],
        "anything": "no_validation",
    }

    def __init__(
        self,
        size=8,
        *,
        device="auto",
        step=0.1,
        kind="plain",
        limit="auto",
        share=1.0,
        is_fast=True,
        sizes=None,
        change=None,
        part=None,
        random_state=None,
        anything=None,
    ):
        vars(self).update({n: v for n, v in locals().items() if n != "self"})


VALUES = [
    *(0, 1, -1, 0.5, 2, 2.0, np.int64(3), np.float32(0.25), True, None, "auto"),
    *("plain", "square", [1, 2], len, str, Base(), np.random.RandomState(0)),
]


def test_the_constructor_is_that_written_by_hand():
    found, wanted = (inspect.signature(cls).parameters for cls in (Declared, Written))
    assert {n: (p.kind, p.default) for n, p in found.items()} == {
        n: (p.kind, p.default) for n, p in wanted.items()
    }
    assert Declared(4, step=0).get_params() == Written(4, step=0).get_params()
    assert repr(Declared(4)) == repr(Written(4)).replace("Written", "Declared")
    with pytest.raises(TypeError, match="positional"):
        Declared(4, "cpu")
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Declared(other=1)


def test_annotations_may_be_strings():
    found = {
        name: list(map(str, c)) for name, c in Named._parameter_constraints.items()
    }
    wanted = Written._parameter_constraints
    assert found == {
        **{name: list(map(str, wanted[name])) for name in ("size", "device", "step")},
        "kind": [str(StrOptions({"plain"})), "None"],
    }


def message(call, *given, **options):
    """Return what a call raises, or None."""
    try:
        call(*given, **options)
    except InvalidParameterError as error:
        return str(error)
    return None


@each("name", [*Written._parameter_constraints])
def test_each_value_is_checked_as_by_hand(name):
    messages = [
        [message(cls(**{name: value})._validate_params) for value in VALUES]
        for cls in (Declared, Written)
    ]
    assert messages[0] == [m and m.replace("Written", "Declared") for m in messages[1]]
    assert any(messages[0]) == (name != "anything")
    assert not all(messages[0])


def test_arguments_of_a_function_are_checked_by_their_types():
    @checked
    def score(X, k: Count | ArrayLike = 10, *, ties: Literal["all"] = "all") -> float:
        return k

    assert score(None) == 10 and score("anything", [1, 2]) == [1, 2]
    assert "k" in message(score, None, 0)
    assert "'all'" in message(score, None, ties="none")
