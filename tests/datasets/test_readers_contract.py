"""The contract of readers, whichever there are."""

import numpy as np
import pytest
from page_examples import page_functions
from scipy import sparse

from skhash import datasets
from skhash.datasets import RetrievalData

NAMES = [name for name in datasets.__all__ if name.startswith(("open_", "read_"))]
# Those of the pages keep the same promises.
READERS = {name: getattr(datasets, name) for name in NAMES} | {
    reader.__name__: reader for reader in page_functions(start="read_")
}
every_reader = pytest.mark.parametrize("name", READERS)

X = np.random.default_rng(0).integers(0, 9, (3, 4))


def write_hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = "euclidean"
        file["train"] = file["test"] = X.astype(np.float32)


def write_word2vec(path):
    lines = [f"word{i} " + " ".join(map(str, row)) for i, row in enumerate(X)]
    path.write_text("\n".join(["{} {}".format(*X.shape), *lines, ""]))


def save_npy(path):
    with open(path, "wb") as file:
        np.save(file, X)


@pytest.fixture
def write(tmp_path):
    """Write a small file that a reader reads, and return its path."""
    writers = {
        "open_vectors": save_npy,
        "read_ann_hdf5": write_hdf5,
        "read_word2vec": write_word2vec,
    }
    assert writers.keys() == READERS.keys(), "every reader needs a file that it reads"

    def write(name):
        path = tmp_path / "sample.npy"  # a suffix that all of them take
        writers[name](path)
        return path

    return write


def same(a, b):
    if isinstance(a, RetrievalData):
        return all(same(vars(a)[key], vars(b)[key]) for key in vars(a))
    if isinstance(a, tuple):
        return all(map(same, a, b))
    if sparse.issparse(a):
        return (a != b).nnz == 0
    return np.array_equal(a, b)


def test_every_public_name_is_a_reader_or_the_digits():
    digits = {"RetrievalData", "load_digits_retrieval"}
    assert {*NAMES, *digits} == set(datasets.__all__)


@every_reader
def test_a_path_may_be_text(write, name):
    reader, path = READERS[name], write(name)
    assert same(reader(str(path)), reader(path))


@every_reader
@pytest.mark.parametrize(
    "content",
    [b"", b"\x07 nothing of any format\n" * 9, b"\xff\xfe\0\x81", b"\x80\4K\1."],
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".npy", ".npz", ".csv", ".fvecs"])
def test_a_file_of_no_format_is_refused_by_name(tmp_path, name, content, suffix):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"bad{suffix}"):
        READERS[name](path)


@every_reader
def test_a_missing_file_is_no_damaged_one(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        READERS[name](tmp_path / "absent.npy")
