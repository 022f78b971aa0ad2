"""Files of plain numbers, which are mapped: .fbin, .fvecs and the like, safetensors."""

import json
import math
from pathlib import Path

import numpy as np

from skhash.datasets._damage import PathLike, parsing
from skhash.datasets._npz import name_of_vectors
from skhash.persistence.tensors import TYPES
from skhash.utils.chunks import row_chunks

# As the format's own library has it.
LONGEST_HEADER = 100_000_000


def map_bin(path: PathLike, dtype: str) -> np.ndarray:
    """Map a file of big-ann-benchmarks: two uint32, then vectors of this type."""
    n_bytes = Path(path).stat().st_size
    shape = np.fromfile(path, "<u4", 2).tolist()
    if 0 in shape or n_bytes != 8 + math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(
            f"{path} has {n_bytes} bytes, which is not a header and {dtype} numbers of "
            f"shape {shape}: it is truncated, or of another format."
        )
    return np.memmap(path, dtype, "r", 8, tuple(shape))


def map_tensor(path: PathLike, name: str | None) -> np.ndarray:
    """Map a tensor of safetensors; those of bfloat16 are read as float32."""
    n_bytes = Path(path).stat().st_size
    with open(path, "rb") as file, parsing(f"{path} cannot be read as safetensors"):
        start = 8 + int.from_bytes(file.read(8), "little")
        if start > min(n_bytes, LONGEST_HEADER):
            raise ValueError("it is truncated, or of another format")
        header = json.loads(file.read(start - 8))
        header.pop("__metadata__", None)
        stop = start + max(entry["data_offsets"][1] for entry in header.values())
        if stop != n_bytes:
            raise ValueError(f"it has {n_bytes} bytes, and declares {stop}")
        name = name_of_vectors(
            path, header, name, lambda key: len(header[key]["shape"]) == 2
        )
        tensor = header[name]
        dtype = {**TYPES, "BF16": "<u2"}.get(tensor["dtype"])
        if dtype is None:
            raise ValueError(f"{name} is of type {tensor['dtype']}; save it as float32")
        first, stop = tensor["data_offsets"]
        X = np.memmap(path, dtype, "r", start + first, tuple(tensor["shape"]))
        if X.nbytes != stop - first:
            raise ValueError(f"{name} has shape {X.shape} in {stop - first} bytes")
    if tensor["dtype"] != "BF16":
        return X
    wide = np.array(X, dtype=np.uint32)
    wide <<= 16  # a bfloat16 is the first half of a float32
    return wide.view(np.float32)


# Far above any dimension; a larger first number means another format.
LARGEST_DIMENSION = 2**20


def map_vecs(path: PathLike, dtype: str) -> np.ndarray:
    """Map the vectors of a .fvecs file or the like, with components of this type.

    It is a sequence of equal records: the dimension as a little-endian 32-bit integer,
    then the components. There is no header.
    """
    n_bytes, head = Path(path).stat().st_size, np.fromfile(path, "<i4", 1).tolist()
    if not head or not 1 <= head[0] <= LARGEST_DIMENSION:
        raise ValueError(
            f"{path} has {n_bytes} bytes and starts with the dimension {head}, but 1 "
            f"to {LARGEST_DIMENSION} is expected: it is not a file of vectors, or is "
            "truncated. Unpack a compressed file first."
        )
    record = np.dtype([("dimension", "<i4"), ("values", dtype, head)])
    if n_bytes % record.itemsize:
        raise ValueError(
            f"{path} has {n_bytes} bytes, which is not a multiple of a record's "
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
                f"{path} has a vector of dimension {wrong[0]}, but the first has "
                f"{head[0]}: it is corrupt, or its components have another type."
            )
    return records["values"]
