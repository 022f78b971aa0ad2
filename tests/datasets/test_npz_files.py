import numpy as np
import pytest
from scipy import sparse

from skhash.datasets import open_vectors


@pytest.fixture
def X():
    dense = np.random.default_rng(0).poisson(0.4, (6, 5)).astype(np.float32)
    return sparse.csr_array(dense)


def parts(X):
    return {
        "format": np.array(b"csr"),
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "shape": np.array(X.shape),
    }


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("compressed", [True, False])
def test_what_scipy_saved(tmp_path, X, kind, compressed):
    path = tmp_path / "counts.npz"
    sparse.save_npz(path, kind(X), compressed=compressed)
    read = open_vectors(path)
    assert isinstance(read, sparse.csr_array) and read.dtype == X.dtype
    np.testing.assert_array_equal(read.toarray(), X.toarray())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.full(3, 9)}, "same size"),
        ({"indptr": np.arange(3)}, "index pointer size"),
        ({"shape": np.array([6, 1])}, "indices must be < 1"),
        ({"shape": np.array([6.0, 5.0])}, "integer"),
        ({"shape": np.array(6)}, "0-d"),
        ({"shape": np.array([2**63, 5], dtype="u8")}, "index pointer size"),
        ({"data": np.array(["a"])}, "same size"),
        ({"format": np.array([b"csr", b"csr"])}, "size 1"),
        ({"format": np.array(b"\xff")}, "decode"),
        ({"data": np.array([None])}, "Object arrays"),
    ],
)
def test_parts_that_are_no_csr_matrix(tmp_path, X, change, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **(parts(X) | change))
    with pytest.raises(ValueError, match=f"bad.npz is not a sparse.*{message}"):
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


def test_another_format_and_missing_parts_are_named(tmp_path, X):
    path = tmp_path / "bad.npz"
    sparse.save_npz(path, X.tocsc())
    with pytest.raises(ValueError, match="format is 'csc'; save X.tocsr()"):
        open_vectors(path)
    np.savez(path, format=np.array(b"csr"), indptr=np.zeros(1))
    with pytest.raises(ValueError, match="bad.npz is not a sparse matrix.*data"):
        open_vectors(path)
