"""Indexes as a directory: an `.npy` file an array, and a manifest in JSON.

As with encoders, files are named by their content and the manifest is replaced last, in
one rename. Codes stand in rows of whole words, so that a memory map of the file is what
the kernels take, and opening it reads none of them.
"""

import hashlib
import os
from pathlib import Path
from secrets import token_hex

import numpy as np

from skhash.neighbors.search.asymmetric import Decoder
from skhash.neighbors.store.file_checks import (
    COLUMNS,
    check_arrays,
    check_content,
    count_bits,
)
from skhash.neighbors.store.store import Store
from skhash.persistence.directory import (
    MANIFEST,
    UNFINISHED,
    check_class,
    check_keys,
    check_target,
    load_whole,
    make_directory,
    replace_manifest,
    saved_file,
)
from skhash.persistence.estimators import unfitted
from skhash.persistence.state import fitted_state, plain_params, set_fitted_state

# An `.npy` file each.
ARRAYS = ("codes", *COLUMNS, "codebook", "offset")


def save_index(index, path) -> None:
    """Write the parameters and the fitted state of `index` to the directory `path`."""
    path = Path(path)
    check_target(path)
    store, decoder, scoring = index._store, index._decoder, None
    arrays = {"codes": store["words"].view(np.uint8), **store.columns()}
    if decoder is not None:
        arrays |= {"codebook": decoder.codebook, "offset": decoder.offset}
        scoring = {"normalized": decoder.normalized, "metric": decoder.metric}
    arrays = {
        name: _plain(name, array) for name, array in arrays.items() if array is not None
    }
    params, (_, values) = plain_params(index), fitted_state(index)
    make_directory(path)
    entries = {name: _write_array(path, name, array) for name, array in arrays.items()}
    manifest = {
        "params": params,
        "values": values,
        "n_bytes": store.n_bytes,
        "decoder": scoring,
        "arrays": entries,
    }
    replace_manifest(path, index, manifest)


def load_index(cls, path, *, mmap, verify):
    """Read an index of class `cls` that `save_index` wrote."""
    path = Path(path)
    return load_whole(path, lambda found: _load(cls, path, found, mmap, verify))


def _load(cls, path, manifest, mmap, verify):
    check_class(manifest, cls, path)
    index, values = unfitted(manifest, path), manifest["values"]
    check_keys(values, {"algorithm_": str}, path / MANIFEST)
    set_fitted_state(index, values, {}, path)
    check_keys(manifest, {"n_bytes": int, "arrays": dict}, path / MANIFEST)
    entries = manifest["arrays"]
    unknown = sorted(entries.keys() - set(ARRAYS))
    if unknown:
        raise ValueError(
            f"{path} has arrays that this skhash does not know: {unknown}. It was "
            f"written by skhash {manifest['skhash_version']}; update skhash."
        )
    maps = {name: _map(path, name, entry) for name, entry in entries.items()}
    arrays = {
        name: np.asarray(array) if mmap else np.array(array)
        for name, array in maps.items()
    }
    check_arrays(arrays, manifest, path / MANIFEST)
    n_bits = count_bits(manifest, path / MANIFEST)

    def check():
        if verify:
            _check_sums(path, entries, maps)
        check_content(arrays, n_bits, path)

    if not mmap:
        check()
    index._decoder, scoring = None, manifest.get("decoder")
    if scoring is not None:
        decoding = arrays["codebook"], arrays["offset"]
        index._decoder = Decoder(*decoding, scoring["normalized"], scoring["metric"])
    columns = {name: arrays[name] for name in arrays.keys() & set(COLUMNS)}
    index._store = Store(arrays["codes"], **columns)
    index._store.n_bytes = manifest["n_bytes"]
    if mmap:
        index._store.check_first(check)
    return index


def _check_sums(path, entries, maps):
    for name, entry in entries.items():
        # What is mapped, even if the file has been removed; its base is the file.
        if hashlib.sha256(maps[name].base).hexdigest() != entry["sha256"]:
            file = path / _name(name, entry)
            raise ValueError(f"{file} is damaged: its checksum does not match.")


def _plain(name, array):
    """Return an array that holds no Python objects: strings of fixed width instead."""
    if array.dtype.kind != "O":
        return array
    if not all(isinstance(one, str) for one in array.flat):
        raise ValueError(
            f"{name} holds Python objects, which are not saved; pass {name} as numbers "
            "or strings."
        )
    return array.astype(str)


def _name(name, entry):
    return f"{name}-{entry['sha256'][:16]}.npy"


class _HashingFile:
    """What `numpy.save` writes to, so that an array is read once, block by block."""

    def __init__(self, file):
        self.file, self.digest = file, hashlib.sha256()

    def write(self, block):
        self.digest.update(block)
        self.file.write(block)


def _write_array(path, name, array):
    """Write an array to the file that `_name` names; return its entry."""
    temporary = path / f"{name}-{token_hex(8)}.npy{UNFINISHED}"
    with open(temporary, "wb") as file:
        hashing = _HashingFile(file)
        np.save(hashing, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    entry = {
        "sha256": hashing.digest.hexdigest(),
        "size": size,
        "shape": list(array.shape),
        "dtype": array.dtype.str,
    }
    os.replace(temporary, path / _name(name, entry))
    return entry


def _map(path, name, entry):
    """Map the array of a file into memory after a look at its size and header."""
    kinds = {"sha256": str, "size": int, "shape": list, "dtype": str}
    check_keys(entry, kinds, path / MANIFEST)
    file = saved_file(path, _name(name, entry))
    size = file.stat().st_size
    if size != entry["size"]:
        raise ValueError(
            f"{file} is damaged: it has {size} bytes instead of {entry['size']}."
        )
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except Exception as error:  # NumPy reads the header by a parser of Python
        raise ValueError(f"{file} is damaged: {error}") from error
    if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
        raise ValueError(
            f"{file} is damaged: it holds an array of shape {array.shape} and dtype "
            f"{array.dtype.str} instead of {entry['shape']} and {entry['dtype']}."
        )
    return array
