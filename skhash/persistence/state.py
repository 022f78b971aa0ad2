"""Parameters and fitted attributes as arrays and as what JSON can hold, and back."""

import sys
import warnings
from collections import defaultdict
from importlib import import_module

import numpy as np
from sklearn.base import BaseEstimator

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
# Between the name of a list of arrays and the number of the item: "coefs_.0".
LIST_MARK = "."
# Attributes that are arrays of strings, and their type; None is NumPy's choice.
NAMES = {"feature_names_in_": object, "classes_": None}


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


def _build(name, params, method="get_params"):
    """Return an object of a known class that has a method; nothing else is called."""
    cls = known_class(name)
    if not hasattr(cls, method):
        raise ValueError(f"It holds a {name!r}, which this version does not know.")
    try:
        return cls(**{key: _from_plain(value) for key, value in params.items()})
    except TypeError as error:
        raise ValueError(
            f"It has parameters that {name} does not know: {error}; update skhash."
        ) from error


def _from_plain(value):
    """Undo `_param_to_plain`."""
    if not isinstance(value, dict):
        return value
    if TUPLE in value:
        return tuple(_from_plain(item) for item in value[TUPLE])
    return _build(value[CLASS], value["params"]) if CLASS in value else value


def described(estimator) -> tuple[dict, dict]:
    """Return the fitted arrays, and what a manifest says of an estimator."""
    arrays, values = {}, {}
    unsaved = getattr(estimator, "_unsaved_attributes", ())
    for name, value in vars(estimator).items():
        if not _is_fitted_attribute(name) or name in unsaved:
            continue
        if _is_array(value):
            arrays[name] = np.ascontiguousarray(value)
        elif isinstance(value, list) and value and all(map(_is_array, value)):
            for i, item in enumerate(value):
                arrays[f"{name}{LIST_MARK}{i}"] = np.ascontiguousarray(item)
        else:
            values[name] = _to_plain(value)
    name, params = class_name(type(estimator)), plain_params(estimator)
    return arrays, {"class": name, "params": params, "values": values}


def set_fitted_state(estimator, values: dict, others: dict) -> None:
    """Set fitted attributes: JSON values, and others, or raise ``ValueError``."""
    wrong = [name for name in (*values, *others) if not _is_fitted_attribute(name)]
    if wrong:
        raise ValueError(f"{wrong} name no fitted attributes.")
    if values.keys() & others.keys():
        raise ValueError("It has two values of one attribute.")
    _check_columns(**values)
    for name, value in values.items():
        if name in NAMES:
            value = np.array(value, dtype=NAMES[name])
        setattr(estimator, name, value)
    for name, value in others.items():
        setattr(estimator, name, value)


def _check_columns(n_features_in_=None, feature_names_in_=None, **others):
    if type(n_features_in_) is not int or n_features_in_ < 1:
        raise ValueError(f"n_features_in_={n_features_in_!r} is no number of columns.")
    names = feature_names_in_
    if names is None:
        return
    if len(names) != n_features_in_ or {type(name) for name in names} != {str}:
        raise ValueError("feature_names_in_ must be a name a column.")


def regrouped(arrays: dict) -> dict:
    """Put arrays of `described` that were items of a list back into their lists."""
    lists: dict = defaultdict(dict)
    for name, value in arrays.items():
        head, _, index = name.partition(LIST_MARK)
        lists[head][index] = value
    return {
        head: items[""] if items.keys() == {""} else _in_order(head, items)
        for head, items in lists.items()
    }


def _in_order(head, items):
    if items.keys() != {str(i) for i in range(len(items))}:
        raise ValueError(f"The items of {head} are not whole.")
    return [items[str(i)] for i in range(len(items))]


def _is_array(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OU"


def _is_fitted_attribute(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


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
