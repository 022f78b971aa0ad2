"""Conversion of estimators to arrays and JSON, and back."""

import json
import sys
import warnings
from importlib import import_module
from os import PathLike, fspath

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

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
    "skhash.quantization",
    "skhash.training",
)
# The keys that mark such an object, a tuple, which JSON does not know, and a parameter
# that is a fitted attribute, by whose name.
CLASS, TUPLE, FITTED = "__class__", "__tuple__", "__fitted__"
# What the entry of an estimator has, and a manifest besides.
ENTRY = ("class", "params", "values", "frozen")
MANIFEST = (*ENTRY, "format", "skhash_version", "strings", "same", "sums")
# How deep parameters may be nested: each level doubles the time to show them.
MAX_NESTING = 6


def plain_params(estimator) -> dict:
    """Return the parameters as JSON values; warn of those that are not saved."""
    params = {}
    for name, value in estimator.get_params(deep=False).items():
        fitted = getattr(estimator, f"{name}_", None)
        if type(value) is FrozenEstimator and value is fitted:
            params[name] = {FITTED: f"{name}_"}
            continue
        if hasattr(value, "fit"):
            _check_is_data(name, type(value))
        try:
            params[name] = _param_to_plain(value)
        except TypeError:
            warnings.warn(
                f"{name} is not saved, because a {type(value).__name__} is not plain "
                f"data. Set it on the loaded {type(estimator).__name__} before you use "
                "that.",
                stacklevel=_level_of_user(),
            )
    return params


def _check_is_data(name, cls):
    """Raise ``TypeError`` for an estimator that a file cannot hold."""
    if known_class(class_name(cls)) is not cls or not hasattr(cls, "save"):
        raise TypeError(
            f"{name} is a {cls.__name__}, which cannot be saved as data. Pickle the "
            "whole object, for example with joblib, or save those of its parts that "
            "have a method save, such as the index_ of a search."
        )


def _level_of_user():
    """Return the stack level of the first frame outside of the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals["__name__"].startswith("skhash."):
        frame, level = frame.f_back, level + 1
    return level


def class_name(cls: type) -> str:
    """Return the name of a class in a file, with the module that exports it."""
    prefix = f"{cls.__module__}."
    module = next((m for m in MODULES if prefix.startswith(f"{m}.")), cls.__module__)
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


def _build(name, params, fitted, method="get_params", depth=0):
    """Build an object of a known class that has the method; nothing else is called."""
    cls = known_class(name)
    if not hasattr(cls, method):
        raise ValueError(f"It holds a {name!r}, which this version does not know.")
    if depth > MAX_NESTING:
        raise ValueError(f"Its parameters are nested more than {MAX_NESTING} deep.")
    params = {key: _from_plain(value, fitted, depth) for key, value in params.items()}
    try:
        return cls(**params)
    except TypeError as error:
        raise ValueError(
            f"It has parameters that {name} does not know: {error}; update skhash."
        ) from error


def _from_plain(value, fitted, depth):
    """Undo `_param_to_plain`."""
    if not isinstance(value, dict):
        return value
    if FITTED in value and not depth:
        return fitted[value[FITTED]]
    if TUPLE in value:
        return tuple(_from_plain(item, fitted, depth) for item in value[TUPLE])
    if CLASS not in value:
        return value
    return _build(value[CLASS], value["params"], fitted, depth=depth + 1)


def described(estimator, name="it") -> tuple[dict, dict]:
    """Return the arrays and JSON values from which `restored` makes the estimator.

    name : what errors call it

    Raises
    ------
    TypeError
        If the estimator, or a fitted attribute, is not one of skhash, or no data.
    ValueError
        If a fitted attribute is not as its class declares, or `fit` would refuse a
        parameter.
    """
    cls = type(estimator)
    if cls is FrozenEstimator:
        arrays, entry = described(estimator.estimator, name)
        return arrays, {**entry, "frozen": True}
    _check_is_data(name, cls)
    estimator._validate_params()
    params = plain_params(estimator)
    schema.check(estimator)
    arrays, values = {}, {}
    for name, declared in schema.declared_by(cls).items():
        if name not in vars(estimator):
            continue
        parts, plain = _described_value(name, declared, vars(estimator)[name])
        name = name.removeprefix("_")
        arrays |= {f"{name}/{key}".rstrip("/"): parts[key] for key in parts}
        if not parts or plain is not None:
            values[name] = plain
    return arrays, {"class": class_name(cls), "params": params, "values": values}


def _described_value(name, declared, value):
    """Return arrays of a fitted attribute by name, "" for itself, and JSON or None."""
    if isinstance(declared, schema.Columns):
        return declared.write(value)
    if isinstance(declared, schema.Part):
        return described(value, name.rstrip("_"))
    if isinstance(declared, schema.Records):
        value = np.frombuffer(json.dumps(_to_plain(value)).encode(), np.uint8)
    if isinstance(value, np.ndarray):
        return {"": in_order(name, value)}, None
    if isinstance(declared, schema.Group) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {str(key): in_order(name, item) for key, item in items}, None
    return {}, _to_plain(value)


def in_order(name, array):
    """Return an array as a file holds it: in C order, of a type it can hold."""
    if array.dtype.kind == "O":
        if not all(isinstance(item, str) for item in array.flat):
            raise ValueError(
                f"{name} holds Python objects, which cannot be saved; pass {name} as "
                "numbers or strings."
            )
        array = array.astype(str)
    # Extended precision differs between machines.
    dtype = np.float64 if array.dtype.char == "g" else array.dtype
    return np.asarray(array, dtype=dtype, order="C")


def restored(entry: dict, arrays, *, verify=True, is_part=False):
    """Return the estimator from the entry and arrays of `described`.

    Parameters
    ----------
    entry : dict
    arrays : Arrays
    verify : bool
        Whether to compare arrays that may stay in the file with their checksums.
    is_part : bool
        Whether it is an attribute of another one.

    Raises
    ------
    ValueError
        If anything is not as `described` makes it; or AttributeError, KeyError or
        TypeError.
    """
    check_keys(entry, ENTRY if is_part else MANIFEST)
    cls, values = known_class(entry["class"]), entry["values"]
    declared = schema.declared_by(cls) if cls else {}
    names = {name.removeprefix("_"): name for name in declared}
    n_features = values.get("n_features_in_")
    fitted = {}
    for saved in {*values, *(full.partition("/")[0] for full in arrays.arrays)}:
        if saved not in names:
            raise ValueError(
                f"{entry['class']!r} has no fitted attribute {saved!r}; update skhash."
            )
        plain, parts, name = values.get(saved), arrays.below(saved), names[saved]
        attribute = declared[name]
        if isinstance(attribute, schema.Columns):
            fitted[name] = attribute.read(parts, plain, n_features, verify)
        elif isinstance(attribute, schema.Part) and not is_part:
            fitted[name] = restored(plain, parts, verify=verify, is_part=True)
        elif parts.arrays and saved in values:
            raise ValueError(f"It has two values of {name}.")
        elif isinstance(attribute, schema.Records):
            fitted[name] = json.loads(parts.read()[""].tobytes())
        else:
            fitted[name] = _regrouped(parts.read()) if parts.arrays else plain
    estimator = _build(entry["class"], entry["params"], fitted, "save")
    estimator._validate_params()
    vars(estimator).update(fitted)
    schema.check(estimator)
    if "feature_names_in_" in fitted:  # scikit-learn compares objects
        estimator.feature_names_in_ = fitted["feature_names_in_"].astype(object)
    return FrozenEstimator(estimator) if entry.get("frozen") is True else estimator


def check_keys(values, known) -> None:
    """Raise ``ValueError`` for a key that this version would pass over."""
    unknown = sorted(values.keys() - {*known})
    if unknown:
        raise ValueError(f"This version does not know {unknown}; update skhash.")


def _regrouped(items):
    """Return the array named "", or the arrays as a list or a dict."""
    if items.keys() == {""}:
        return items[""]
    if items.keys() == {str(i) for i in range(len(items))}:
        return [items[str(i)] for i in range(len(items))]
    return items


def _param_to_plain(value):
    """Do as `_to_plain`, with a mark on tuples and on the library's objects."""
    if isinstance(value, tuple):
        return {TUPLE: [_param_to_plain(item) for item in value]}
    if known_class(class_name(type(value))) is type(value):
        return {CLASS: class_name(type(value)), "params": plain_params(value)}
    return _to_plain(value)


def _to_plain(value):
    """Turn NumPy scalars and sequences into JSON values, or raise TypeError."""
    if isinstance(value, np.ndarray | np.generic):
        return _to_plain(value.tolist())
    if isinstance(value, PathLike):
        return fspath(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _to_plain(item) for key, item in value.items()}
    raise TypeError(f"{value!r} is not plain data.")
