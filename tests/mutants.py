"""Saved directories with something changed, and checksums that fit what is there."""

import numpy as np

from skhash.persistence import tensors
from skhash.persistence.estimators import FILE

# Replacements for a value in a manifest.
VALUES = (
    *(None, True, False, 0, 1, -1, 7, 9, 255, 10**6, 2**31, 2**63, 2**64, -(2**63)),
    *(0.5, 1e308, float("nan"), float("inf"), "", "x", "auto", "pruned", "cuda"),
    *("multi_index", "../x", "/etc/hostname", "a\0b", "\ud800", "cosine", "meta"),
    *([], {}, [[]], [0, 1], ["a", "b"], {"__tuple__": [1]}, {"a": None}, [[[[0]]]]),
)
TYPES = ("u1", "i1", "i4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i8", "?", "c8", "U3")


def read(path):
    """Return the manifest and the arrays of a saved directory."""
    manifest, arrays = tensors.read(path / FILE)
    return manifest, arrays.arrays


def write(path, manifest, arrays):
    """Write others, as a save does: with checksums that fit."""
    with open(path / FILE, "wb") as file:
        tensors.write(file, manifest, arrays)


def mutate(path, rng):
    """Change something in a saved directory."""
    manifest, arrays = read(path)
    if rng.random() < 0.4:
        _change_value(manifest, rng)
    else:
        name = rng.choice(sorted(arrays))
        changed = np.ascontiguousarray(changed_array(arrays[name], rng))
        if changed.dtype in tensors.NAMES or changed.dtype.kind == "U":
            arrays[name] = changed
    write(path, manifest, arrays)
    if rng.random() < 0.1:
        forge_header(path, lambda header: _with_flips(header, rng))


def forge_header(path, change):
    """Change the header of a file, which has the length that it had."""
    content = (path / FILE).read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = change(content[8:end]).ljust(end - 8)
    total = tensors._sum_of(tensors._with_sum(header, tensors.UNKNOWN))
    header = tensors._with_sum(header, total)
    (path / FILE).write_bytes(content[:8] + header + content[end:])


def _with_flips(header, rng):
    header = bytearray(header)
    # Behind the checksum of the header itself.
    for place in rng.integers(100, len(header), size=rng.integers(1, 4)):
        header[place] ^= 1 << rng.integers(8)
    return bytes(header)


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
