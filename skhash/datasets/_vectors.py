"""One reader of vector files of any format, for the command line."""

from functools import partial
from pathlib import Path

import numpy as np

from skhash.datasets._damage import PathLike
from skhash.datasets._hdf5 import read_hdf5
from skhash.datasets._mapped import map_bin, map_tensor, map_vecs
from skhash.datasets._npz import VECTOR_NAMES, open_npz, read_npy
from skhash.datasets._tables import open_table, without_ids

FORMATS = (
    f".npy, .npz (one matrix, or one named {', '.join(VECTOR_NAMES)}, or sparse CSR), "
    ".fvecs, .bvecs, .ivecs, .fbin, .u8bin, .i8bin, .safetensors, .parquet, .arrow, "
    ".feather, .csv, and .hdf5 or .h5"
)


def open_vectors(
    path: PathLike, *, mmap: bool = True, column=None, name=None, keep_ids: bool = False
):
    """Open a file of vectors, one per row, in the format given by its suffix.

    Parameters
    ----------
    path : path-like
        * ``.npy``: a matrix of numbers, float16 included.
        * ``.npz``: an archive with a single matrix, or with one named ``X``,
          ``vectors``, ``embeddings``, ``train`` or ``arr_0`` (the first of these that
          it has), or a sparse CSR matrix.
        * ``.safetensors``, ``.hdf5``, ``.h5``: a single matrix, or one with such a
          name. Tensors of bfloat16 are read as float32. HDF5 needs h5py.
        * ``.fvecs``, ``.bvecs``, ``.ivecs``: vectors of float32, uint8 or int32, as in
          SIFT1M, GIST1M and SIFT1B and their ground truth. The dimension of every
          vector is checked, which reads the file once.
        * ``.fbin``, ``.u8bin``, ``.i8bin``: vectors of float32, uint8 or int8, as in
          big-ann-benchmarks.
        * ``.parquet``, ``.arrow``, ``.feather``: a column of lists of numbers with
          equal lengths, otherwise all numeric columns. They need pyarrow.
        * ``.csv``: comma-separated numbers; the first line may be a header.
    mmap : bool, default=True
        Whether to memory-map files of plain numbers: ``.npy``, ``vecs``, ``bin``,
        safetensors, and HDF5 without chunks. Their rows stay on disk until they are
        used, so a file may be larger than memory. Other formats are always read
        completely.
    column : str, default=None
        Column to read from a Parquet, Arrow or Feather file.
    name : str, default=None
        Array to read from an ``.npz``, safetensors or HDF5 file.
    keep_ids : bool, default=False
        Whether to keep columns that look like ids. By default, in ``.csv`` files and
        tables of numeric columns, a column of integers is left out, with a warning, if
        it counts the rows, or if 100 or more rows all have different values.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_array of shape (n, n_features)
        The vectors, with the dtype of the file, or float32 for ``.csv`` and numeric
        columns. A mapped array is read-only. Values are not checked for NaN and
        infinity.

    Raises
    ------
    ValueError
        If the suffix is unknown, or if the file is damaged or holds no such matrix.
    ImportError
        If h5py or pyarrow is needed but not installed.

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
    if Path(path).is_fifo():  # which is read once, and may never end
        raise ValueError(f"{path} is a pipe; write its content to a file first.")
    suffix = Path(path).suffix.lower()
    if suffix in (".pt", ".pth"):
        file, other = str(path), str(Path(path).with_suffix(".npy"))
        raise ValueError(
            f"{path} is a torch pickle, which can run code. Convert it: np.save("
            f"{other!r}, torch.load({file!r}, weights_only=True).float().numpy())"
        )
    if suffix not in OPENERS:
        raise ValueError(
            f"{path} has the unknown suffix {suffix!r}. Supported formats are "
            f"{FORMATS}."
        )
    name = column if name is None else name
    if name is not None and suffix not in NAMED:
        raise ValueError(f"{path} has no named arrays or columns, such as {name}.")
    X = OPENERS[suffix](path, name, keep_ids)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} holds an array of shape {X.shape} and dtype {X.dtype}; vectors "
            "must be a matrix of real numbers that is not empty, one vector per row."
        )
    return X if mmap or not isinstance(X, np.memmap) else np.array(X)


def _open_csv(path: PathLike, name: None, keep_ids: bool) -> np.ndarray:
    # This skips the mark that spreadsheets put at the start of a file.
    encoding = "utf-8-sig"
    try:
        with open(path, encoding=encoding) as file:
            first = file.readline().strip()
            n_header = 0 if _are_numbers(first) else 1
            if n_header and not any(map(str.strip, file)):
                raise ValueError("there is no row of numbers")
        _check_header(first)
        read = partial(np.loadtxt, delimiter=",", comments=None, encoding=encoding)
        X = read(path, skiprows=n_header, ndmin=2)
    except ValueError as error:  # UnicodeDecodeError is one too
        raise ValueError(
            f"{path} cannot be read as comma-separated numbers: {error}; leave out "
            "columns of text, such as ids"
        ) from error
    names = first.split(",")
    if not n_header or len(names) != X.shape[1]:
        names = [f"column {i}" for i in range(X.shape[1])]
    return without_ids(path, X, names, keep_ids)


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


def _open_hdf5(path: PathLike, name: str | None, keep_ids: bool) -> np.ndarray:
    (X,) = read_hdf5(path, () if name is None else (name,), mmap=True)[0].values()
    return X


# Those whose arrays or columns have names; and of all, with the name and `keep_ids`.
NAMED = (".npz", ".safetensors", ".hdf5", ".h5", ".parquet", ".arrow", ".feather")
OPENERS = {
    ".npy": lambda path, *_: read_npy(path, mmap=True),
    ".npz": lambda path, name, _: open_npz(path, name),
    ".safetensors": lambda path, name, _: map_tensor(path, name),
    ".fvecs": lambda path, *_: map_vecs(path, "<f4"),
    ".bvecs": lambda path, *_: map_vecs(path, "u1"),
    ".ivecs": lambda path, *_: map_vecs(path, "<i4"),
    ".fbin": lambda path, *_: map_bin(path, "<f4"),
    ".u8bin": lambda path, *_: map_bin(path, "u1"),
    ".i8bin": lambda path, *_: map_bin(path, "i1"),
    ".csv": _open_csv,
    **dict.fromkeys((".hdf5", ".h5"), _open_hdf5),
    **dict.fromkeys((".parquet", ".arrow", ".feather"), open_table),
}
