"""The tags of a MATLAB 5 file, checked before SciPy follows them.

A file is a sequence of elements: a type, a number of bytes, and these bytes, which for
a matrix are elements in turn. SciPy takes types and numbers of elements on trust, and a
wrong one ends the process.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence

HEADER = 128
MATRIX, COMPRESSED = 14, 15
FLAGS_BYTES, COMPLEX = 8, 0x800
# The types of elements that hold integers and floats of all sizes.
NUMBERS = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
# How many elements hold the values of a matrix, by its class: 5 is sparse, with rows,
# columns and values; 6 to 15 are dense. The others are text, cells and structures.
N_PARTS = {5: 3, **dict.fromkeys(range(6, 16), 1)}


def check_matrices(content: bytes, wanted: Sequence[str]) -> list[str]:
    """Return the names of all variables, of which the wanted ones can be read.

    Raises
    ------
    ValueError or struct.error or zlib.error
        If the elements are not whole, or a wanted variable is no matrix of numbers.
    """
    order = "<" if content[126:HEADER] == b"IM" else ">"
    names = []
    for kind, element in _elements(memoryview(content)[HEADER:], order, padding=1):
        if kind == COMPRESSED:
            kind, element = _inflate(element, order)
        if kind != MATRIX:
            raise ValueError(f"it has an element of type {kind}, which is no variable")
        (_, flags), _, (_, name), *parts = _elements(element, order)
        names.append(bytes(name).decode("latin-1"))
        if len(flags) != FLAGS_BYTES:
            raise ValueError(f"{names[-1]!r} has {len(flags)} bytes of flags")
        (bits,) = struct.unpack_from(f"{order}I", flags)
        if names[-1] in wanted and not _hold_matrix(parts, bits):
            raise ValueError(f"{names[-1]} must be a matrix of numbers")
    return names


def _hold_matrix(parts: list[tuple[int, memoryview]], flags: int) -> bool:
    n_parts = N_PARTS.get(flags & 0xFF)
    if n_parts is None or len(parts) != n_parts + bool(flags & COMPLEX):
        return False
    return all(kind in NUMBERS for kind, _ in parts)


def _elements(
    content: memoryview, order: str, padding: int = 8
) -> Iterator[tuple[int, memoryview]]:
    """Yield the type and the bytes of elements that follow each other."""
    position = 0
    while position < len(content):
        kind, n_bytes = struct.unpack_from(f"{order}II", content, position)
        start = position + 8
        if kind >> 16:  # type and number share four bytes, the content is in the others
            kind, n_bytes, start = kind & 0xFFFF, kind >> 16, position + 4
        end = start + n_bytes
        if end > len(content):
            raise ValueError(f"an element of {n_bytes} bytes is truncated")
        yield kind, content[start:end]
        position = end + -end % padding


def _inflate(element: memoryview, order: str) -> tuple[int, memoryview]:
    """Return the type and the bytes of a compressed element, and unpack no more."""
    stream = zlib.decompressobj()
    kind, n_bytes = struct.unpack(f"{order}II", stream.decompress(element, 8))
    content = stream.decompress(stream.unconsumed_tail, max(n_bytes, 1))
    if len(content) < n_bytes:
        raise ValueError(f"an element of {n_bytes} bytes is truncated")
    return kind, memoryview(content)
