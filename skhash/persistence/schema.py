"""Declarations of the fitted attributes that files hold.

``_saved = {"components_": reals("n_bits", "n_features")}`` in the body of a class says
that `save` keeps this attribute, and that a file with another one is refused. A class
adds to what its bases declare. In ``_check_saved()`` it says what else must hold: what
was loaded is used without another look at it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

REAL, WHOLE = ("float32", "float64"), ("int64",)
# The largest number, and the smallest that is safe to divide by.
LARGEST, TINY = np.finfo(np.float64).max, np.finfo(np.float64).tiny


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Base of the declarations of a fitted attribute."""

    optional: bool = False  # whether it may be missing, or None

    def check(self, value, sizes) -> None:
        """Raise ``ValueError`` for another value.

        sizes : dict of int
            Sizes of arrays, by their names.
        """


@dataclass(frozen=True)
class Attribute(Declared):
    """A fitted attribute that is an array or, without a shape, a number.

    Parameters
    ----------
    types : tuple of str
        Names of types of NumPy, or their kinds.
    shape : tuple of str
        Names of sizes. A name stands for the same size in all arrays of an estimator;
        `n_features` is the number of its columns. ``...`` is any shape.
    low, high : float
        Bounds of the values, which are finite.
    """

    types: tuple[str, ...]
    shape: tuple = ()
    low: float = -LARGEST
    high: float = LARGEST

    def check(self, value, sizes):
        value = value.item() if isinstance(value, np.generic) else value
        if self.shape:
            self._check_shape(value, sizes)
        elif type(value) not in ((int, float) if self.types == REAL else (int,)):
            raise ValueError(f"is {str(value)[:50]!r} and no such number")
        array = np.asarray(value)
        if not self.shape and array.dtype.kind == "O":
            raise ValueError("is beyond 64 bits")
        if array.dtype.kind in "iuf" and array.size:
            least, most = array.min(), array.max()
            if not self.low <= least <= most <= self.high:
                raise ValueError(f"holds values from {least} to {most}")

    def _check_shape(self, array, sizes):
        if not isinstance(array, np.ndarray):
            raise ValueError("is missing, or no array")
        if not (_is_strings(array) and "U" in self.types):
            if not {array.dtype.name, array.dtype.kind} & {*self.types}:
                raise ValueError(f"is of type {array.dtype}")
        if self.shape == (...,):
            return
        if array.ndim != len(self.shape):
            raise ValueError(f"has shape {array.shape} and not {self.shape}")
        for size, name in zip(array.shape, self.shape, strict=True):
            if sizes.setdefault(name, size) != size or not size:
                raise ValueError(f"has {name}={size} instead of {sizes[name]}")


def _is_strings(array) -> bool:
    return array.dtype.kind in "OU" and all(isinstance(x, str) for x in array.flat)


@dataclass(frozen=True)
class Group(Declared):
    """A fitted attribute that is a list or a dict of arrays of any shapes."""

    cls: type

    def check(self, value, sizes):
        if type(value) is not self.cls:
            raise ValueError(f"is no {self.cls.__name__} of arrays")
        for array in value.values() if self.cls is dict else value:
            Attribute((*REAL, *WHOLE), (...,)).check(array, {})


@dataclass(frozen=True)
class Plain(Declared):
    """A fitted attribute of a plain type; its class checks the rest."""

    cls: type

    def check(self, value, sizes):
        if type(value) is not self.cls:
            raise ValueError(f"is {str(value)[:50]!r} and no {self.cls.__name__}")


@dataclass(frozen=True)
class Records(Plain):
    """A list of JSON values, of any length."""

    cls: type = list


@dataclass(frozen=True)
class Part(Declared):
    """A fitted attribute that is a fitted estimator, which has a method."""

    method: str

    def check(self, value, sizes):
        if not hasattr(value, self.method):
            raise ValueError(f"is a {type(value).__name__} without {self.method}")


@dataclass(frozen=True)
class Columns(Declared):
    """An attribute that is written and read by its own functions, and may be mapped.

    ``write(value)`` returns arrays by name and JSON values; ``read(arrays,
    values, n_features, verify)`` makes the value of `Arrays` again.
    """

    write: Callable
    read: Callable


def optional(declared):
    """Declare an attribute that may be missing, or None."""
    return replace(declared, optional=True)


def reals(*shape, **bounds):
    """Declare real numbers."""
    return Attribute(REAL, shape, **bounds)


def wholes(*shape, **bounds):
    """Declare whole numbers."""
    return Attribute(WHOLE, shape, **bounds)


def labels(name):
    """Declare classes."""
    return Attribute((*"iufbU",), (name,))


# Attributes of all estimators.
COMMON = {
    "n_features_in_": wholes(low=1),
    "feature_names_in_": optional(Attribute(("U",), ("n_features",))),
}


def declared_by(cls) -> dict:
    """Return the declarations of a class and its bases, by attribute."""
    declared = dict(COMMON)
    for base in reversed(cls.__mro__):
        declared |= vars(base).get("_saved", {})
    return declared


def check(estimator) -> None:
    """Raise ``ValueError`` unless fitted attributes match the declarations."""
    declared, values = declared_by(type(estimator)), vars(estimator)
    sizes = {"n_features": values.get("n_features_in_")}
    for name, attribute in declared.items():
        try:
            if not (attribute.optional and values.get(name) is None):
                attribute.check(values.get(name), sizes)
        except ValueError as error:
            raise ValueError(f"{name} {error}.") from error
    if hasattr(estimator, "_check_saved"):
        estimator._check_saved()
