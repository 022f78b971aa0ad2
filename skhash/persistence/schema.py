"""What a class declares of the fitted attributes that its files hold.

``_saved = {"components_": reals("n_bits", "n_features")}`` in the body of a class says
that `save` keeps this attribute, and that a file with another one is refused. A class
adds to what its bases declare. In ``_check_saved()`` it says what else must hold: what
was loaded is used without another look at it.
"""

from dataclasses import dataclass

import numpy as np

REAL, WHOLE = ("float32", "float64"), ("int64",)
# The largest number, and the least that may be divided by.
LARGEST, TINY = np.finfo(np.float64).max, np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Attribute:
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
        """Raise ``ValueError`` unless this is such a value; remember its sizes."""
        if self.shape:
            self._check_shape(value, sizes)
        elif type(value) not in ((int, float) if self.types == REAL else (int,)):
            raise ValueError(f"is {str(value)[:50]!r} and no such number")
        array = np.asarray(value)
        if array.dtype.kind == "O":
            raise ValueError("is beyond 64 bits")
        if array.dtype.kind in "iuf" and array.size:
            least, most = array.min(), array.max()
            if not self.low <= least <= most <= self.high:
                raise ValueError(f"holds values from {least} to {most}")

    def _check_shape(self, array, sizes):
        if not isinstance(array, np.ndarray):
            raise ValueError("is missing, or no array")
        if not {array.dtype.name, array.dtype.kind} & {*self.types}:
            raise ValueError(f"is of type {array.dtype}")
        if self.shape == (...,):
            return
        if array.ndim != len(self.shape):
            raise ValueError(f"has shape {array.shape} and not {self.shape}")
        for size, name in zip(array.shape, self.shape, strict=True):
            if sizes.setdefault(name, size) != size or not size:
                raise ValueError(f"has {name}={size} instead of {sizes[name]}")


@dataclass(frozen=True)
class Group:
    """A fitted attribute that is a list or a dict of arrays of any shapes."""

    cls: type

    def check(self, value, sizes):
        """Raise ``ValueError`` unless this is such a list or dict."""
        if type(value) is not self.cls:
            raise ValueError(f"is no {self.cls.__name__} of arrays")
        for array in value.values() if self.cls is dict else value:
            Attribute((*REAL, *WHOLE), (...,)).check(array, {})


@dataclass(frozen=True)
class Plain:
    """A fitted attribute of a type; what else it must be, a class checks itself."""

    cls: type

    def check(self, value, sizes):
        """Raise ``ValueError`` unless it is of the type."""
        if type(value) is not self.cls:
            raise ValueError(f"is {str(value)[:50]!r} and no {self.cls.__name__}")


@dataclass(frozen=True)
class Part:
    """A fitted attribute that is a fitted estimator, which has a method."""

    method: str

    def check(self, value, sizes):
        """Raise ``ValueError`` unless it is such an estimator."""
        if not hasattr(value, self.method):
            raise ValueError(f"is a {type(value).__name__} without {self.method}")


@dataclass(frozen=True)
class Optional:
    """A fitted attribute that may be missing, or None."""

    declared: Attribute | Group | Plain | Part

    def check(self, value, sizes):
        """Raise ``ValueError`` for another value."""
        if value is not None:
            self.declared.check(value, sizes)


def reals(*shape, **bounds):
    """Declare real numbers."""
    return Attribute(REAL, shape, **bounds)


def wholes(*shape, **bounds):
    """Declare whole numbers."""
    return Attribute(WHOLE, shape, **bounds)


def labels(name):
    """Declare classes."""
    return Attribute((*"iufbU",), (name,))


# What all estimators have.
COMMON = {
    "n_features_in_": wholes(low=1),
    "feature_names_in_": Optional(Attribute(("U",), ("n_features",))),
}


def declared_by(cls) -> dict:
    """Return what a class and its bases declare, by the names of attributes."""
    found = dict(COMMON)
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_saved", {})
    return found


def check_values(cls, values: dict) -> None:
    """Raise ``ValueError`` unless fitted attributes are what their class declares."""
    declared = declared_by(cls)
    unknown = sorted(values.keys() - declared.keys())
    if unknown:
        raise ValueError(f"A {cls.__name__} has no fitted attributes {unknown}.")
    sizes = {"n_features": values.get("n_features_in_")}
    for name, attribute in declared.items():
        try:
            attribute.check(values.get(name), sizes)
        except ValueError as error:
            raise ValueError(f"{name} {error}.") from error
