"""Archives of arrays: NumPy's .npz and SciPy's sparse matrices in it, never pickled."""

import zipfile
from collections.abc import Sequence
from contextlib import contextmanager

import numpy as np

from skhash.datasets._damage import check_sparse, listed, parsing
from skhash.datasets._paths import PathLike

CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_sparse_npz(path: PathLike):
    """Read a sparse matrix in CSR format from an ``.npz`` file.

    Parameters
    ----------
    path : path-like
        What ``scipy.sparse.save_npz`` wrote, or any archive with the arrays ``data``,
        ``indices``, ``indptr`` and ``shape``; further arrays are ignored. Pickled
        content is refused.

    Returns
    -------
    X : scipy.sparse.csr_array

    Raises
    ------
    ValueError
        If the file is damaged, an array is missing, the format is not CSR, or the
        arrays do not fit together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scipy import sparse
    >>> from skhash.datasets import read_sparse_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "counts.npz"
    ...     sparse.save_npz(path, sparse.csr_array([[0, 3], [1, 0]]))
    ...     read_sparse_npz(path).toarray()
    array([[0, 3],
           [1, 0]])
    """
    return csr_from_arrays(path, read_arrays(path, CSR_PARTS, optional=["format"]))


def is_sparse_npz(names: Sequence[str]) -> bool:
    """Tell whether the arrays of an archive are the parts of a sparse matrix."""
    return "format" in names or set(CSR_PARTS) <= set(names)


def npz_names(path: PathLike) -> list[str]:
    """Return the names of the arrays in an archive, without reading them."""
    with _open_npz(path) as saved:
        return list(saved.files)


def read_arrays(
    path: PathLike, names: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Read the named arrays of an ``.npz`` file, or say what is missing or damaged."""
    with _open_npz(path) as saved:
        missing = [name for name in names if name not in saved.files]
        if missing:
            raise ValueError(
                f"{path} has no array {', '.join(missing)}; it holds "
                f"{listed(saved.files)}."
            )
        wanted = [*names, *(name for name in optional if name in saved.files)]
        return {name: _read_member(path, saved, name) for name in wanted}


def csr_from_arrays(path: PathLike, arrays: dict[str, np.ndarray]):
    """Build a CSR array from its parts and check that they fit together."""
    from scipy import sparse

    # SciPy writes the format as bytes, which NumPy reads as a zero-dimensional array.
    saved_as = arrays.get("format", np.array(b"csr")).tolist()
    saved_as = saved_as.decode("latin-1") if isinstance(saved_as, bytes) else saved_as
    if saved_as != "csr":
        raise ValueError(
            f"{path} holds a sparse matrix in format {listed([repr(saved_as)])}; only "
            "'csr' is read. Save it with scipy.sparse.save_npz(path, X.tocsr())."
        )
    data, shape = arrays["data"], arrays["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: shape must be two integers, got an array of shape {shape.shape} "
            f"and dtype {shape.dtype}."
        )
    if data.dtype.kind not in "fiub":
        raise ValueError(f"{path}: data must be numbers, got dtype {data.dtype}.")
    if data.dtype == np.float16:  # which SciPy does not compute with
        data = data.astype(np.float32)
    with parsing(
        f"{path} is not a sparse matrix of shape {shape.tolist()} with {data.size} "
        "stored values"
    ):
        for name in ("indices", "indptr"):
            if arrays[name].dtype.kind not in "iu":
                raise ValueError(f"{name} must be integers, got {arrays[name].dtype}")
        X = sparse.csr_array(
            (data, arrays["indices"], arrays["indptr"]),
            shape=tuple(int(size) for size in shape),
        )
        check_sparse(X)
    return X


@contextmanager
def _open_npz(path: PathLike):
    # Opened here so that a missing file stays a FileNotFoundError, that a damaged one
    # is closed, and that NumPy does not take what is no archive for a pickle and
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
