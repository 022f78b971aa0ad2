import numpy as np
import pytest

from skhash.datasets import read_bvecs, read_fvecs, read_ivecs

READERS = [(read_fvecs, "f4"), (read_ivecs, "i4"), (read_bvecs, "u1")]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(("reader", "dtype"), READERS)
@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (4, 130)])
def test_round_trip(tmp_path, write_vecs, reader, dtype, shape, mmap):
    vectors = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    path = write_vecs(tmp_path / "base.vecs", vectors)
    read = reader(path, mmap=mmap)
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read, vectors)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(0, 2), (3, None), (2, 3), (5, 5), (0, 0)])
def test_slice(tmp_path, write_vecs, start, stop, mmap):
    vectors = np.arange(20, dtype=np.float32).reshape(5, 4)
    path = write_vecs(tmp_path / "base.fvecs", vectors)
    read = read_fvecs(path, start=start, stop=stop, mmap=mmap)
    np.testing.assert_array_equal(read, vectors[start:stop])
    assert read.shape[1] == 4


@pytest.mark.parametrize(("start", "stop"), [(0, 6), (-1, 2), (3, 2), (6, None)])
def test_bad_slice(tmp_path, write_vecs, start, stop):
    path = write_vecs(tmp_path / "base.fvecs", np.zeros((5, 4), dtype=np.float32))
    with pytest.raises(ValueError, match=rf"base.fvecs has 5 vectors; start={start}"):
        read_fvecs(path, start=start, stop=stop)


def test_a_slice_of_a_sparse_giant_reads_nothing_else(tmp_path, write_vecs):
    # 16 GiB that take no disk; reading them, or checking them all, would be noticed.
    path = write_vecs(tmp_path / "giant.bvecs", np.full((3, 124), 7, dtype=np.uint8))
    try:
        with open(path, "r+b") as file:
            file.truncate(2**34)
    except OSError as error:
        pytest.skip(f"the file system has no sparse files of this size: {error}")
    np.testing.assert_array_equal(read_bvecs(path, start=1, stop=3), 7)
    mapped = read_bvecs(path, stop=3, mmap=True)
    assert isinstance(mapped, np.memmap) and not mapped.flags.writeable
    np.testing.assert_array_equal(mapped[1], 7)
    with pytest.raises(ValueError, match="dimension 0 where the first has 124"):
        read_bvecs(path, mmap=True)


def test_what_was_read_is_compact_and_writable(tmp_path, write_vecs):
    path = write_vecs(tmp_path / "base.fvecs", np.ones((5, 4), dtype=np.float32))
    read = read_fvecs(path, start=1)
    assert read.flags.c_contiguous and read.flags.writeable
    assert type(read) is np.ndarray


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:-1], r"59 bytes, which are not whole records of 20 bytes"),
        (lambda b: b[:3], "3 bytes, which are no vector"),
        (lambda b: b"", "0 bytes, which are no vector"),
        (lambda b: b"\0\0\0\0" + b[4:], "starts with the dimension 0"),
        (lambda b: b"\xff\xff\xff\xff" + b[4:], "starts with the dimension -1"),
        (lambda b: b"\x1f\x8b\x08\x08" + b[4:], "must be unpacked first"),
        (lambda b: b[:40] + b"\x05" + b[41:], "dimension 5 where the first has 4"),
    ],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_damaged_file(tmp_path, write_vecs, damage, message, mmap):
    path = write_vecs(tmp_path / "bad.fvecs", np.zeros((3, 4), dtype=np.float32))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"bad.fvecs .*{message}"):
        read_fvecs(path, mmap=mmap)
