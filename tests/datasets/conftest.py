"""Writers of the small files that these tests read back."""

from pathlib import Path

import numpy as np
import pytest


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
