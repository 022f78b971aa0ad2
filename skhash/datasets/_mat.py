"""The .mat files in which semantic hashing exchanges its text sets."""

import os
from pathlib import Path

import numpy as np

from skhash.datasets._bundle import RetrievalData
from skhash.datasets._damage import LARGEST_EXPANSION, check_sparse, listed, parsing
from skhash.datasets._mat_tags import check_matrices
from skhash.datasets._paths import PathLike

# Our part, the file's name of its rows; the labels are under "gnd_" and that name.
PARTS = {"train": "train", "query": "test", "validation": "cv"}
# The first number of the version that is HDF5; that of the oldest files is 0.
HDF5_VERSION = 2


def read_vdsh_mat(path: PathLike) -> RetrievalData:
    """Read a text set in the layout of VDSH, such as ``ng20.tfidf.mat``.

    The file holds sparse matrices ``train``, ``test`` and, as a rule, ``cv``, with one
    document a row and one word a column, and their labels ``gnd_train``, ``gnd_test``
    and ``gnd_cv``.

    Parameters
    ----------
    path : path-like
        A MATLAB file up to version 7; version 7.3 is HDF5 and not read.

    Returns
    -------
    data : RetrievalData
        By the protocol of the papers, `train` is also the `database`, ``test`` is the
        `query`, and ``cv`` (if there) is the `validation` part. Matrices are CSR with
        the file's values. Labels in a 0/1 matrix stay one, with a row for each
        document; labels in a vector become class numbers of shape (n,).

    Raises
    ------
    ValueError
        If the file is damaged or has another layout, or its parts do not fit together.

    Notes
    -----
    Loading runs no code. Further variables are left alone.
    """
    content, names = _load_mat(path)
    for name in ("train", "test", "gnd_train", "gnd_test"):
        if name not in content:
            raise ValueError(
                f"{path} has no variable {name!r}; it holds {listed(sorted(names))}."
            )
    rows, labels = {}, {}
    for part, name in PARTS.items():
        if name in content:
            rows[part] = _documents(path, name, content[name])
            if f"gnd_{name}" in content:
                labels[f"{part}_labels"] = _labels(
                    path, f"gnd_{name}", content[f"gnd_{name}"], rows[part].shape[0]
                )
    return RetrievalData(
        name=Path(path).name,
        metric="cosine",
        database=rows["train"],
        database_labels=labels["train_labels"],
        **rows,
        **labels,
    )


def _load_mat(path: PathLike) -> tuple[dict, list[str]]:
    """Return the variables of the layout that a file has, and the names of all."""
    from scipy import sparse
    from scipy.io import loadmat
    from scipy.io.matlab import matfile_version

    wanted = [prefix + name for name in PARTS.values() for prefix in ("", "gnd_")]
    failure = f"{path} is not a MATLAB file or is damaged"
    with open(path, "rb") as file, parsing(failure):
        version, _ = matfile_version(file)
        if version == HDF5_VERSION:
            raise ValueError(
                "version 7.3 is not read; save it again in MATLAB with save(..., '-v7')"
            )
        if version:
            file.seek(0)
            names = check_matrices(file.read(), wanted)
        content = loadmat(file, variable_names=wanted)
        for name, value in content.items():
            if sparse.issparse(value):
                check_sparse(value)
                _check_length(name, value, os.fstat(file.fileno()).st_size)
        return content, names if version else list(content)


def _check_length(name: str, value, n_bytes: int) -> None:
    """Refuse more rows than labels, of a byte each at least, the file can hold."""
    if value.shape[0] > LARGEST_EXPANSION * n_bytes:
        raise ValueError(
            f"{name} declares {value.shape[0]:,} rows in a file of {n_bytes:,} bytes"
        )


def _documents(path: PathLike, name: str, value):
    from scipy import sparse

    if (
        not (sparse.issparse(value) or value.ndim == 2)
        or value.dtype.kind not in "fiub"
    ):
        raise ValueError(
            f"{path}: {name} must be a matrix of numbers, got shape {value.shape} and "
            f"dtype {value.dtype}."
        )
    with parsing(f"{path}: {name} of shape {value.shape} cannot be held"):
        return sparse.csr_array(value)


def _labels(path: PathLike, name: str, value, n_rows: int) -> np.ndarray:
    from scipy import sparse

    with parsing(f"{path}: {name} of shape {value.shape} cannot be held"):
        labels = value.toarray() if sparse.issparse(value) else np.asarray(value)
    if labels.ndim == 2 and labels.shape[0] != n_rows and labels.shape[1] == n_rows:
        labels = labels.T  # MATLAB users keep items in columns about as often
    if labels.ndim != 2 or labels.shape[0] != n_rows or labels.dtype.kind not in "fiub":
        raise ValueError(
            f"{path}: {name} has shape {labels.shape} and dtype {labels.dtype}, for "
            f"{n_rows} documents; it must be one number or one row of 0/1 a document."
        )
    if labels.shape[1] == 1 and (np.rint(labels) == labels).all():
        return labels[:, 0].astype(np.int64)
    if not ((labels == 0) | (labels == 1)).all():
        raise ValueError(
            f"{path}: {name} of shape {labels.shape} must hold 0 and 1 only, or be a "
            "vector of class numbers."
        )
    return np.ascontiguousarray(labels, dtype=np.uint8)
