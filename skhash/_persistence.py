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
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays
from sklearn.base import BaseEstimator

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
# Modules whose exported objects may be parameters: gradient="arm" or gradient=ARM(3).
PARTS = (
    "skhash.classification",
    "skhash.gradients",
    "skhash.losses",
    "skhash.networks",
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
# What a manifest names: files of encoders and indexes, directories of a search's parts.
SAVED = re.compile(
    r"arrays-([0-9a-f]{16})\.safetensors"
    rf"|(?:{'|'.join(INDEX_ARRAYS)})-([0-9a-f]{{16}})\.npy"
    r"|part-(?:encoder|index|decoder)-([0-9a-f]{16})"
)
# What is written before it gets its name.
UNFINISHED = re.compile(
    r"arrays-[0-9a-f]{16}\.safetensors\.part"
    rf"|(?:{'|'.join(INDEX_ARRAYS)})\.npy\.part"
    r"|manifest\.json\.part"
)
# A manifest holds parameters and names: those of a million columns take some 20 MB.
MAX_MANIFEST_BYTES = 2**26
# How deep its lists and objects may lie in each other; a parser recurses into them.
MAX_DEPTH = 64
# Strings are passed over, whatever brackets are in them.
BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"|([\[{])|([\]}])', re.DOTALL)


def save_estimator(estimator, path) -> None:
    """Write the parameters and fitted state of `estimator` to the directory `path`.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a directory that holds something else.
    ValueError
        If a parameter is none that `fit` takes.
    """
    path = Path(path)
    check_target(path)
    estimator._validate_params()
    arrays, values = _fitted_state(estimator)
    content = serialize_arrays(arrays)
    digest = hashlib.sha256(content).hexdigest()
    manifest = {
        "params": plain_params(estimator),
        "values": values,
        "arrays": f"arrays-{digest[:16]}.safetensors",
        "arrays_sha256": digest,
    }
    make_directory(path)
    _replace(path / manifest["arrays"], content)
    replace_manifest(path, estimator, manifest)


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
    return load_whole(path, lambda found: _load(path, found, classes))


def _load(path, manifest, classes):
    estimator = unfitted(manifest, classes, path)
    check_saved_params(estimator, path)
    check_keys(manifest, {"arrays": str, "arrays_sha256": str}, path / MANIFEST)
    array_path = saved_file(path, manifest["arrays"])
    content = array_path.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["arrays_sha256"]:
        raise ValueError(f"{array_path} is damaged: its checksum does not match.")
    try:
        arrays = parse_arrays(content)
    except Exception as error:  # SafetensorError, or of NumPy for a type it lacks
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


def check_saved_params(estimator, path) -> None:
    """Raise ``ValueError`` unless `fit` would take the parameters of a file."""
    try:
        estimator._validate_params()
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged, or of a skhash with other parameters: {error}"
        ) from error


def set_fitted_state(estimator, values: dict, others: dict, path) -> None:
    """Set fitted attributes: a manifest's JSON values, and others as they are."""
    names = [*values, *others]
    wrong = [name for name in names if not _is_fitted_attribute(name)]
    if wrong:
        raise ValueError(f"{path} is damaged: {wrong} name no fitted attributes.")
    if len(set(names)) < len(names):
        raise ValueError(f"{path} is damaged: it has two values of one attribute.")
    try:
        for name, value in values.items():
            if name in NAMES:
                value = np.array(value, dtype=NAMES[name])
            setattr(estimator, name, value)
        for name, value in others.items():
            setattr(estimator, name, value)
    except (AttributeError, ValueError) as error:  # a property, or a ragged list
        raise ValueError(f"{path} is damaged: {error}") from error


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


def make_directory(path: Path) -> None:
    """Make a directory to save to, or clean up what killed saves left there.

    They may have filled the disk.
    """
    path.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)


def replace_manifest(path: Path, estimator, manifest: dict) -> None:
    """Move from the old state to the new one, and remove what only the old one names.

    Parameters
    ----------
    path : Path
        The directory. What the manifest names is there already.
    estimator : estimator
    manifest : dict
        What is to stand in it, besides versions, class and checksum.
    """
    from skhash import __version__

    manifest = {
        "format_version": FORMAT_VERSION,
        "skhash_version": __version__,
        "class": type(estimator).__name__,
        **manifest,
    }
    manifest["checksum"] = _checksum(manifest)
    content = json.dumps(manifest, indent=1).encode()
    if len(content) > MAX_MANIFEST_BYTES:
        raise ValueError(
            f"Parameters and names take {len(content)} bytes, and a manifest may have "
            f"{MAX_MANIFEST_BYTES}; give columns shorter names, or none."
        )
    _replace(path / MANIFEST, content)
    _remove_leftovers(path)


def _remove_leftovers(path: Path) -> None:
    """Remove what saves wrote to a directory, but for what its manifest names."""
    file = path / MANIFEST
    manifest = file.read_text("utf-8") if file.exists() else ""
    for entry in path.iterdir():
        saved = SAVED.fullmatch(entry.name)
        # The digits are those of a checksum, or random: nothing else has them.
        named = saved is not None and saved[saved.lastindex] in manifest
        if not named and _is_leftover(entry):
            remove_leftover(entry)


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
            if manifest_checksum(path) == _checksum(manifest):
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
    file = path / MANIFEST
    manifest = _read_json(file)
    check_keys(manifest, {"format_version": int}, file)
    version = manifest["format_version"]
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {version}; this skhash reads up to "
            f"{FORMAT_VERSION}. Update skhash to load it."
        )
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise ValueError(f"{file} is damaged: its content does not match its checksum.")
    kinds = {"skhash_version": str, "class": str, "params": dict, "values": dict}
    check_keys(manifest, kinds, file)
    return manifest


def _read_json(file: Path):
    """Parse a file of bounded size and depth, or raise ValueError that names it."""
    check_no_link(file)
    if not file.is_file():
        raise FileNotFoundError(
            f"{file.parent} is not a saved skhash estimator: it has no {file.name}."
        )
    with open(file, "rb") as opened:
        content = opened.read(MAX_MANIFEST_BYTES + 1)
    try:
        if len(content) > MAX_MANIFEST_BYTES:
            raise ValueError(f"it has more than {MAX_MANIFEST_BYTES} bytes")
        text, depth = content.decode(), 0
        for found in BRACKET.finditer(text):
            depth += bool(found[1]) - bool(found[2])
            if depth > MAX_DEPTH:
                raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}.") from error


def check_keys(found, kinds: dict[str, type], file: Path) -> None:
    """Raise ``ValueError`` unless JSON is an object with values of these types."""
    for key, kind in kinds.items():
        if type(found) is not dict or type(found.get(key)) is not kind:
            raise ValueError(
                f"{file} is damaged: there is no {key!r}, or it is no {kind.__name__}."
            )


def saved_path(path: Path, name: str) -> Path:
    """Return what a manifest names in a directory, or raise ``ValueError``.

    It has a name that a save gives, and is no link: nothing outside is read.
    """
    if not SAVED.fullmatch(name):
        raise ValueError(
            f"{path / MANIFEST} is damaged: a save names nothing {name!r}."
        )
    check_no_link(path / name)
    return path / name


def saved_file(path: Path, name: str) -> Path:
    """Return the file that a manifest names, as `saved_path`, if it is there."""
    file = saved_path(path, name)
    if not file.is_file():
        raise ValueError(f"{path} is damaged: its file {name} is missing.")
    return file


def check_no_link(file: Path) -> None:
    """Raise ``ValueError`` where a file or directory is a link."""
    if file.is_symlink():
        raise ValueError(
            f"{file} is a link, and a save writes none; copy what it leads to in its "
            "place (cp -RL copies a whole directory so)."
        )


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
        manifest = _read_json(path / MANIFEST)
    except FileNotFoundError:
        return all(_is_leftover(entry) for entry in path.iterdir())
    except ValueError:
        return False
    return isinstance(manifest, dict) and "skhash_version" in manifest


def _is_leftover(entry: Path) -> bool:
    """Say whether a save wrote this, by its name and, if a directory, its content."""
    if not (SAVED.fullmatch(entry.name) or UNFINISHED.fullmatch(entry.name)):
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
