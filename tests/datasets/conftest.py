"""Writers of the small files that these tests read back."""

import gzip
from pathlib import Path

import numpy as np
import pytest

IDX_CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


@pytest.fixture
def write_idx():
    def write(path: Path, array: np.ndarray) -> Path:
        code = IDX_CODES[array.dtype.str[1:]]
        sizes = np.array(array.shape, dtype=">u4").tobytes()
        values = array.astype(array.dtype.newbyteorder(">")).tobytes()
        content = bytes([0, 0, code, array.ndim]) + sizes + values
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return write


@pytest.fixture
def write_vecs():
    def write(path: Path, vectors: np.ndarray) -> Path:
        values = vectors.dtype.newbyteorder("<")
        layout = [("dimension", "<i4"), ("values", values, vectors.shape[1:])]
        records = np.empty(len(vectors), dtype=layout)
        records["dimension"], records["values"] = vectors.shape[1], vectors
        records.tofile(path)
        return path

    return write


@pytest.fixture
def load_or_skip():
    """Call a loader; where its files are absent, skip and show how to get them."""

    def load(loader, *args, **kwargs):
        try:
            return loader(*args, **kwargs)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return load
