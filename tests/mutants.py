"""Saved directories with something changed, and checksums that fit what is there."""

import hashlib
import io
import json
import pickle

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays

from skhash.neighbors.store.files import ARRAYS
from skhash.persistence.directory import MANIFEST, checksum_of

# What may stand in the place of a value in a manifest.
VALUES = (
    *(None, True, False, 0, 1, -1, 7, 9, 255, 10**6, 2**31, 2**63, 2**64, -(2**63)),
    *(0.5, 1e308, float("nan"), float("inf"), "", "x", "auto", "pruned", "cuda"),
    *("multi_index", "../x", "/etc/hostname", "a\0b", "\ud800", "cosine", "meta"),
    *([], {}, [[]], [0, 1], ["a", "b"], {"__tuple__": [1]}, {"a": None}, [[[[0]]]]),
)
TYPES = ("u1", "i1", "i4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i8", "?", "c8", "U3")


def read(path):
    """Return the manifest of a saved directory."""
    return json.loads((path / MANIFEST).read_text())


def mutate(path, rng):
    """Change something in a saved directory, or in one of its parts."""
    manifest = read(path)
    if "parts" in manifest and rng.random() < 0.8:
        part = manifest["parts"][rng.choice(sorted(manifest["parts"]))]
        mutate(path / part["folder"], rng)
        part["checksum"] = read(path / part["folder"])["checksum"]
    elif "parts" in manifest or rng.random() < 0.4:
        _change_value(manifest, rng)
    elif isinstance(manifest["arrays"], str):
        _change_encoder_arrays(path, manifest, rng)
    else:
        _change_index_array(path, manifest, rng)
    write_manifest(path, manifest)


def write_manifest(path, manifest):
    """Write a manifest with the checksum that fits."""
    manifest = {key: value for key, value in manifest.items() if key != "checksum"}
    manifest["checksum"] = checksum_of(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


def _change_value(found, rng):
    """Replace, remove or add a value somewhere in JSON."""
    while True:
        keys = list(found) if isinstance(found, dict) else list(range(len(found)))
        if not keys or rng.random() < 0.05:
            if isinstance(found, dict):
                found["extra_"] = VALUES[rng.integers(len(VALUES))]
            return
        key = keys[rng.integers(len(keys))]
        if not isinstance(found[key], dict | list) or rng.random() < 0.3:
            break
        found = found[key]
    if rng.random() < 0.3:
        del found[key]
    else:
        found[key] = VALUES[rng.integers(len(VALUES))]


def saved_arrays(path):
    """Return the arrays of a saved encoder."""
    return parse_arrays((path / read(path)["arrays"]).read_bytes())


def replace_saved_arrays(path, arrays):
    """Put others in their place, with the checksum that fits."""
    manifest = read(path)
    _write_arrays(path, manifest, serialize_arrays(arrays))
    write_manifest(path, manifest)


def _write_arrays(path, manifest, content):
    (path / manifest["arrays"]).unlink()
    digest = hashlib.sha256(content).hexdigest()
    manifest |= {
        "arrays": f"skhash-arrays-{digest[:16]}.safetensors",
        "arrays_sha256": digest,
    }
    (path / manifest["arrays"]).write_bytes(content)


def _change_encoder_arrays(path, manifest, rng):
    arrays = saved_arrays(path)
    name = rng.choice(sorted(arrays))
    changed = np.ascontiguousarray(changed_array(arrays[name], rng))
    if changed.dtype.isnative and changed.dtype.kind in "iufb":
        arrays[name] = changed
    content = changed_bytes(serialize_arrays(arrays), rng, share=0.1)
    _write_arrays(path, manifest, content)


def _change_index_array(path, manifest, rng):
    entries = manifest["arrays"]
    name = rng.choice(sorted(entries))
    file = path / f"skhash-{name}-{entries[name]['sha256'][:16]}.npy"
    array = changed_array(np.load(file), rng)
    content = io.BytesIO()
    np.save(content, array)
    content = changed_bytes(content.getvalue(), rng, share=0.1)
    if rng.random() < 0.03:
        content = pickle.dumps(array)
    if rng.random() < 0.1:  # under another name
        name = rng.choice(ARRAYS)
    file.unlink()
    write_index_array(path, manifest, name, content, array)


def replace_index_array(path, name, array):
    """Put an array in the place of one of a saved index, with all that goes along."""
    manifest, content = read(path), io.BytesIO()
    np.save(content, array)
    write_index_array(path, manifest, name, content.getvalue(), array)
    write_manifest(path, manifest)


def write_index_array(path, manifest, name, content, array):
    digest = hashlib.sha256(content).hexdigest()
    (path / f"skhash-{name}-{digest[:16]}.npy").write_bytes(content)
    manifest["arrays"][name] = {
        "sha256": digest,
        "size": len(content),
        "shape": list(array.shape),
        "dtype": array.dtype.str,
    }


def changed_bytes(content, rng, share):
    """Flip bits of a file, now and then."""
    if rng.random() >= share:
        return content
    content = bytearray(content)
    for place in rng.integers(0, min(len(content), 200), size=rng.integers(1, 4)):
        content[place] ^= 1 << rng.integers(8)
    return bytes(content)


def _bounds(dtype):
    return [np.iinfo(dtype).min, np.iinfo(dtype).max]


def changed_array(array, rng):
    """Return an array of other values, of another type or of another shape."""
    change, kind = rng.integers(6), array.dtype.kind
    if change == 0:
        changed = np.frombuffer(rng.bytes(array.nbytes), array.dtype)
        return changed.reshape(array.shape)
    if change == 1 and kind in "fiu":
        bounds = (-np.inf, np.inf, np.nan) if kind == "f" else _bounds(array.dtype)
        changed = array.copy()
        changed[rng.random(array.shape) < rng.choice([0.02, 1])] = rng.choice(bounds)
        return changed
    if change == 2 and kind in "fiub":
        with np.errstate(all="ignore"):
            return array.astype(TYPES[rng.integers(len(TYPES))])
    if change == 3 and array.ndim:
        n = rng.choice([0, 1, len(array) // 2, 2 * len(array)])
        return np.resize(array, (n, *array.shape[1:]))
    if change == 4 and array.ndim == 2:
        n = rng.choice([0, 1, 3, 7, 8, 16, 64])
        return np.resize(array, (len(array), n))
    shapes = [(-1,), (1, -1), (-1, 1), (1, 1, -1)]
    if array.ndim == 2:
        return array.T if rng.random() < 0.5 else array.reshape(shapes[rng.integers(4)])
    return array.reshape(shapes[rng.integers(4)])
