"""HDF5 files of ann-benchmarks; h5py is imported when one is read."""

from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np

from skhash.datasets import _damage
from skhash.datasets._bundle import RetrievalData
from skhash.datasets._damage import PathLike, listed, parsing
from skhash.datasets._npz import is_matrix, name_of_vectors
from skhash.utils.lazy import import_extra

# Bytes that the HDF5 library cuts off a chunk with a checksum, whatever its size.
CHECKSUM_BYTES = 4

# ann-benchmarks' names of distances, and ours.
ANN_METRICS = {
    "euclidean": "euclidean",
    "angular": "cosine",
    "hamming": "hamming",
    "ip": "inner_product",
    "dot": "inner_product",
}


def read_ann_hdf5(path: PathLike) -> RetrievalData:
    """Read an HDF5 file of ann-benchmarks, such as ``glove-100-angular.hdf5``.

    Parameters
    ----------
    path : path-like
        Path of the file.

    Returns
    -------
    data : RetrievalData
        The data set. `database` and `train` are the file's ``train``, and `query` is
        its ``test``. `true_neighbors` and `true_distances` are set if the file has
        them. `metric` follows the file's attribute ``distance`` ("angular" is
        "cosine"). Types are those of the file, and everything is read into memory.

    Raises
    ------
    ImportError
        If h5py is not installed.
    ValueError
        If the file is damaged, lacks ``train`` or ``test``, or has an unsupported
        distance, or if its parts do not match or are in other files.

    Notes
    -----
    In ann-benchmarks' Hamming files, ``distances`` are shares of differing bits, not
    numbers of bits. They are returned unchanged.

    Truncated files are detected. Apart from that, HDF5 has no checksums by default, and
    its library can hang on damaged files, so read only files from sources that you
    trust.
    """
    arrays, distance = read_hdf5(path, ("train", "test"), ("neighbors", "distances"))
    if not isinstance(distance, str) or distance not in ANN_METRICS:
        raise ValueError(
            f"{path}: the attribute 'distance' is {distance!r}, but only "
            f"{', '.join(ANN_METRICS)} are supported."
        )
    return RetrievalData(
        name=Path(path).name,
        metric=ANN_METRICS[distance],
        train=arrays["train"],
        database=arrays["train"],
        query=arrays["test"],
        true_neighbors=arrays.get("neighbors"),
        true_distances=arrays.get("distances"),
    )


def read_hdf5(path: PathLike, names=(), optional=(), mmap=False):
    """Return data sets of an HDF5 file, and its attribute ``distance`` or None.

    Without names, it is that of the vectors; those in groups have names with slashes.
    """
    h5py = import_extra("h5py", f"Reading {path}", '"scikit-hash[hdf5]"')
    # Opened here first, since h5py's OSError for a missing file reads as for a bad one.
    with open(path, "rb"):
        pass
    with parsing(f"{path} cannot be read as HDF5"), h5py.File(path, "r") as file:
        is_own = partial(_is_own_dataset, h5py, file)
        if not names:
            kinds = {name: is_own(name) and is_matrix(file[name]) for name in file}
            names = (name_of_vectors(path, kinds, None, kinds.get),)
        missing = [name for name in names if not is_own(name)]
        if missing:
            raise ValueError(
                f"it has no data set {', '.join(missing)}, but "
                f"{listed(sorted(filter(is_own, file)))}; links are not followed"
            )
        wanted = [*names, *filter(is_own, optional)]
        distance = file.attrs.get("distance")
        distance = distance.decode() if isinstance(distance, bytes) else distance
        return {name: _read_dataset(file[name], mmap) for name in wanted}, distance


def _is_own_dataset(h5py, file, name: str) -> bool:
    """Return whether a name is a data set, not a link, which may lead anywhere."""
    above = accumulate(name.strip("/").split("/"), "{}/{}".format)
    links = [file.get(path, getclass=True, getlink=True) for path in above]
    is_own = {*links} == {h5py.HardLink}
    return is_own and file.get(name, getclass=True) is h5py.Dataset


def _read_dataset(dataset, mmap) -> np.ndarray:
    """Read or map a data set of numbers, all of which lie in its file."""
    from h5py.h5t import py_create

    name = dataset.name
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"{name} lies in other files, which are not read; copy it")
    if dataset.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {dataset.dtype}, which is not numeric")
    if dataset.fletcher32 and _smallest_chunk(dataset) < CHECKSUM_BYTES:
        raise ValueError(f"{name} has a chunk that is smaller than its checksum")
    held = dataset.id.get_storage_size()
    if dataset.nbytes > _damage.LARGEST_EXPANSION * held:
        raise ValueError(
            f"{name} declares {dataset.nbytes:,} bytes of numbers, and the file holds "
            f"{held:,}"
        )
    path, place = dataset.file.filename, dataset.id.get_offset()
    # The library converts numbers that NumPy has in another form, such as bfloat16.
    in_file, in_memory = dataset.id.get_type(), py_create(dataset.dtype, logical=True)
    if mmap and place is not None and in_file.equal(in_memory):
        return np.memmap(path, dataset.dtype, "r", place, dataset.shape)
    return np.asarray(dataset[()])


def _smallest_chunk(dataset) -> int:
    sizes = [CHECKSUM_BYTES]
    dataset.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
    return min(sizes)
