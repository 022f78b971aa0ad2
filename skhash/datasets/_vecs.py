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


def map_vecs(path: PathLike, dtype: str) -> np.ndarray:
    """Map the vectors of a file, whose components have this type."""
    n_bytes, head = Path(path).stat().st_size, np.fromfile(path, "<i4", 1).tolist()
    if not head or not 1 <= head[0] <= LARGEST_DIMENSION:
        raise ValueError(
            f"{path} has {n_bytes} bytes and starts with the dimension {head}, where 1 "
            f"to {LARGEST_DIMENSION} is expected: it is not a file of vectors, or is "
            "truncated. A compressed file must be unpacked first."
        )
    record = np.dtype([("dimension", "<i4"), ("values", dtype, head)])
    if n_bytes % record.itemsize:
        raise ValueError(
            f"{path} has {n_bytes} bytes, which are not whole records of "
            f"{record.itemsize} bytes (dimension {head[0]}, {dtype}): it is "
            "truncated, or its components have another type."
        )
    records = np.memmap(path, dtype=record, mode="r")
    # The last one first: most damage moves all that follows.
    for rows in (slice(-1, None), *row_chunks(len(records), record.itemsize)):
        dimensions = records["dimension"][rows]
        wrong = dimensions[dimensions != head]
        if len(wrong):
            raise ValueError(
                f"{path} has a vector of dimension {wrong[0]} where the first has "
                f"{head[0]}: it is corrupt, or its components have another type."
            )
    return records["values"]
