"""A search of real vectors as a directory, with a directory in it for each fitted part.

Each save writes the parts to directories of new names. The manifest names them, with
the checksums of their own manifests, and is replaced last, in one rename.
"""

import copy
from pathlib import Path
from secrets import token_hex

from sklearn.frozen import FrozenEstimator

from skhash.neighbors.store.files import load_index, save_index
from skhash.persistence import directory, load_estimator, save_estimator, state

PARTS = ("encoder", "index", "decoder")


def save_search(search, path):
    """Write a fitted search to a directory; see `HashedNeighbors.save`."""
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
    _, manifest = state.described(given)

    with directory.saving(path) as path:
        entries = _save_parts(parts, path)
        manifest |= {"frozen": frozen, "parts": entries}
        directory.replace_manifest(path, manifest)


def _save_parts(parts, path):
    """Write each part to a directory of its own; return how the manifest names them."""
    folders = {name: path / f"part-{name}-{token_hex(8)}" for name in parts}
    try:
        for name, folder in folders.items():
            write = save_index if name == "index" else save_estimator
            write(parts[name], folder)
    except BaseException:
        for folder in filter(Path.exists, folders.values()):
            directory.remove_leftover(folder)
        raise
    return {name: _entry(folder) for name, folder in folders.items()}


def load_search(cls, path, *, mmap, verify):
    """Read a search that `save_search` wrote."""
    return directory.load_whole(path, cls, _load, mmap, verify)


def _entry(folder):
    """Return how the manifest names a part."""
    manifest = directory.read_manifest(folder)
    return {"folder": folder.name, "checksum": manifest["checksum"]}


def _load(path, manifest, mmap, verify):
    directory.check_keys(manifest, {"frozen": bool, "parts": dict})
    entries = manifest["parts"]
    if not {"encoder", "index"} <= entries.keys() <= set(PARTS):
        raise ValueError(f"It has parts {sorted(entries)}.")
    parts = {
        name: _load_part(name, path, entry, mmap, verify)
        for name, entry in entries.items()
    }
    if manifest["frozen"]:
        parts["encoder"] = FrozenEstimator(parts["encoder"])
    params = manifest["params"]
    if params.get("encoder") is None:
        params = {**params, "encoder": parts["encoder"]}
    search = state.unfitted({**manifest, "params": params})
    if parts["encoder"].n_features_in_ != manifest["values"]["n_features_in_"]:
        raise ValueError("Its encoder is for another number of columns.")
    fitted = {f"{name}_": part for name, part in parts.items()}
    state.set_fitted_state(search, manifest["values"], fitted)
    return search


def _load_part(name, path, entry, mmap, verify):
    """Return a part that is the one that was saved, and can do its work."""
    folder = directory.saved_path(path, entry["folder"])
    try:
        manifest = directory.read_manifest(folder)
    except FileNotFoundError as error:
        raise ValueError(str(error)) from error
    if manifest["checksum"] != entry["checksum"]:
        raise ValueError(f"Its part {folder.name} is not the one that was saved.")
    cls = state.known_class(manifest["class"])
    method = {"encoder": "transform", "index": "remove", "decoder": "refine"}[name]
    if not hasattr(cls, method):
        raise ValueError(f"Its {name} is a {manifest['class']!r} without {method}.")
    if name == "index":
        return load_index(cls, folder, mmap=mmap, verify=verify)
    return load_estimator(folder)


def _check_is_data(name, estimator):
    """Raise ``TypeError`` unless an estimator, or what stands for one, can be saved."""
    cls = type(estimator)
    known = state.known_class(state.class_name(cls)) is cls and hasattr(cls, "save")
    if not (estimator is None or isinstance(estimator, str) or known):
        raise TypeError(
            f"{name} is a {cls.__name__}, which is not saved as data. Keep the "
            "whole search by pickle or joblib, or save those parts, such as "
            "encoder_ and index_, that have a save of their own."
        )
