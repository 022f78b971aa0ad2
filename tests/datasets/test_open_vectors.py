import numpy as np
import pytest
from scipy import sparse

from skhash.datasets import open_vectors

X = np.random.default_rng(0).integers(0, 50, (6, 4)).astype(np.float32)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i8", ">f4"])
def test_npy(tmp_path, dtype, mmap):
    path = tmp_path / "v.npy"
    np.save(path, X.astype(dtype))
    read = open_vectors(path, mmap=mmap)
    assert read.dtype == np.dtype(dtype)
    assert isinstance(read, np.memmap) == mmap
    np.testing.assert_array_equal(read, X)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(("suffix", "dtype"), [(".fvecs", "f4"), (".bvecs", "u1")])
def test_vecs(tmp_path, write_vecs, suffix, dtype, mmap):
    read = open_vectors(write_vecs(tmp_path / f"v{suffix}", X.astype(dtype)), mmap=mmap)
    assert isinstance(read, np.memmap) == mmap
    np.testing.assert_array_equal(read, X)


@pytest.mark.parametrize(
    "arrays",
    [
        {"anything": X},
        {"anything": X, "labels": np.arange(6), "names": np.array([["a"]])},
        {"train": X, "test": X[:2]},
        {"arr_0": X[:1], "embeddings": X},
        {"Z": X[:1], "X": X},
    ],
)
def test_npz(tmp_path, arrays):
    np.savez(tmp_path / "v.npz", **arrays)
    np.testing.assert_array_equal(open_vectors(tmp_path / "v.npz"), X)


def test_sparse_npz(tmp_path):
    sparse.save_npz(tmp_path / "v.npz", sparse.csr_array(X))
    np.testing.assert_array_equal(open_vectors(tmp_path / "v.npz").toarray(), X)


@pytest.mark.parametrize("header", ["", "a,b,c,d\n", '"0","x 1",c,d\n', "\ufeff"])
def test_csv(tmp_path, header):
    rows = "\n".join(",".join(f"{value:g}" for value in row) for row in X)
    (tmp_path / "v.CSV").write_text(header + rows, encoding="utf-8")
    read = open_vectors(tmp_path / "v.CSV")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, X)


@pytest.mark.parametrize("suffix", [".hdf5", ".h5"])
def test_hdf5(tmp_path, suffix):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / f"v{suffix}", "w") as file:
        file["train"] = X
    np.testing.assert_array_equal(open_vectors(tmp_path / f"v{suffix}"), X)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",x,y\n0,1,2\n", r"first column has no name.*index=False"),
        ("0,1,2\n5,6,7\n", r"counts from 0 to 2.*header=False"),
        ("a,b\n", "no row of numbers"),
        ("", "no row of numbers"),
        ("1,2\n3\n", "columns changed from 2 to 1"),
        ("1,2\n3,\n", "could not convert string ''"),
        ("a,b\n1,red\n", "could not convert string 'red'"),
        ("1;2\n3;4\n", "could not convert"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    match = f"bad.csv cannot be read as comma-separated numbers: .*{message}"
    with pytest.raises(ValueError, match=match):
        open_vectors(tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros((2, 3), dtype=complex), "complex128"),
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[None]]), "cannot be read"),
    ],
)
def test_npy_of_something_else(tmp_path, array, message):
    np.save(tmp_path / "bad.npy", array)
    for mmap in (True, False):
        with pytest.raises(ValueError, match=f"bad.npy.*{message}"):
            open_vectors(tmp_path / "bad.npy", mmap=mmap)


def test_npz_without_a_clear_matrix(tmp_path):
    np.savez(tmp_path / "bad.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"bad.npz holds 2 matrices.*\(a, b\).*X, vec"):
        open_vectors(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", a=X[0])
    with pytest.raises(ValueError, match="bad.npz holds 0 matrices"):
        open_vectors(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", X=X[0])
    with pytest.raises(ValueError, match=r"bad.npz holds an array of shape \(4,\)"):
        open_vectors(tmp_path / "bad.npz")


@pytest.mark.parametrize("name", ["v.txt", "v", "v.vecs"])
def test_unknown_suffix_lists_what_is_read(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name} has the suffix.*\.npy.*\.hdf5"):
        open_vectors(tmp_path / name)
