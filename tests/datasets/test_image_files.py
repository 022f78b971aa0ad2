import numpy as np
import pytest

from skhash.datasets import read_cifar_binary, read_idx


@pytest.mark.parametrize("name", ["a-idx", "a-idx.gz"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_idx_round_trip(tmp_path, write_idx, name, dtype):
    array = (np.arange(24).reshape(2, 3, 4) - 5).astype(dtype)
    read = read_idx(write_idx(tmp_path / name, array))
    assert read.dtype == np.dtype(dtype) and read.dtype.isnative
    np.testing.assert_array_equal(read, array)
    read[0] = 0  # an array of one's own, not a view of the file's bytes


def test_idx_of_no_items(tmp_path, write_idx):
    array = np.zeros((0, 28, 28), dtype=np.uint8)
    assert read_idx(write_idx(tmp_path / "empty", array)).shape == (0, 28, 28)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:-1], r"shape \(3, 2\), which takes 18 bytes.*has 17"),
        (lambda b: b + b"\0", "takes 18 bytes.*has more"),
        (lambda b: b[:7], "declares 2 dimensions and has 7 bytes"),
        (lambda b: b[:3] + b"\0", "declares 0 dimensions"),
        (lambda b: b"\x01" + b[1:], "starts with the bytes 01 00 08 02"),
        (lambda b: b[:2] + b"\x0a" + b[3:], "starts with the bytes 00 00 0a 02"),
        (lambda b: b"", r"starts with the bytes \(none\)"),
        (lambda b: b[:4] + b"\xff" * 4 + b[8:], r"\(4294967295, 2\)"),
    ],
)
def test_damaged_idx(tmp_path, write_idx, damage, message):
    path = write_idx(tmp_path / "bad-idx", np.arange(6, dtype="u1").reshape(3, 2))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"bad-idx.*{message}"):
        read_idx(path)


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:12] + b"!" * 30])
def test_damaged_gzip(tmp_path, write_idx, damage):
    path = write_idx(tmp_path / "bad-idx.gz", np.arange(60, dtype="u1"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="bad-idx.gz is a damaged gzip file"):
        read_idx(path)


def test_missing_idx_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "absent")


def cifar_file(path, n, labels):
    pixels = np.random.default_rng(n).integers(0, 256, (n, 3072), dtype=np.uint8)
    np.column_stack([np.asarray(labels, dtype=np.uint8), pixels]).tofile(path)
    return path, pixels


def test_cifar10_round_trip_over_several_files(tmp_path):
    first, pixels_1 = cifar_file(tmp_path / "1.bin", 2, [3, 9])
    second, pixels_2 = cifar_file(tmp_path / "2.bin", 1, [0])
    X, y = read_cifar_binary([first, second])
    np.testing.assert_array_equal(X, np.vstack([pixels_1, pixels_2]))
    assert X.dtype == y.dtype == np.uint8 and X.flags.c_contiguous
    assert y.tolist() == [3, 9, 0]


@pytest.mark.parametrize(("n_classes", "expected"), [(20, [4, 19]), (100, [7, 99])])
def test_cifar100_gives_classes_or_superclasses(tmp_path, n_classes, expected):
    path, pixels = cifar_file(tmp_path / "train.bin", 2, [[4, 7], [19, 99]])
    X, y = read_cifar_binary(path, n_classes=n_classes)
    np.testing.assert_array_equal(X, pixels)
    assert y.tolist() == expected


def test_cifar_errors(tmp_path):
    path, _ = cifar_file(tmp_path / "bad.bin", 2, [1, 10])
    with pytest.raises(ValueError, match="bad.bin holds the label 10.*n_classes=10"):
        read_cifar_binary(path)
    with pytest.raises(ValueError, match="6146 bytes.*records of 3074"):
        read_cifar_binary(path, n_classes=100)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="bad.bin has 6145 bytes.*records of 3073"):
        read_cifar_binary(str(path))
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="has 0 bytes"):
        read_cifar_binary(path)
    with pytest.raises(ValueError, match="n_classes must be 10.*got 11"):
        read_cifar_binary(path, n_classes=11)
    with pytest.raises(ValueError, match="at least one file"):
        read_cifar_binary([])
