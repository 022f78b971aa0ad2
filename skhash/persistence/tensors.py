"""A file of arrays and JSON, in the format of safetensors, that is read or mapped.

The header is JSON: types, shapes and places of the arrays, and a manifest, with a
checksum of each array and of the header itself. They find accidents; who forges a file
forges them too. So nothing here takes more time or memory than the file has bytes.

Such files are written and read here, because the package safetensors computes no
checksums, copies NumPy arrays into memory where a map would do, and aligns the data to
8 bytes rather than to cache lines.
"""

import hashlib
import json
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skhash.utils.chunks import row_chunks

MAX_HEADER_BYTES = 2**20
# Arrays begin at multiples of a cache line, in the file and so in a map of it.
ALIGNMENT = 64
TYPES = {
    **{"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2"},
    **{"U32": "<u4", "I32": "<i4", "F32": "<f4"},
    **{"U64": "<u8", "I64": "<i8", "F64": "<f8"},
}
NAMES = {np.dtype(dtype): name for name, dtype in TYPES.items()}
# In place of a checksum that is not known yet.
UNKNOWN = "0" * 64


def write(file, manifest, arrays) -> None:
    """Write arrays and JSON values to an open file.

    Parameters
    ----------
    file : binary file
    manifest : dict
    arrays : dict of ndarray
        In C order, of numbers, booleans or strings.

    Raises
    ------
    ValueError
        If the manifest is too large, or an array holds something else.
    """
    same = _same_arrays(arrays)
    strings = [name for name, array in arrays.items() if array.dtype.kind in "SU"]
    manifest = {**manifest, "strings": strings, "same": same}
    written = [name for name in arrays if name not in same]
    order = sorted(written, key=lambda name: _place(arrays[name]))
    plain = {name: _without_strings(name, arrays[name]) for name in order}
    sums = dict.fromkeys(order, UNKNOWN)
    file.write(_header(manifest, plain, sums))
    for name, array in plain.items():
        content, checksum = array.reshape(-1).view(np.uint8), hashlib.sha256()
        for rows in row_chunks(len(content), 1):
            # Another thread may fill the room behind the codes meanwhile.
            part = content[rows].tobytes()
            checksum.update(part)
            file.write(part)
        sums[name] = checksum.hexdigest()
    file.seek(0)
    file.write(_header(manifest, plain, sums))


def _same_arrays(arrays) -> dict[str, str]:
    """Return the names of arrays that repeat an earlier one, with its name.

    A quantizer and the index of its codes have the same codebook. Each is repeated at
    most once, so that reading takes no more than twice the memory of the file.
    """
    same, firsts = {}, {}
    for name, array in arrays.items():
        alike = firsts.setdefault((array.dtype, array.shape), [])
        equal = (first for first in alike if _are_same(array, arrays[first]))
        first = next(equal, None) if array.nbytes > ALIGNMENT else None
        if first is None:
            alike.append(name)
        else:
            same[name] = first
            alike.remove(first)
    return same


def _are_same(*arrays) -> bool:
    """Return whether arrays have the same bytes: 0 and -0 are equal, but differ."""
    return np.array_equal(*(array.reshape(-1).view(np.uint8) for array in arrays))


def _place(array):
    """Sort arrays so that each begins at a multiple of its item size.

    Those that fill whole lines come first, so that the next one begins with a line too,
    and those that fill whole words before the rest.
    """
    itemsize = {"S": 1, "U": 4}.get(array.dtype.kind, array.itemsize)
    odd = array.nbytes % 8 > 0
    return array.nbytes % ALIGNMENT > 0, odd, -itemsize * odd


def _without_strings(name, array):
    """Return an array in the order of bytes here, strings as codes of characters."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind in "SU":  # with one more axis
        array = array[..., None].view({"S": np.uint8, "U": np.uint32}[array.dtype.kind])
    if array.dtype not in NAMES:
        raise ValueError(
            f"{name} has dtype {array.dtype}; saved are numbers, booleans and strings."
        )
    return array


def _header(manifest, arrays, sums) -> bytes:
    """Return the bytes before the first array."""
    text = json.dumps({**manifest, "sums": sums})
    header, start = {"__metadata__": {"sum": UNKNOWN, "skhash": text}}, 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": array.shape,
            "data_offsets": (start, stop),
        }
        start = stop
    content = json.dumps(header).encode()
    content += b" " * (-(8 + len(content)) % ALIGNMENT)
    if len(content) > MAX_HEADER_BYTES:
        raise ValueError(
            f"Parameters and names of arrays take {len(content)} bytes, but a file may "
            f"have at most {MAX_HEADER_BYTES}; shorten the parameters."
        )
    return len(content).to_bytes(8, "little") + _with_sum(content, _sum_of(content))


def _with_sum(content, value: str) -> bytes:
    """Return the header with its checksum, or `UNKNOWN`, filled in."""
    place = content.index(b'"sum": "') + len(b'"sum": "')
    return content[:place] + value.encode() + content[place + len(UNKNOWN) :]


def _sum_of(content) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Arrays:
    """Arrays of a file, read or mapped, with content not yet checked.

    `sums` has the full names, in which `head` stands before those of `arrays`.
    """

    path: Path
    arrays: dict[str, np.ndarray]
    sums: dict[str, str]
    mapped: bool
    head: str = ""

    def below(self, name):
        """Return the arrays named ``name`` or ``name/...``, by the rest of the name."""
        arrays = {
            full.partition("/")[2]: array
            for full, array in self.arrays.items()
            if full.partition("/")[0] == name
        }
        return replace(self, arrays=arrays, head=f"{self.head}{name}/")

    def check(self) -> None:
        """Raise ``ValueError`` if an array does not match its checksum."""
        for name, array in self.arrays.items():
            content = np.atleast_1d(array).reshape(-1).view(np.uint8)
            full = f"{self.head}{name}".removesuffix("/")
            if _sum_of(content) != self.sums[full]:
                raise ValueError(f"{full} does not match its checksum.")

    def read(self) -> dict:
        """Return the arrays in memory, checked."""
        self.check()
        return {
            name: np.array(array) if self.mapped else array
            for name, array in self.arrays.items()
        }


def read(path, mmap=False) -> tuple[dict, Arrays]:
    """Return the manifest and the arrays of a file that `write` wrote.

    Raises
    ------
    ValueError
        If it is no such file, a link, cut or damaged. A forged file may raise
        AttributeError, LookupError, RecursionError or TypeError as well.
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path.name} is a link, or no file; copy the file itself.")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(size, MAX_HEADER_BYTES) or (8 + length) % ALIGNMENT:
            raise ValueError(f"{path.name} cannot have a header of {length} bytes.")
        content = file.read(length)
        header = json.loads(content)
        metadata = header.pop("__metadata__")
        if _sum_of(_with_sum(content, UNKNOWN)) != metadata["sum"]:
            raise ValueError(f"The header of {path.name} does not match its checksum.")
        if mmap:
            data = np.asarray(np.memmap(file, mode="r"))[8 + length :]
        else:
            data = np.fromfile(file, np.uint8)
    manifest, arrays, start = json.loads(metadata["skhash"]), {}, 0
    for name, entry in header.items():
        dtype, shape = np.dtype(TYPES[entry["dtype"]]), entry["shape"]
        if not all(type(n) is int and 0 <= n <= size for n in shape):
            raise ValueError(f"{name} has the shape {shape}.")
        stop = start + dtype.itemsize * math.prod(shape)
        if entry["data_offsets"] != [start, stop] or start % dtype.itemsize:
            raise ValueError(f"{name} is at another place.")
        if stop > len(data):
            raise ValueError(f"{path.name} is cut: it ends before {name} does.")
        arrays[name] = data[start:stop].view(dtype).reshape(shape)
        start = stop
    if start != len(data):
        raise ValueError(f"{path.name} has {len(data) - start} bytes too many.")
    _complete(arrays, manifest, mmap)
    return manifest, Arrays(path, arrays, manifest["sums"], mmap)


def _complete(arrays, manifest, mmap) -> None:
    """Add the arrays that repeat others, and turn codes of characters into strings."""
    same, sums = manifest["same"], manifest["sums"]
    if len({*same.values()}) < len(same):
        raise ValueError("It repeats an array more than once.")
    # Nobody writes to a map, but a store does to arrays in memory.
    repeated = ((name, arrays[first]) for name, first in same.items())
    arrays |= {name: array if mmap else array.copy() for name, array in repeated}
    sums |= {name: sums[first] for name, first in same.items()}
    for name in manifest["strings"]:
        kind = "S" if arrays[name].dtype == np.uint8 else "<U"
        width = arrays[name].shape[-1]
        arrays[name] = arrays[name].view(f"{kind}{width}")[..., 0]


class DamageError(ValueError):
    """A file is damaged, and the message names it."""


@contextmanager
def naming_damage(path):
    """Turn exceptions from damaged files into a ``ValueError``."""
    try:
        yield
    except DamageError:
        raise
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as exc:
        kind = f"{type(exc).__name__}: " * (type(exc) is not ValueError)
        raise DamageError(
            f"{path} is damaged or of another version: {kind}{exc}"
        ) from exc
