"""A search of real vectors as a directory, with a directory in it for each fitted part.

Each save writes the parts to directories of new names. The manifest names them, with
the checksums of their own manifests, and is replaced last, in one rename.
"""

import copy
from pathlib import Path
from secrets import token_hex

from sklearn.frozen import FrozenEstimator

from skhash.neighbors.store.files import load_index, save_index
from skhash.persistence import load_estimator, save_estimator
from skhash.persistence.directory import (
    MANIFEST,
    check_class,
    check_keys,
    check_target,
    load_whole,
    make_directory,
    read_manifest,
    remove_leftover,
    replace_manifest,
    saved_path,
)
from skhash.persistence.state import (
    fitted_state,
    known_class,
    plain_params,
    set_fitted_state,
    unfitted,
)

PARTS = ("encoder", "index", "decoder")


def save_search(search, path):
    """Write a fitted search to a directory; see `HashedNeighbors.save`."""
    path = Path(path)
    check_target(path)
    parts = {
        name: getattr(search, f"{name}_")
        for name in PARTS
        if hasattr(search, f"{name}_")
    }
    frozen = type(search.encoder_) is FrozenEstimator
    if frozen:
        parts["encoder"] = search.encoder_.estimator
    given = copy.copy(search)
    if search.encoder is search.encoder_:  # frozen, and so saved as a part
        given.encoder = None
    for name in PARTS:
        _check_is_data(name, parts.get(name))
        _check_is_data(name, getattr(given, name))
    params = plain_params(given)

    make_directory(path)
    folders = {name: path / f"part-{name}-{token_hex(8)}" for name in parts}
    try:
        for name, folder in folders.items():
            write = save_index if name == "index" else save_estimator
            write(parts[name], folder)
    except BaseException:
        for folder in filter(Path.exists, folders.values()):
            remove_leftover(folder)
        raise
    manifest = {
        "params": params,
        "values": fitted_state(search)[1],
        "frozen": frozen,
        "parts": {name: _entry(folder) for name, folder in folders.items()},
    }
    replace_manifest(path, search, manifest)


def load_search(cls, path, *, mmap, verify):
    """Read a search that `save_search` wrote."""
    path = Path(path)
    return load_whole(path, lambda found: _load(cls, path, found, mmap, verify))


def _entry(folder):
    """Return how the manifest names a part."""
    return {"folder": folder.name, "checksum": read_manifest(folder)["checksum"]}


def _load(cls, path, manifest, mmap, verify):
    check_class(manifest, cls, path)
    _check_manifest(manifest, path / MANIFEST)
    parts = {
        name: _load_part(name, path, entry, mmap, verify)
        for name, entry in manifest["parts"].items()
    }
    if manifest["frozen"]:
        parts["encoder"] = FrozenEstimator(parts["encoder"])
    params = manifest["params"]
    if params.get("encoder") is None:
        params = {**params, "encoder": parts["encoder"]}
    search = unfitted({**manifest, "params": params}, path)
    fitted = {f"{name}_": part for name, part in parts.items()}
    set_fitted_state(search, manifest["values"], fitted, path)
    return search


def _load_part(name, path, entry, mmap, verify):
    """Return a part that is there, the one that was saved, and can do its work."""
    folder = saved_path(path, entry["folder"])
    try:
        same = _entry(folder) == entry
    except FileNotFoundError:
        same = False
    if not same:
        raise ValueError(
            f"{path} is damaged: its part {folder.name} is missing, or not the one "
            "that was saved."
        )
    cls = known_class(read_manifest(folder)["class"])
    method = {"encoder": "transform", "index": "remove", "decoder": "refine"}[name]
    if not hasattr(cls, method):
        raise ValueError(
            f"{path} is damaged: its {name} is a {cls.__name__}, which has no {method}."
        )
    if name == "index":
        return load_index(cls, folder, mmap=mmap, verify=verify)
    return load_estimator(folder)


def _check_manifest(manifest, file):
    """Raise ``ValueError`` unless a manifest has what that of a search has."""
    check_keys(manifest, {"frozen": bool, "parts": dict}, file)
    parts = manifest["parts"]
    check_keys(parts, {"encoder": dict, "index": dict}, file)
    unknown = sorted(parts.keys() - set(PARTS))
    if unknown:
        raise ValueError(f"{file} is damaged: it has parts {unknown}.")
    for part in parts.values():
        check_keys(part, {"folder": str, "checksum": str}, file)


def _check_is_data(name, estimator):
    """Raise ``TypeError`` unless an estimator, or None, can be saved and loaded."""
    cls = type(estimator)
    if estimator is not None and known_class(cls.__name__) is not cls:
        raise TypeError(
            f"{name} is a {cls.__name__}, which is not saved as data. Keep "
            "the whole search by pickle or joblib, or save those parts, such as "
            "encoder_ and index_, that have a save of their own."
        )
