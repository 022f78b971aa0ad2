"""Parameters and fitted attributes as arrays and as what JSON can hold, and back."""

import sys
import warnings
from collections import defaultdict
from importlib import import_module

import numpy as np
from sklearn.base import BaseEstimator

from skhash.persistence import schema

# The modules whose exported estimators a file may name, and parts of them such as
# gradient=ARM(3). They are imported when one is needed.
MODULES = (
    "skhash.classification",
    "skhash.gradients",
    "skhash.linear",
    "skhash.losses",
    "skhash.neighbors",
    "skhash.networks",
    "skhash.neural",
    "skhash.noise",
    "skhash.training",
)
# The keys that mark such an object, and a tuple, which JSON does not know.
CLASS, TUPLE = "__class__", "__tuple__"
# Between the name of a list or dict of arrays and the key of the item: "coefs_.0".
MARK = "."
# Attributes that may be arrays of strings, which are no arrays in a file.
NAMES = ("feature_names_in_", "classes_")
# How many parameters may lie in each other: to show them takes time that doubles.
MAX_NESTING = 6


def plain_params(estimator) -> dict:
    """Return the parameters as JSON can hold them; warn of those that it cannot."""
    params = {}
    for name, value in estimator.get_params(deep=False).items():
        try:
            params[name] = _param_to_plain(value)
        except TypeError:
            warnings.warn(
                f"{name}: {type(value).__name__} is not plain data and is not saved. "
                f"The loaded {type(estimator).__name__} will have the default; its "
                "codes are the same.",
                stacklevel=_level_of_user(),
            )
    return params


def _level_of_user():
    """Return how far above its caller the first frame outside of the library is."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals["__name__"].startswith("skhash."):
        frame, level = frame.f_back, level + 1
    return level


def class_name(cls: type) -> str:
    """Return the name of a class in a file, with the module that exports it."""
    own = f"{cls.__module__}."
    module = next((m for m in MODULES if own.startswith(f"{m}.")), cls.__module__)
    return f"{module}.{cls.__name__}"


def known_class(name: str) -> type | None:
    """Return the class of this name, if it is one that a file may hold."""
    module, _, name = name.rpartition(".")
    exported = import_module(module) if module in MODULES else None
    if exported is None or name not in exported.__all__:
        return None
    cls = getattr(exported, name)
    is_estimator = isinstance(cls, type) and issubclass(cls, BaseEstimator)
    return cls if is_estimator else None


def unfitted(manifest: dict):
    """Return an estimator of a manifest's class, with its parameters, or raise."""
    try:
        estimator = _build(manifest["class"], manifest["params"], "save")
        estimator._validate_params()
        return estimator
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        version = manifest["skhash_version"]
        raise ValueError(f"{error} It was written by skhash {version}.") from error


def _build(name, params, method="get_params", depth=0):
    """Return an object of a known class that has a method; nothing else is called."""
    cls = known_class(name)
    if not hasattr(cls, method):
        raise ValueError(f"It holds a {name!r}, which this version does not know.")
    if depth > MAX_NESTING:
        raise ValueError(f"Its parameters are nested more than {MAX_NESTING} deep.")
    try:
        return cls(**{key: _from_plain(one, depth) for key, one in params.items()})
    except TypeError as error:
        raise ValueError(
            f"It has parameters that {name} does not know: {error}; update skhash."
        ) from error


def _from_plain(value, depth):
    """Undo `_param_to_plain`."""
    if not isinstance(value, dict):
        return value
    if TUPLE in value:
        return tuple(_from_plain(item, depth) for item in value[TUPLE])
    if CLASS not in value:
        return value
    return _build(value[CLASS], value["params"], depth=depth + 1)


def described(estimator) -> tuple[dict, dict]:
    """Return the fitted arrays, and what a manifest says of an estimator.

    Raises
    ------
    ValueError
        If a fitted attribute is not as its class declares.
    """
    cls = type(estimator)
    if known_class(class_name(cls)) is not cls:
        raise TypeError(
            f"{cls.__name__} is no class of skhash, and loading runs no other code; "
            "keep it by pickle or joblib."
        )
    declared = schema.declared_by(cls)
    fitted = {
        name: _to_saved(name, value)
        for name, value in vars(estimator).items()
        if name in declared
    }
    schema.check_values(cls, fitted)
    arrays, values = {}, {}
    for name, value in fitted.items():
        if _is_group(value):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            arrays |= {f"{name}{MARK}{key}": item for key, item in items}
        elif _is_array(value):
            arrays[name] = value
        elif not isinstance(value, BaseEstimator):
            values[name] = _to_plain(value)
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    params = plain_params(estimator)
    return arrays, {"class": class_name(cls), "params": params, "values": values}


def set_fitted_state(estimator, values: dict, arrays: dict) -> None:
    """Set fitted attributes of JSON values and arrays, or raise ``ValueError``."""
    cls, groups = type(estimator), regrouped(arrays)
    if values.keys() & groups.keys():
        raise ValueError("It has two values of one attribute.")
    names = {
        name: np.array(values[name]) for name in NAMES if values.get(name) is not None
    }
    fitted = {**values, **names, **groups}
    schema.check_values(cls, fitted)
    for name, value in fitted.items():
        setattr(estimator, name, value)
    if "feature_names_in_" in fitted:  # scikit-learn compares objects
        estimator.feature_names_in_ = fitted["feature_names_in_"].astype(object)
    getattr(estimator, "_check_saved", lambda: None)()


def regrouped(arrays: dict) -> dict:
    """Put arrays of `described` that were items of a list or dict back into it."""
    groups: dict = defaultdict(dict)
    for name, value in arrays.items():
        head, _, key = name.partition(MARK)
        groups[head][key] = value
    return {head: _group(head, items) for head, items in groups.items()}


def _group(head, items):
    if items.keys() == {""}:
        return items[""]
    if not all(map(str.isdecimal, items)):
        return items
    if items.keys() != {str(i) for i in range(len(items))}:
        raise ValueError(f"The items of {head} are not whole.")
    return [items[str(i)] for i in range(len(items))]


def _to_saved(name, value):
    """Return a fitted attribute without objects of NumPy or Python."""
    if _is_group(value) or isinstance(value, BaseEstimator):
        return value
    if not isinstance(value, np.ndarray):
        return _to_plain(value)
    if value.dtype.kind != "O":
        return value
    if not all(isinstance(one, str) for one in value.flat):
        raise ValueError(
            f"{name} holds Python objects, which are not saved; pass {name} as numbers "
            "or strings."
        )
    return value.astype(str)


def _is_group(value) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and len(value) and all(map(_is_array, items))


def _is_array(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OU"


def _param_to_plain(value):
    """As `_to_plain`, with a mark on tuples and on objects of the library's own."""
    if isinstance(value, tuple):
        return {TUPLE: [_param_to_plain(item) for item in value]}
    if known_class(class_name(type(value))) is type(value):
        return {CLASS: class_name(type(value)), "params": plain_params(value)}
    return _to_plain(value)


def _to_plain(value):
    """Turn NumPy scalars and sequences into what JSON can hold, or raise TypeError."""
    if isinstance(value, np.ndarray | np.generic):
        return _to_plain(value.tolist())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _to_plain(item) for key, item in value.items()}
    raise TypeError(f"{value!r} is not plain data.")
