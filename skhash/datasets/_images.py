"""Image files: IDX (the MNIST family) and the binary version of CIFAR."""

import gzip
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skhash.datasets._damage import LARGEST_EXPANSION, parsing
from skhash.datasets._paths import PathLike

GZIP_MAGIC = b"\x1f\x8b"

# The third byte of an IDX file; everything in the format is big-endian.
IDX_DTYPES = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}

# Four bytes, and four for each of as many dimensions as a byte can say.
LONGEST_IDX_HEADER = 4 + 4 * 255

CIFAR_PIXELS = 3 * 32 * 32

# For each number of classes: the bytes before the pixels, and the one that is wanted.
CIFAR_LABELS = {10: (1, 0), 20: (2, 0), 100: (2, 1)}


def read_idx(path: PathLike) -> np.ndarray:
    """Read an IDX file, the format of MNIST, Fashion-MNIST, KMNIST and EMNIST.

    Parameters
    ----------
    path : path-like
        The file, gzip-compressed or not; its content decides, not its name.

    Returns
    -------
    array : ndarray
        With the shape and the type that the file declares, in native byte order.

    Raises
    ------
    ValueError
        If the file does not start as IDX does, or holds fewer or more bytes than its
        header announces.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skhash.datasets import read_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels-idx1-ubyte"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    dtype, shape = _read_idx_header(path)
    header = 4 + 4 * len(shape)
    expected = header + math.prod(shape) * dtype.itemsize
    content = _read_start(path, expected + 1)
    if len(content) != expected:
        has = "more" if len(content) > expected else len(content)
        raise ValueError(
            f"{path} declares an array of shape {shape}, which takes {expected} bytes "
            f"with the header, and has {has}: it is truncated or corrupt."
        )
    with parsing(f"{path} declares an array that cannot be"):
        values = np.frombuffer(content, dtype=dtype, offset=header).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def read_cifar_binary(
    paths: PathLike | Sequence[PathLike], *, n_classes: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Read the binary version of CIFAR-10 or CIFAR-100.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        ``data_batch_1.bin`` and so on, ``test_batch.bin``, or ``train.bin`` and
        ``test.bin`` of CIFAR-100. Several files are put together in the given order.
    n_classes : {10, 20, 100}, default=10
        10 reads CIFAR-10, whose records have 3073 bytes. 100 and 20 read CIFAR-100,
        whose records have 3074, with the labels of its classes or of its superclasses.

    Returns
    -------
    X : ndarray of shape (n, 3072), uint8
        The red, the green and the blue plane of each image, row by row:
        ``X.reshape(-1, 3, 32, 32)`` are images with channels first.
    y : ndarray of shape (n,), uint8

    Raises
    ------
    ValueError
        If a file is not made of whole records or holds a label that cannot be.
    """
    if n_classes not in CIFAR_LABELS:
        raise ValueError(
            "n_classes must be 10 (CIFAR-10), 100 or 20 (CIFAR-100, classes or "
            f"superclasses); got {n_classes!r}."
        )
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise ValueError("paths must name at least one file; got an empty sequence.")
    label_bytes = CIFAR_LABELS[n_classes][0]
    records = np.concatenate([_cifar_records(path, n_classes) for path in paths])
    labels = records[:, CIFAR_LABELS[n_classes][1]].copy()
    return np.ascontiguousarray(records[:, label_bytes:]), labels


def _cifar_records(path: PathLike, n_classes: int) -> np.ndarray:
    label_bytes, wanted = CIFAR_LABELS[n_classes]
    width = label_bytes + CIFAR_PIXELS
    content = Path(path).read_bytes()
    if not content or len(content) % width:
        raise ValueError(
            f"{path} has {len(content)} bytes, which are not whole records of {width} "
            f"bytes (n_classes={n_classes}): it is truncated or another format. The "
            "binary version of CIFAR is read, not the Python one; CIFAR-10 needs "
            "n_classes=10, CIFAR-100 needs 100 or 20."
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, width)
    highest = int(records[:, wanted].max())
    if highest >= n_classes:
        raise ValueError(
            f"{path} holds the label {highest}, where n_classes={n_classes} allows 0 "
            f"to {n_classes - 1}: it is corrupt or another data set."
        )
    return records


def _read_idx_header(path: PathLike) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the type and the shape that a file declares."""
    content = _read_start(path, LONGEST_IDX_HEADER)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_DTYPES:
        raise ValueError(
            f"{path} is not an IDX file: it starts with the bytes "
            f"{content[:4].hex(' ') or '(none)'}, where 00 00, a type code from 08 to "
            "0e and the number of dimensions are expected."
        )
    n_dims = content[3]
    if n_dims == 0 or len(content) < 4 + 4 * n_dims:
        raise ValueError(
            f"{path} is not a whole IDX file: it declares {n_dims} dimensions and has "
            f"{len(content)} bytes."
        )
    sizes = np.frombuffer(content, dtype=">u4", count=n_dims, offset=4)
    return IDX_DTYPES[content[2]], tuple(int(size) for size in sizes)


def _read_start(path: PathLike, n_bytes: int) -> bytes:
    """Return the first bytes of a file, or of what it holds compressed.

    No more is unpacked, nor is memory asked for that the file could not fill.
    """
    size = Path(path).stat().st_size
    with open(path, "rb") as file:
        if file.read(2) != GZIP_MAGIC:
            file.seek(0)
            return file.read(min(n_bytes, size))
        file.seek(0)
        with parsing(f"{path} is a damaged gzip file of {size} bytes"):
            return gzip.GzipFile(fileobj=file).read(
                min(n_bytes, LARGEST_EXPANSION * size)
            )
