"""NumPy's .npz archives, and SciPy's sparse matrices in them, never pickles."""

import zipfile
from contextlib import contextmanager

import numpy as np

from skhash.datasets._damage import PathLike, listed, parsing

# Where an archive has several arrays, the first of these is the vectors.
VECTOR_NAMES = ("X", "vectors", "embeddings", "train", "arr_0")


def open_npz(path: PathLike):
    """Read the vectors of an ``.npz`` file: an array of a usual name, or a matrix."""
    with _opened(path) as saved:
        names = saved.files
        if "format" in names:
            return _open_csr(path)
        for name in VECTOR_NAMES:
            if name in names:
                return _read_member(path, saved, name)
        arrays = [_read_member(path, saved, name) for name in names]
    matrices = [one for one in arrays if one.ndim == 2 and one.dtype.kind in "fiub"]
    if len(matrices) != 1:
        raise ValueError(
            f"{path} holds {len(matrices)} matrices of numbers among its arrays "
            f"({listed(names)}), so that it is not clear which one is "
            f"meant: name it one of {', '.join(VECTOR_NAMES)}."
        )
    return matrices[0]


def _open_csr(path: PathLike):
    """Read a CSR array, and check that its parts fit together."""
    from scipy import sparse

    with parsing(f"{path} is not a sparse matrix as scipy.sparse.save_npz writes it"):
        X = sparse.load_npz(path)
        if X.format != "csr":
            raise ValueError(f"its format is {X.format!r}; save X.tocsr()")
        # SciPy trusts them, and a wrong one would end the process when it is used.
        X.check_format(full_check=True)
        # It looks at this only where a value is stored.
        if (X.indptr[:-1] > X.indptr[1:]).any():
            raise ValueError("indptr must be a non-decreasing sequence")
        if X.dtype == np.float16:  # which SciPy does not compute with
            X = X.astype(np.float32)
        return sparse.csr_array(X)


@contextmanager
def _opened(path: PathLike):
    # Opened here so that a missing file stays a FileNotFoundError, that a damaged one
    # is closed, and that NumPy does not read what is no archive as a pickle and
    # advise to allow pickles.
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(
                f"{path} is not a .npz file, or is truncated: it is no zip archive. "
                "Write it with numpy.savez."
            )
        file.seek(0)
        with parsing(f"{path} is a damaged .npz file"):
            saved = np.load(file, allow_pickle=False)
        with saved:
            yield saved


def _read_member(path: PathLike, saved, name: str) -> np.ndarray:
    with parsing(f"{path}: the array {listed([name])} cannot be read"):
        in_zip = name if name in saved.zip.namelist() else f"{name}.npy"
        # NumPy returns other content as bytes, all of it, however large.
        with saved.zip.open(in_zip) as member:
            if member.read(6) != np.lib.format.MAGIC_PREFIX:
                raise ValueError("it is not one that NumPy wrote")
        return saved[name]
