"""NumPy's .npy files, its .npz archives, and sparse matrices in them; no pickles."""

import zipfile
from contextlib import contextmanager
from functools import partial

import numpy as np

from skhash.datasets._damage import PathLike, listed, parsing

CSR_PARTS = ("data", "indices", "indptr", "shape")
# Where an archive has several arrays, the first of these is the vectors.
VECTOR_NAMES = ("X", "vectors", "embeddings", "train", "arr_0")


def open_npz(path: PathLike, name: str | None = None):
    """Read the vectors of an ``.npz`` file: an array of a usual name, or a matrix."""
    with _opened(path) as saved:
        names = saved.files
        if name is None and ("format" in names or set(CSR_PARTS) <= set(names)):
            return _csr(path, saved)
        read = partial(_read_member, path, saved)
        return read(name_of_vectors(path, names, name, partial(read, read=_is_matrix)))


def name_of_vectors(path: PathLike, names, name, is_matrix) -> str:
    """Return which array has the vectors: the one named, a usual one, or the matrix.

    is_matrix : callable
        Says of a name whether its array is a matrix of numbers.
    """
    usual = VECTOR_NAMES if name is None else [name]
    chosen = [key for key in usual if key in names][:1]
    if name is None and not chosen:
        chosen = [key for key in names if is_matrix(key)]
    if len(chosen) != 1:
        what = f"arrays named {name}" if name else "matrices of numbers"
        raise ValueError(
            f"{path} holds {len(chosen)} {what} among its arrays ({listed(names)}), "
            "so it is not clear which one to read: set name=NAME (--name), or name "
            f"the array one of {', '.join(VECTOR_NAMES)}."
        )
    return chosen[0]


def is_matrix(array) -> bool:
    """Return whether something like an array is a matrix of numbers."""
    return array.ndim == 2 and array.dtype.kind in "fiub"


def _csr(path: PathLike, saved):
    """Build a CSR array from its parts and check that they fit together."""
    from scipy import sparse

    arrays = _csr_parts(path, saved)
    data, shape = arrays["data"], arrays["shape"].tolist()
    if data.dtype == np.float16:  # which SciPy does not compute with
        data = data.astype(np.float32)
    with parsing(
        f"{path} is not a sparse matrix of shape {shape} with {data.size} stored values"
    ):
        for name in ("indices", "indptr"):
            if arrays[name].dtype.kind not in "iu":
                raise ValueError(f"{name} must be integers, got {arrays[name].dtype}")
        parts = data, arrays["indices"], arrays["indptr"]
        X = sparse.csr_array(parts, shape=tuple(shape))
        # SciPy trusts them, and a wrong one would end the process when it is used.
        X.check_format(full_check=True)
        # It looks at this only where a value is stored.
        if (X.indptr[:-1] > X.indptr[1:]).any():
            raise ValueError("indptr must be a non-decreasing sequence")
    return X


def _csr_parts(path: PathLike, saved) -> dict[str, np.ndarray]:
    """Return the parts of a matrix that the file declares to be CSR."""
    if "format" in saved.files:
        # SciPy writes bytes, which NumPy reads as a zero-dimensional array.
        name = _read_member(path, saved, "format").tolist()
        name = name.decode("latin-1") if isinstance(name, bytes) else name
        if name != "csr":
            raise ValueError(
                f"{path} holds a sparse matrix in format {listed([repr(name)])}; only "
                "'csr' is read. Save it with scipy.sparse.save_npz(path, X.tocsr())."
            )
    missing = [name for name in CSR_PARTS if name not in saved.files]
    if missing:
        raise ValueError(
            f"{path} has no array {', '.join(missing)}; it holds {listed(saved.files)}."
        )
    arrays = {name: _read_member(path, saved, name) for name in CSR_PARTS}
    data, shape = arrays["data"], arrays["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: shape must be two integers, got an array of shape {shape.shape} "
            f"and dtype {shape.dtype}."
        )
    if data.dtype.kind not in "fiub":
        raise ValueError(f"{path}: data must be numbers, got dtype {data.dtype}.")
    return arrays


@contextmanager
def _opened(path: PathLike):
    # Opened here so that a missing file stays a FileNotFoundError, that a damaged one
    # is closed, and that NumPy does not read what is no archive as a pickle and
    # advise to allow pickles.
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(
                f"{path} is not a .npz file, or is truncated: it is not a zip archive. "
                "Write it with numpy.savez."
            )
        file.seek(0)
        with parsing(f"{path} is a damaged .npz file"):
            saved = np.load(file, allow_pickle=False)
        with saved:
            yield saved


def _read_member(path: PathLike, saved, name: str, read=np.lib.format.read_array):
    """Return an array, or what else `read` returns of its file."""
    with parsing(f"{path}: the array {listed([name])} cannot be read"):
        in_zip = name if name in saved.zip.namelist() else f"{name}.npy"
        with saved.zip.open(in_zip) as member:
            return read(member)


def _is_matrix(member) -> bool:
    """Return whether the header of an array declares a matrix of numbers."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0}
    version = np.lib.format.read_magic(member)
    read = readers.get(version, np.lib.format.read_array_header_2_0)
    shape, _, dtype = read(member)
    return is_matrix(np.broadcast_to(np.empty((), dtype), shape))


def read_npy(path: PathLike, mmap: bool = False) -> np.ndarray:
    """Read or map the array of a ``.npy`` file; ``ValueError`` where it holds none."""
    # The magic is checked first: NumPy reads any other content as a pickle.
    with open(path, "rb") as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"{path} is not a .npy file; write it with numpy.save.")
    with parsing(f"{path} cannot be read as .npy"):
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
