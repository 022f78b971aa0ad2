import numpy as np
import pytest

from skhash.datasets import open_vectors


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind, dtype", [("f", "f4"), ("i", "i4"), ("b", "u1")])
@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (4, 130)])
def test_round_trip(tmp_path, write_vecs, kind, dtype, shape, mmap):
    vectors = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    path = write_vecs(tmp_path / f"base.{kind}vecs", vectors)
    read = open_vectors(path, mmap=mmap)
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read, vectors)


def test_a_mapped_file_is_read_only_and_a_copy_is_not(tmp_path, write_vecs):
    path = write_vecs(tmp_path / "base.fvecs", np.ones((5, 4), dtype=np.float32))
    mapped, read = open_vectors(path), open_vectors(path, mmap=False)
    assert isinstance(mapped, np.memmap) and not mapped.flags.writeable
    assert type(read) is np.ndarray
    assert read.flags.c_contiguous and read.flags.writeable


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:-1], r"59 bytes, which is not a multiple of .* 20 bytes"),
        (lambda b: b[:3], r"3 bytes and starts with the dimension \[\]"),
        (lambda b: b"", r"0 bytes and starts with the dimension \[\]"),
        (lambda b: b"\0\0\0\0" + b[4:], r"starts with the dimension \[0\]"),
        (lambda b: b"\xff\xff\xff\xff" + b[4:], r"starts with the dimension \[-1\]"),
        (lambda b: b"\x1f\x8b\x08\x08" + b[4:], "Unpack a compressed file"),
        (lambda b: b[:40] + b"\x05" + b[41:], "dimension 5, but the first has 4"),
    ],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_damaged_file(tmp_path, write_vecs, damage, message, mmap):
    path = write_vecs(tmp_path / "bad.fvecs", np.zeros((3, 4), dtype=np.float32))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"bad.fvecs .*{message}"):
        open_vectors(path, mmap=mmap)
