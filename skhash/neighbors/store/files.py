"""Indexes as a directory: an `.npy` file an array, and a manifest in JSON.

As with encoders, files are named by their content and the manifest is replaced last, in
one rename. Codes stand in rows of whole words, so that a memory map of the file is what
the kernels take, and opening it reads none of them.

Checksums find accidents. A file may hold anything and the checksum that fits, and still
must not make a kernel leave its arrays: so types, shapes and some content are checked.
"""

import hashlib
import os
from secrets import token_hex

import numpy as np

from skhash.codes import packed_width
from skhash.neighbors.store.decoder import METRICS, Decoder, items_per_code
from skhash.neighbors.store.store import Store
from skhash.persistence import directory, state

# Arrays with a row a code, those of a decoder, and all.
COLUMNS = ("y", "ids", "live", "vectors", "items")
DECODER = ("codebook", "offset", "items")
ARRAYS = ("codes", *COLUMNS, "codebook", "offset")


def save_index(index, path) -> None:
    """Write the parameters and the fitted state of `index` to the directory `path`."""
    path = directory.check_target(path)
    store, scoring = index._store, None
    arrays = {"codes": store["words"].view(np.uint8), **store.columns()}
    if store.decoder is not None:
        decoder = store.decoder
        arrays |= {"codebook": decoder.codebook, "offset": decoder.offset}
        scoring = {"normalized": decoder.normalized, "metric": decoder.metric}
    arrays = {
        name: _plain(name, array) for name, array in arrays.items() if array is not None
    }
    _, manifest = state.described(index)
    directory.make_directory(path)
    entries = {name: _write_array(path, name, array) for name, array in arrays.items()}
    manifest |= {"n_bytes": store.n_bytes, "decoder": scoring, "arrays": entries}
    directory.replace_manifest(path, manifest)


def load_index(cls, path, *, mmap, verify):
    """Read an index of class `cls` that `save_index` wrote."""
    return directory.load_whole(path, cls, _load, mmap, verify)


def _load(path, manifest, mmap, verify):
    index = state.unfitted(manifest, path)
    state.set_fitted_state(index, manifest["values"], {}, path)
    maps = _map_all(path, manifest)
    arrays = {
        name: np.asarray(array) if mmap else np.array(array)
        for name, array in maps.items()
    }
    n_bits = _check_arrays(arrays, manifest, path / directory.MANIFEST)

    def check():
        if verify:
            _check_sums(path, manifest["arrays"], maps)
        _check_content(arrays, n_bits, path)

    if not mmap:
        check()
    decoder, scoring = None, manifest.get("decoder")
    if scoring is not None:
        decoder = Decoder(arrays["codebook"], arrays["offset"], **scoring)
    columns = {name: arrays[name] for name in arrays.keys() & set(COLUMNS)}
    index._store = Store(arrays["codes"], decoder, **columns)
    index._store.n_bytes = manifest["n_bytes"]
    if mmap:
        index._store.check_first(check)
    return index


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


def _file_name(name, entry):
    return f"{name}-{entry['sha256'][:16]}.npy"


class _HashingFile:
    """What `numpy.save` writes to, so that an array is read once, block by block."""

    def __init__(self, file):
        self.file, self.digest = file, hashlib.sha256()

    def write(self, block):
        self.digest.update(block)
        self.file.write(block)


def _write_array(path, name, array):
    """Write an array to the file that `_file_name` names; return its entry."""
    temporary = path / f"{name}-{token_hex(8)}.npy{directory.UNFINISHED}"
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
    os.replace(temporary, path / _file_name(name, entry))
    return entry


def _map_all(path, manifest):
    """Map the arrays that a manifest names into memory."""
    directory.check_keys(manifest, {"n_bytes": int, "arrays": dict}, path)
    entries = manifest["arrays"]
    unknown = sorted(entries.keys() - set(ARRAYS))
    if unknown:
        raise ValueError(
            f"{path} has arrays that this skhash does not know: {unknown}. It was "
            f"written by skhash {manifest['skhash_version']}; update skhash."
        )
    return {name: _map(path, name, entry) for name, entry in entries.items()}


def _map(path, name, entry):
    """Map the array of a file into memory after a look at its size and header."""
    kinds = {"sha256": str, "size": int, "shape": list, "dtype": str}
    directory.check_keys(entry, kinds, path)
    file = directory.saved_file(path, _file_name(name, entry))
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


def _check_sums(path, entries, maps):
    for name, entry in entries.items():
        # What is mapped, even if the file has been removed; its base is the file.
        if hashlib.sha256(maps[name].base).hexdigest() != entry["sha256"]:
            file = path / _file_name(name, entry)
            raise ValueError(f"{file} is damaged: its checksum does not match.")


def _check_arrays(arrays, manifest, file):
    """Return the bits of a code, or raise unless types and shapes are those of a save.

    arrays : dict of ndarrays, or of memory maps, of which nothing is read
    """
    wrong = [name for name, array in arrays.items() if not _is_of_its_kind(name, array)]
    if wrong or "codes" not in arrays:
        raise ValueError(
            f"{file.parent} is damaged: {(wrong or ['codes'])[0]} is missing, or of a "
            "type or shape that it cannot have."
        )
    codes, n_bytes = arrays["codes"], manifest["n_bytes"]
    if n_bytes < 1 or codes.shape[1] != 8 * -(-n_bytes // 8):
        raise ValueError(
            f"{file} is damaged: codes of n_bytes={n_bytes} are not those in rows of "
            f"{codes.shape[1]} bytes."
        )
    if {len(arrays[name]) for name in arrays.keys() & set(COLUMNS)} - {len(codes)}:
        raise ValueError(f"{file.parent} is damaged: its arrays differ in length.")
    n_features = manifest["values"]["n_features_in_"]
    n_bits = 8 * n_bytes if n_features == n_bytes else n_features  # packed, or not
    if packed_width(n_bits) != n_bytes:
        raise ValueError(
            f"{file} is damaged: codes of n_bytes={n_bytes} are not those of "
            f"n_features_in_={n_features}."
        )
    _check_decoder(arrays, manifest, n_bits, file)
    return n_bits


def _is_of_its_kind(name, array):
    dtype, kind, ndim = array.dtype, array.dtype.kind, array.ndim
    return {
        "codes": dtype == np.uint8 and ndim == 2 and array.flags.c_contiguous,
        "y": kind not in "OV" and ndim in (1, 2),
        "ids": (dtype == np.int64 or kind == "U") and ndim == 1,
        "live": kind == "b" and ndim == 1,
        "vectors": kind in "iuf" and ndim == 2,
        "items": dtype == np.float32 and ndim == 2 and array.flags.c_contiguous,
        "codebook": dtype == np.float64 and ndim == 2,
        "offset": dtype == np.float64 and ndim == 1,
    }[name]


def _check_decoder(arrays, manifest, n_bits, file):
    scoring, there = manifest.get("decoder"), arrays.keys() & set(DECODER)
    if scoring is None and not there:
        return
    directory.check_keys(manifest, {"decoder": dict}, file.parent)
    directory.check_keys(scoring, {"normalized": bool, "metric": str}, file.parent)
    if (
        len(scoring) > 2
        or scoring["metric"] not in METRICS
        or there != set(DECODER)
        or arrays["codebook"].shape[1:] != arrays["offset"].shape
        # Of codes that were packed, the decoder alone knows how many bits they have.
        or packed_width(len(arrays["codebook"])) != manifest["n_bytes"]
        or len(arrays["codebook"]) > n_bits
        or arrays["items"].shape[1] != items_per_code(scoring["metric"])
    ):
        raise ValueError(f"{file} is damaged: its decoder does not fit the codes.")


def _check_content(arrays, n_bits, path):
    """Raise ``ValueError`` unless the arrays hold what they can; this reads them."""
    codes = arrays["codes"]
    if n_bits < 8 * codes.shape[1]:
        last_words = codes[:, -8:].view(np.uint64)
        used = np.bitwise_or.reduce(last_words, axis=0).view(np.uint8)
        if np.unpackbits(used)[n_bits - 8 * codes.shape[1] :].any():
            raise ValueError(f"{path} is damaged: codes have more than {n_bits} bits.")
    # Of booleans that are neither 0 nor 1, counts are wrong.
    if "live" in arrays and arrays["live"].view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"{path} is damaged: live holds others than 0 and 1.")
    for name in arrays.keys() & set(DECODER):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path} is damaged: {name} holds NaN or infinity.")
