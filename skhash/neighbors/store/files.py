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
from skhash.neighbors.store.clusters import Clusters, check_clusters, check_positions
from skhash.neighbors.store.decoder import (
    METRICS,
    Decoder,
    check_shapes,
    items_per_code,
)
from skhash.neighbors.store.store import Store
from skhash.persistence import directory, state

# Arrays with a row a code, those of a decoder, of clusters, and all.
COLUMNS = ("y", "ids", "live", "vectors", "items")
DECODER = ("codebook", "offset", "items")
CLUSTERS = {f"cluster_{name}": name for name in Clusters._fields}
ARRAYS = ("codes", *COLUMNS, "codebook", "offset", *CLUSTERS)


def save_index(index, path) -> None:
    """Write the parameters and the fitted state of `index` to the directory `path`."""
    store, scoring = index._store, None
    arrays = {"codes": store["words"].view(np.uint8), **store.columns()}
    clusters = store.codes_key.made_clusters()
    if clusters is not None:
        arrays |= {name: getattr(clusters, own) for name, own in CLUSTERS.items()}
    if store.decoder is not None:
        decoder = store.decoder
        arrays |= {"codebook": decoder.codebook, "offset": decoder.offset}
        scoring = {
            name: getattr(decoder, name) for name in ("n_bits", "normalized", "metric")
        }
    arrays = {
        name: _plain(name, array) for name, array in arrays.items() if array is not None
    }
    _, manifest = state.described(index)
    manifest |= {"n_bytes": store.n_bytes, "decoder": scoring}
    with directory.saving(path) as path:
        entries = {
            name: _write_array(path, name, array) for name, array in arrays.items()
        }
        directory.replace_manifest(path, {**manifest, "arrays": entries})


def load_index(cls, path, *, mmap, verify):
    """Read an index of class `cls` that `save_index` wrote."""
    return directory.load_whole(path, cls, _load, mmap, verify)


def _load(path, manifest, mmap, verify):
    index = state.unfitted(manifest)
    state.set_fitted_state(index, manifest["values"], {})
    directory.check_keys(manifest, {"n_bytes": int, "arrays": dict})
    entries, n_bytes = manifest["arrays"], manifest["n_bytes"]
    unknown = sorted(entries.keys() - set(ARRAYS))
    if unknown:
        raise ValueError(f"This skhash does not know: {unknown}; update it.")
    maps = {name: _map(path, name, entry) for name, entry in entries.items()}
    arrays = {
        name: np.asarray(array) if mmap else np.array(array)
        for name, array in maps.items()
    }
    n_bits = _check_arrays(arrays, n_bytes, index.n_features_in_)
    decoder = _read_decoder(arrays, manifest.get("decoder"), n_bits)
    clusters = _read_clusters(arrays)

    def check():
        with directory.naming_damage(path):
            if verify:
                _check_sums(entries, maps)
            _check_content(arrays, n_bits)
            if clusters is not None:
                check_positions(clusters, len(arrays["codes"]))

    if not mmap:
        check()
    columns = {name: arrays[name] for name in arrays.keys() & set(COLUMNS)}
    index._store = Store(arrays["codes"], decoder, **columns)
    index._store.n_bytes = n_bytes
    index._store.codes_key.clusters = clusters
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
    return f"skhash-{name}-{entry['sha256'][:16]}.npy"


class _HashingFile:
    """What `numpy.save` writes to, so that an array is read once, block by block."""

    def __init__(self, file):
        self.file, self.digest = file, hashlib.sha256()

    def write(self, block):
        self.digest.update(block)
        self.file.write(block)


def _write_array(path, name, array):
    """Write an array to the file that `_file_name` names; return its entry."""
    temporary = path / f"skhash-{name}-{token_hex(8)}.npy{directory.UNFINISHED}"
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


def _map(path, name, entry):
    """Map the array of a file into memory after a look at its size and header."""
    file = directory.saved_path(path, _file_name(name, entry))
    size = file.stat().st_size
    if size != entry["size"]:
        raise ValueError(f"{file.name} has {size} bytes instead of {entry['size']}.")
    try:
        array = np.lib.format.open_memmap(file, mode="r")
    except Exception as error:  # NumPy reads the header by a parser of Python
        raise ValueError(f"{file.name}: {error}") from error
    if list(array.shape) != entry["shape"] or array.dtype.str != entry["dtype"]:
        raise ValueError(
            f"{file.name} holds an array of shape {array.shape} and dtype "
            f"{array.dtype.str} instead of {entry['shape']} and {entry['dtype']}."
        )
    return array


def _check_sums(entries, maps):
    for name, entry in entries.items():
        # What is mapped, even if the file has been removed; its base is the file.
        if hashlib.sha256(maps[name].base).hexdigest() != entry["sha256"]:
            raise ValueError(f"{_file_name(name, entry)} does not match its checksum.")


def _check_arrays(arrays, n_bytes, n_features):
    """Return the bits of a code, or raise unless types and shapes are those of a save.

    arrays : dict of ndarrays, or of memory maps, of which nothing is read
    """
    wrong = [name for name, array in arrays.items() if not _is_of_its_kind(name, array)]
    if wrong or "codes" not in arrays:
        name = (wrong or ["codes"])[0]
        raise ValueError(
            f"{name} is missing, or of a type or shape that it cannot have."
        )
    codes = arrays["codes"]
    n_bits = 8 * n_bytes if n_features == n_bytes else n_features  # packed, or not
    if codes.shape[1] != 8 * -(-n_bytes // 8) or packed_width(n_bits) != n_bytes:
        raise ValueError(
            f"Codes of n_bytes={n_bytes} are not those of n_features_in_={n_features} "
            f"in rows of {codes.shape[1]} bytes."
        )
    if {len(arrays[name]) for name in arrays.keys() & set(COLUMNS)} - {len(codes)}:
        raise ValueError("Its arrays differ in length.")
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
        "codebook": (dtype, ndim) in ((np.float64, 2), (np.float32, 3)),
        "offset": dtype == np.float64 and ndim == 1,
    }.get(name, name in CLUSTERS)


def _read_decoder(arrays, scoring, n_bits):
    """Return the decoder, or None; raise unless it fits the codes."""
    there = arrays.keys() & set(DECODER)
    if scoring is None and not there:
        return None
    directory.check_keys({"decoder": scoring}, {"decoder": dict})
    directory.check_keys(scoring, {"n_bits": int, "normalized": bool, "metric": str})
    if (
        scoring["metric"] not in METRICS
        or there != set(DECODER)
        # Of codes that were packed, the decoder alone knows how many bits they have.
        or packed_width(scoring["n_bits"]) != packed_width(n_bits)
        or scoring["n_bits"] > n_bits
        or arrays["items"].shape[1] != items_per_code(scoring["metric"])
    ):
        raise ValueError("Its decoder does not fit the codes.")
    codebook, offset = arrays["codebook"], arrays["offset"]
    check_shapes(codebook, offset, scoring["n_bits"])
    return Decoder(codebook, offset, **scoring)


def _read_clusters(arrays):
    """Return the clusters, or None; raise unless they fit the codes."""
    there = {own: arrays[name] for name, own in CLUSTERS.items() if name in arrays}
    if not there:
        return None
    if len(there) < len(CLUSTERS):
        raise ValueError(f"Of its clusters, there are {sorted(there)} alone.")
    clusters = Clusters(**there)
    check_clusters(clusters, *arrays["codes"].shape)
    return clusters


def _check_content(arrays, n_bits):
    """Raise ``ValueError`` unless the arrays hold what they can; this reads them."""
    codes = arrays["codes"]
    if n_bits < 8 * codes.shape[1]:
        last_words = codes[:, -8:].view(np.uint64)
        used = np.bitwise_or.reduce(last_words, axis=0).view(np.uint8)
        if np.unpackbits(used)[n_bits - 8 * codes.shape[1] :].any():
            raise ValueError(f"Its codes have more than {n_bits} bits.")
    # Of booleans that are neither 0 nor 1, counts are wrong.
    if "live" in arrays and arrays["live"].view(np.uint8).max(initial=0) > 1:
        raise ValueError("live holds others than 0 and 1.")
    for name in arrays.keys() & set(DECODER):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds NaN or infinity.")
