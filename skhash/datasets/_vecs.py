"""The fvecs, ivecs and bvecs files of SIFT1M, GIST1M and SIFT1B.

A file is a sequence of equal records: the dimension as a little-endian 32-bit integer,
then the components. There is no header, so a record is found by its number alone.
"""

from pathlib import Path

import numpy as np

from skhash.datasets._damage import PathLike
from skhash.utils.chunks import row_chunks

# Far above any dimension; a larger first number means another format.
LARGEST_DIMENSION = 2**20


def read_fvecs(
    path: PathLike, *, start: int = 0, stop: int | None = None, mmap: bool = False
) -> np.ndarray:
    """Read float vectors from an ``.fvecs`` file, as SIFT1M and GIST1M come.

    Parameters
    ----------
    path : path-like
    start, stop : int, default=0 and None
        The vectors ``start, ..., stop - 1`` are read and nothing else of the file;
        ``None`` is the number of vectors.
    mmap : bool, default=False
        Leave the vectors on disk and return a read-only view of the file, whose rows
        are read when they are used. The dimensions of all of them are checked before,
        which goes through the file once.

    Returns
    -------
    vectors : ndarray of shape (stop - start, n_features), float32

    Raises
    ------
    ValueError
        If the file is empty, is not made of whole vectors of one dimension, or has no
        vectors from `start` to `stop`.

    See Also
    --------
    read_bvecs : Vectors of bytes, as in SIFT1B.
    read_ivecs : Vectors of integers: the true neighbours that belong to these files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skhash.datasets import read_fvecs
    >>> records = np.array([(2, [0.0, 0.5]), (2, [1.0, 1.5])], dtype="<i4,(2,)<f4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "base.fvecs"
    ...     records.tofile(path)
    ...     read_fvecs(path, start=1)
    array([[1. , 1.5]], dtype=float32)
    """
    return _read_vecs(path, np.float32, start, stop, mmap)


def read_ivecs(
    path: PathLike, *, start: int = 0, stop: int | None = None, mmap: bool = False
) -> np.ndarray:
    """Read integer vectors from an ``.ivecs`` file: as a rule, true neighbours.

    Parameters, errors and the way of reading are those of `read_fvecs`.

    Returns
    -------
    vectors : ndarray of shape (stop - start, n_neighbors), int32
    """
    return _read_vecs(path, np.int32, start, stop, mmap)


def read_bvecs(
    path: PathLike, *, start: int = 0, stop: int | None = None, mmap: bool = False
) -> np.ndarray:
    """Read vectors of bytes from a ``.bvecs`` file, as SIFT1B comes.

    Parameters, errors and the way of reading are those of `read_fvecs`.

    Returns
    -------
    vectors : ndarray of shape (stop - start, n_features), uint8
    """
    return _read_vecs(path, np.uint8, start, stop, mmap)


def _read_vecs(path, dtype, start, stop, mmap):
    records = _map_records(path, np.dtype(dtype))
    n_vectors = len(records)
    stop = n_vectors if stop is None else stop
    if not 0 <= start <= stop <= n_vectors:
        raise ValueError(
            f"{path} has {n_vectors} vectors; start={start} and stop={stop} must obey "
            f"0 <= start <= stop <= {n_vectors}."
        )
    chosen = records[start:stop]
    _check_dimensions(path, chosen)
    # A copy drops the interleaved dimensions, and gives native byte order.
    return chosen["values"] if mmap else np.array(chosen["values"], dtype=dtype)


def _map_records(path, dtype: np.dtype) -> np.ndarray:
    """Map a file as (dimension, values) records; nothing but the first is read."""
    n_bytes = Path(path).stat().st_size
    with open(path, "rb") as file:
        head = file.read(4)
    dimension = int.from_bytes(head, "little", signed=True)
    if len(head) < 4:
        raise ValueError(
            f"{path} has {n_bytes} bytes, which are no vector: it is empty or "
            "truncated."
        )
    if not 1 <= dimension <= LARGEST_DIMENSION:
        raise ValueError(
            f"{path} starts with the dimension {dimension}, where 1 to "
            f"{LARGEST_DIMENSION} is expected: it is not a file of vectors. A "
            "compressed file must be unpacked first."
        )
    record = np.dtype(
        [("dimension", "<i4"), ("values", dtype.newbyteorder("<"), (dimension,))]
    )
    if n_bytes % record.itemsize:
        raise ValueError(
            f"{path} has {n_bytes} bytes, which are not whole records of "
            f"{record.itemsize} bytes (dimension {dimension}, {dtype}): it is "
            "truncated, or its components have another type."
        )
    return np.memmap(path, dtype=record, mode="r")


def _check_dimensions(path, records) -> None:
    expected = records.dtype["values"].shape[0]
    # The last one first: most damage moves all that follows.
    for rows in (slice(-1, None), *row_chunks(len(records), records.dtype.itemsize)):
        dimensions = records["dimension"][rows]
        wrong = np.flatnonzero(dimensions != expected)
        if len(wrong):
            raise ValueError(
                f"{path} has a vector of dimension {dimensions[wrong[0]]} where the "
                f"first has {expected}: it is corrupt, or its components have another "
                "type."
            )
