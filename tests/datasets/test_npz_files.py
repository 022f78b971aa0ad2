import numpy as np
import pytest
from scipy import sparse

from skhash.datasets import open_vectors


@pytest.fixture
def X():
    dense = np.random.default_rng(0).poisson(0.4, (6, 5)).astype(np.float32)
    return sparse.csr_array(dense)


def parts(X):
    arrays = {name: getattr(X, name) for name in ("data", "indices", "indptr")}
    return arrays | {"shape": np.array(X.shape)}


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("compressed", [True, False])
def test_what_scipy_saved(tmp_path, X, kind, compressed):
    path = tmp_path / "counts.npz"
    sparse.save_npz(path, kind(X), compressed=compressed)
    read = open_vectors(path)
    assert isinstance(read, sparse.csr_array) and read.dtype == X.dtype
    np.testing.assert_array_equal(read.toarray(), X.toarray())


def test_plain_parts_with_further_arrays(tmp_path, X):
    path = tmp_path / "counts.npz"
    np.savez(path, **parts(X), labels=np.arange(6))
    np.testing.assert_array_equal(open_vectors(path).toarray(), X.toarray())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.full(3, 9)}, "not a sparse matrix"),
        ({"indptr": np.arange(3)}, "not a sparse matrix"),
        ({"shape": np.array([6, 1])}, r"not a sparse matrix of shape \[6, 1\]"),
        ({"shape": np.array([6.0, 5.0])}, "shape must be two integers"),
        ({"shape": np.array(6)}, "shape must be two integers"),
        ({"shape": np.array([2**63, 5], dtype="u8")}, "not a sparse matrix of shape"),
        ({"indices": np.full(3, 1.5)}, "indices must be integers, got float64"),
        ({"indptr": np.full(7, 1j)}, "indptr must be integers, got complex128"),
        ({"data": np.array(["a"])}, "data must be numbers"),
        ({"format": np.array(b"csc")}, "format 'csc'.*tocsr"),
        ({"format": np.array([b"csr", b"csr"])}, r"format \[b'csr', b'csr'\]"),
        ({"format": np.array(b"\xff")}, "format 'ÿ'"),
        ({"data": np.array([None])}, "data cannot be read"),
    ],
)
def test_parts_that_are_no_csr_matrix(tmp_path, X, change, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **(parts(X) | change))
    with pytest.raises(ValueError, match=f"bad.npz.*{message}"):
        open_vectors(path)


def test_a_pointer_outside_a_matrix_of_zeros(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **parts(sparse.csr_array((3, 5))) | {"indptr": [0, 0, 1000, 0]})
    with pytest.raises(ValueError, match="bad.npz.*indptr must be a non-decreasing"):
        open_vectors(path)


def test_half_floats_become_floats(tmp_path, X):
    path = tmp_path / "halves.npz"
    np.savez(path, **(parts(X) | {"data": X.data.astype(np.float16)}))
    read = open_vectors(path)
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read[[0, 2]].toarray(), X[[0, 2]].toarray())


@pytest.mark.parametrize("form", ["coo", "dia", "bsr"])
def test_other_sparse_formats_are_refused_with_the_remedy(tmp_path, X, form):
    path = tmp_path / "other.npz"
    sparse.save_npz(path, X.asformat(form))
    with pytest.raises(ValueError, match=f"other.npz.*format '{form}'.*tocsr"):
        open_vectors(path)


def test_missing_parts_are_named(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, format=np.array(b"csr"), indptr=np.zeros(1))
    message = "bad.npz has no array data, indices, shape; it holds format, indptr"
    with pytest.raises(ValueError, match=message):
        open_vectors(path)
