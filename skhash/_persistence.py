"""Estimators as a directory of JSON and safetensors: data only, loading runs no code.

The manifest names its array file by content, so replacing the manifest in one rename
moves from the old state to the new one; a crash at any point leaves one of them whole.
"""

import hashlib
import json
import os
import re
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays
from sklearn.base import BaseEstimator

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
# Modules whose exported objects may be parameters: gradient="arm" or gradient=ARM(3).
PARTS = (
    "skhash.gradients",
    "skhash.losses",
    "skhash.noise",
    "skhash.utils.schedules",
)
# The keys that mark such an object, and a tuple, which JSON does not know.
PART, TUPLE = "__part__", "__tuple__"
# Between the name of a list of arrays and the number of the item: "coefs_.0".
LIST_MARK = "."
# Attributes that are arrays of strings, and their type; None is NumPy's choice.
NAMES = {"feature_names_in_": object, "classes_": None}
# The arrays of an index, an `.npy` file each.
INDEX_ARRAYS = ("codes", "y", "ids", "live", "vectors", "items", "codebook", "offset")
# What a save leaves behind where it is stopped before the manifest is there, or before
# it has cleaned up: files of encoders and indexes, directories of a search's parts.
LEFTOVER = re.compile(
    r"arrays-[0-9a-f]{16}\.safetensors(\.part)?"
    rf"|({'|'.join(INDEX_ARRAYS)})(-[0-9a-f]{{16}}\.npy|\.npy\.part)"
    r"|manifest\.json\.part"
    r"|part-(encoder|index|decoder)-[0-9a-f]{16}"
)


def save_estimator(estimator, path) -> None:
    """Write the parameters and fitted state of `estimator` to the directory `path`.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a directory that holds something else.
    """
    path = Path(path)
    check_target(path)
    arrays, values = _fitted_state(estimator)
    content = serialize_arrays(arrays)
    digest = hashlib.sha256(content).hexdigest()
    manifest = {
        "params": plain_params(estimator),
        "values": values,
        "arrays": f"arrays-{digest[:16]}.safetensors",
        "arrays_sha256": digest,
    }
    path.mkdir(parents=True, exist_ok=True)
    _replace(path / manifest["arrays"], content)
    replace_manifest(path, estimator, manifest, [manifest["arrays"]])


def load_estimator(path, classes: dict[str, type]):
    """Read an estimator that `save_estimator` wrote.

    Parameters
    ----------
    path : path-like
    classes : dict
        The classes that may be loaded, by name.

    Raises
    ------
    FileNotFoundError
        If there is no manifest at `path`.
    ValueError
        If a file is damaged, the format is newer than this version reads, or the class
        is not in `classes`.
    """
    path = Path(path)
    manifest = read_manifest(path)
    estimator = unfitted(manifest, classes, path)
    array_path = path / manifest["arrays"]
    if not array_path.is_file():
        raise ValueError(f"{path} is damaged: its file {array_path.name} is missing.")
    content = array_path.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["arrays_sha256"]:
        raise ValueError(f"{array_path} is damaged: its checksum does not match.")
    try:
        arrays = parse_arrays(content)
    except SafetensorError as error:
        raise ValueError(f"{array_path} is damaged: {error}") from error

    set_fitted_state(estimator, manifest["values"], _regrouped(arrays, path), path)
    return estimator


def unfitted(manifest, classes: dict[str, type], path):
    """Return an estimator of a manifest's class, with its parameters, or raise."""
    if manifest["class"] not in classes:
        raise ValueError(
            f"{path} holds a {manifest['class']!r}, which this version of skhash does "
            f"not know; it loads {', '.join(sorted(classes))}. It was written by "
            f"skhash {manifest['skhash_version']}."
        )
    estimator = classes[manifest["class"]]()
    set_saved_params(estimator, manifest, path)
    return estimator


def set_saved_params(estimator, manifest, path) -> None:
    """Give an estimator the parameters of a manifest, or raise ValueError."""
    written = f"It was written by skhash {manifest['skhash_version']}"
    known = estimator._get_param_names()
    unknown = sorted(set(manifest["params"]) - set(known))
    if unknown:
        raise ValueError(
            f"{path} has parameters that {manifest['class']} does not know: {unknown}. "
            f"{written}; update skhash."
        )
    try:
        for name, value in manifest["params"].items():
            setattr(estimator, name, _from_plain(value))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or of a skhash with other parameters ({error}). "
            f"{written}."
        ) from error


def set_fitted_state(estimator, values: dict, others: dict, path) -> None:
    """Set fitted attributes: a manifest's JSON values, and others as they are."""
    names = [*values, *others]
    wrong = [name for name in names if not _is_fitted_attribute(name)]
    if wrong:
        raise ValueError(f"{path} is damaged: {wrong} name no fitted attributes.")
    if len(set(names)) < len(names):
        raise ValueError(f"{path} is damaged: it has two values of one attribute.")
    for name, value in values.items():
        if name in NAMES:
            value = np.array(value, dtype=NAMES[name])
        setattr(estimator, name, value)
    for name, value in others.items():
        setattr(estimator, name, value)


def _fitted_state(estimator):
    """Split the fitted attributes into arrays and JSON values."""
    arrays, values = {}, {}
    for name, value in vars(estimator).items():
        if not _is_fitted_attribute(name) or name in estimator._unsaved_attributes:
            continue
        if _is_array(value):
            arrays[name] = np.ascontiguousarray(value)
        elif isinstance(value, list) and value and all(map(_is_array, value)):
            for i, item in enumerate(value):
                arrays[f"{name}{LIST_MARK}{i}"] = np.ascontiguousarray(item)
        else:
            values[name] = _to_plain(value)
    return arrays, values


def _regrouped(arrays: dict, path) -> dict:
    """Put arrays that were items of a list back into their lists."""
    grouped: dict = {}
    lists: dict = {}
    for name, value in arrays.items():
        head, mark, index = name.partition(LIST_MARK)
        if mark:
            lists.setdefault(head, {})[index] = value
        else:
            grouped[name] = value
    for name, items in lists.items():
        indices = [str(i) for i in range(len(items))]
        if name in grouped or set(items) != set(indices):
            raise ValueError(f"{path} is damaged: the items of {name} are not whole.")
        grouped[name] = [items[index] for index in indices]
    return grouped


def _is_array(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OU"


def _is_fitted_attribute(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


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
                stacklevel=4,
            )
    return params


def _param_to_plain(value):
    """As `_to_plain`, with a mark on tuples and on objects of the library's own."""
    if isinstance(value, tuple):
        return {TUPLE: [_param_to_plain(item) for item in value]}
    name = type(value).__name__
    for module in PARTS:
        own = type(value).__module__.startswith(module)  # import it only then
        if own and _exported_part(module, name) is type(value):
            params = value.get_params(deep=False).items()
            plain = {key: _param_to_plain(item) for key, item in params}
            return {PART: [module, name], "params": plain}
    return _to_plain(value)


def _from_plain(value):
    """Undo `_param_to_plain`; what is built are parts, and nothing else is called."""
    if not isinstance(value, dict):
        return value
    if TUPLE in value:
        return tuple(_from_plain(item) for item in value[TUPLE])
    if PART not in value:
        return value
    module, name = value[PART]
    part = _exported_part(module, name)
    if part is None:
        raise ValueError(f"{module}.{name} is not known here")
    return part(**{key: _from_plain(item) for key, item in value["params"].items()})


def _exported_part(module, name):
    """Return an estimator class that a module of `PARTS` exports, or None."""
    exported = import_module(module) if module in PARTS else None
    if exported is None or name not in exported.__all__:
        return None
    part = getattr(exported, name)
    is_part = isinstance(part, type) and issubclass(part, BaseEstimator)
    return part if is_part else None


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


def replace_manifest(path: Path, estimator, manifest: dict, files: list[str]) -> None:
    """Move from the old state to the new one, and remove what only the old one names.

    Parameters
    ----------
    path : Path
        The directory.
    estimator : estimator
    manifest : dict
        What is to stand in it, besides versions, class and checksum.
    files : list of str
        The files and directories that it names; they are there already.
    """
    from skhash import __version__

    manifest = {
        "format_version": FORMAT_VERSION,
        "skhash_version": __version__,
        "class": type(estimator).__name__,
        **manifest,
    }
    manifest["checksum"] = _checksum(manifest)
    _replace(path / MANIFEST, json.dumps(manifest, indent=1).encode())
    for old in path.iterdir():
        if old.name not in files and _is_leftover(old):
            remove_leftover(old)


def remove_leftover(old: Path) -> None:
    """Remove a file or directory that a save wrote, but for what others put into it."""
    if old.is_symlink() or not old.is_dir():
        old.unlink()
        return
    for entry in old.iterdir():
        if _is_leftover(entry):
            remove_leftover(entry)
    (old / MANIFEST).unlink(missing_ok=True)
    with suppress(OSError):  # it is not empty
        old.rmdir()


def load_whole(path: Path, load):
    """Return ``load(manifest)``, again if another process saved meanwhile.

    That one may have removed the files that the manifest names.
    """
    while True:
        manifest = read_manifest(path)
        try:
            return load(manifest)
        except (ValueError, FileNotFoundError):
            if read_manifest(path) == manifest:
                raise


def check_class(manifest: dict, cls: type, path: Path) -> None:
    """Raise ``ValueError`` unless a manifest is of class `cls`."""
    if manifest["class"] != cls.__name__:
        raise ValueError(
            f"{path} holds a {manifest['class']} and no {cls.__name__}; load it by "
            "skhash.load."
        )


def manifest_checksum(path: Path) -> str:
    """Return the checksum of the manifest at `path`, which stands for what it names."""
    return _checksum(read_manifest(path))


def read_manifest(path: Path) -> dict:
    """Read a manifest whose content fits its checksum, or raise."""
    try:
        text = (path / MANIFEST).read_text()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"{path} is not a saved skhash estimator: it has no {MANIFEST}."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path / MANIFEST} is damaged: {error}") from error
    try:
        manifest = json.loads(text)
        version = manifest["format_version"]
        if version > FORMAT_VERSION:
            raise ValueError(
                f"{path} has format version {version}; this skhash reads up to "
                f"{FORMAT_VERSION}. Update skhash to load it."
            )
        if manifest.pop("checksum") != _checksum(manifest):
            raise KeyError("checksum")
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path / MANIFEST} is damaged: its content does not match its checksum."
        ) from error
    return manifest


def _checksum(manifest: dict) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def check_target(path: Path) -> None:
    """Raise ``FileExistsError`` where saving to `path` would harm something else."""
    if path.is_dir():
        if not _was_saved_to(path):
            raise FileExistsError(
                f"{path} is a directory with other content; save to a new path."
            )
    elif path.exists():
        raise FileExistsError(f"{path} is a file; save writes a directory.")


def _was_saved_to(path: Path) -> bool:
    """Say whether a directory is empty, or what a save wrote or began to write."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
    except FileNotFoundError:
        return all(_is_leftover(entry) for entry in path.iterdir())
    except ValueError:
        return False
    return isinstance(manifest, dict) and "skhash_version" in manifest


def _is_leftover(entry: Path) -> bool:
    """Say whether a save wrote this, by its name and, if a directory, its content."""
    if not LEFTOVER.fullmatch(entry.name):
        return False
    return entry.is_symlink() or not entry.is_dir() or _was_saved_to(entry)


def _replace(path: Path, content: bytes) -> None:
    """Write a file that is either absent, old or complete, never half."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
