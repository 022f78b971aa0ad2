"""One reader of vector files of any format, for the command line."""

from pathlib import Path

import numpy as np

from skhash.datasets._damage import PathLike
from skhash.datasets._hdf5 import read_hdf5
from skhash.datasets._npy import read_npy
from skhash.datasets._npz import VECTOR_NAMES, open_npz
from skhash.datasets._vecs import open_vecs

FORMATS = (
    f".npy, .npz (one matrix, or one named {', '.join(VECTOR_NAMES)}, or sparse CSR), "
    ".fvecs, .bvecs, .ivecs, .csv, and .hdf5 or .h5 (data set 'train')"
)


def open_vectors(path: PathLike, *, mmap: bool = True):
    """Open a file of vectors, one a row; its suffix says the format.

    Parameters
    ----------
    path : path-like
        * ``.npy``: a matrix of numbers, float16 included.
        * ``.npz``: an archive with one matrix, or with one that is named ``X``,
          ``vectors``, ``embeddings``, ``train`` or ``arr_0`` (the first of these that
          is there), or a sparse CSR matrix.
        * ``.fvecs``, ``.bvecs``, ``.ivecs``: vectors of float32, uint8 or int32, as
          SIFT1M, GIST1M and SIFT1B come, and their true neighbours. The dimensions of
          all of them are checked, which goes through the file once.
        * ``.csv``: numbers with commas between them; the first line may be a header.
        * ``.hdf5``, ``.h5``: the data set ``train``; needs h5py.
    mmap : bool, default=True
        Map ``.npy`` and ``vecs`` files: their rows stay on disk until
        they are used, so a file may be larger than memory. Other formats are read
        whole.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_array of shape (n, n_features)
        With the type of the file; float32 for ``.csv``. A mapped array is read-only.
        Values are not checked for NaN and infinity.

    Raises
    ------
    ValueError
        If the suffix is unknown, or the file is damaged or holds no such matrix.
    ImportError
        If the file is HDF5 and h5py is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skhash.datasets import open_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.csv"
    ...     _ = path.write_text("x,y\\n0.5,1\\n2,3\\n")
    ...     open_vectors(path)
    array([[0.5, 1. ],
           [2. , 3. ]], dtype=float32)
    """
    suffix = Path(path).suffix.lower()
    if suffix not in OPENERS:
        raise ValueError(
            f"{path} has the suffix {suffix!r}, which is not known. Vectors are read "
            f"from {FORMATS}."
        )
    X = OPENERS[suffix](path, mmap)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} holds an array of shape {X.shape} and dtype {X.dtype}; vectors "
            "are a matrix of real numbers, one a row, that is not empty."
        )
    return X


def _open_csv(path: PathLike, mmap: bool) -> np.ndarray:
    # utf-8-sig skips the mark that spreadsheets put at the start of a file.
    try:
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline().strip()
            n_header = 0 if _are_numbers(first) else 1
            if n_header and not file.readline().strip():
                raise ValueError("there is no row of numbers")
        _check_header(first)
        return np.loadtxt(
            path,
            dtype=np.float32,
            delimiter=",",
            comments=None,
            skiprows=n_header,
            ndmin=2,
            encoding="utf-8-sig",
        )
    except ValueError as error:  # UnicodeDecodeError is one too
        raise ValueError(
            f"{path} cannot be read as comma-separated numbers: {error}"
        ) from error


def _check_header(line: str) -> None:
    """Refuse row names and column numbers, which pandas adds by default."""
    cells = [cell.strip('" ') for cell in line.split(",")]
    if cells[0] == "":
        raise ValueError(
            "the first column has no name, so it looks like row names; leave them out "
            "(pandas: to_csv(path, index=False))"
        )
    if len(cells) > 1 and cells == [str(i) for i in range(len(cells))]:
        raise ValueError(
            f"the first line counts from 0 to {len(cells) - 1}, so it looks like "
            "column numbers; leave them out (pandas: header=False) or, if they are "
            "values, put a line of names before them"
        )


def _are_numbers(line: str) -> bool:
    try:
        return bool([float(cell) for cell in line.split(",")])
    except ValueError:
        return False


def _open_hdf5(path: PathLike, mmap: bool) -> np.ndarray:
    return read_hdf5(path, ("train",))[0]["train"]


OPENERS = {
    ".npy": read_npy,
    ".npz": lambda path, mmap: open_npz(path),
    ".fvecs": lambda path, mmap: open_vecs(path, np.float32, mmap),
    ".bvecs": lambda path, mmap: open_vecs(path, np.uint8, mmap),
    ".ivecs": lambda path, mmap: open_vecs(path, np.int32, mmap),
    ".csv": _open_csv,
    ".hdf5": _open_hdf5,
    ".h5": _open_hdf5,
}
