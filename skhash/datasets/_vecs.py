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


def map_vecs(path: PathLike, dtype) -> np.ndarray:
    """Map the vectors of a file, whose components have this type."""
    records = _map_records(path, np.dtype(dtype))
    _check_dimensions(path, records)
    return records["values"]


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
