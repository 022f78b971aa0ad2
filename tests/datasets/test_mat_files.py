import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from skhash.datasets import read_vdsh_mat

SIZES = {"train": 7, "test": 3, "cv": 2}
N_WORDS, N_LABELS = 6, 4


def content():
    rng = np.random.default_rng(0)
    values = {}
    for name, n in SIZES.items():
        values[name] = sparse.csc_matrix(rng.poisson(0.8, (n, N_WORDS)) * 0.5)
        values[f"gnd_{name}"] = rng.integers(0, 2, (n, N_LABELS)).astype(float)
    return values


def write(path, values):
    savemat(path, values, do_compression=True)
    return path


def test_round_trip(tmp_path):
    values = content()
    data = read_vdsh_mat(write(tmp_path / "ng20.tfidf.mat", values))
    assert data.name == "ng20.tfidf.mat" and data.metric == "cosine"
    assert data.train is data.database
    for part, name in (("train", "train"), ("query", "test"), ("validation", "cv")):
        rows, labels = getattr(data, part), getattr(data, f"{part}_labels")
        assert isinstance(rows, sparse.csr_array)
        np.testing.assert_array_equal(rows.toarray(), values[name].toarray())
        np.testing.assert_array_equal(labels, values[f"gnd_{name}"])
        assert labels.dtype == np.uint8


def test_the_oldest_format(tmp_path):
    values = content()
    savemat(tmp_path / "old.mat", values, format="4")
    data = read_vdsh_mat(tmp_path / "old.mat")
    np.testing.assert_array_equal(data.train.toarray(), values["train"].toarray())
    np.testing.assert_array_equal(data.query_labels, values["gnd_test"])


def test_the_validation_part_may_be_missing(tmp_path):
    values = {k: v for k, v in content().items() if not k.endswith("cv")}
    data = read_vdsh_mat(write(tmp_path / "reuters.mat", values))
    assert data.validation is None and data.validation_labels is None
    assert data.query.shape == (3, N_WORDS)


@pytest.mark.parametrize("turn", [lambda y: y.T, sparse.csc_matrix])
def test_labels_of_another_orientation_or_sparse(tmp_path, turn):
    values = content()
    turned = {k: turn(v) if k.startswith("gnd") else v for k, v in values.items()}
    data = read_vdsh_mat(write(tmp_path / "tmc.mat", turned))
    np.testing.assert_array_equal(data.train_labels, values["gnd_train"])
    np.testing.assert_array_equal(data.query_labels, values["gnd_test"])


@pytest.mark.parametrize("shape", [(1, -1), (-1, 1)])
def test_class_numbers_become_a_vector(tmp_path, shape):
    values = content()
    for name, n in SIZES.items():
        values[f"gnd_{name}"] = np.arange(1.0, n + 1).reshape(shape)
    data = read_vdsh_mat(write(tmp_path / "ng20.mat", values))
    assert data.train_labels.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert data.query_labels.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gnd_test", None, "no variable 'gnd_test'; it holds cv"),
        ("train", None, "no variable 'train'"),
        ("test", sparse.eye_array(3, 5).tocsc(), r"query has shape \(5,\)"),
        ("gnd_train", np.zeros((6, 4)), r"gnd_train has shape \(6, 4\).*7 documents"),
        ("gnd_train", np.full((7, 4), 2.0), "gnd_train of shape .* 0 and 1 only"),
        ("gnd_train", np.full((7, 1), np.nan), "0 and 1 only"),
        ("cv", "text", "cv must be a matrix of numbers"),
    ],
)
def test_other_layouts(tmp_path, name, value, message):
    values = content() | {name: value}
    values = {k: v for k, v in values.items() if v is not None}
    path = write(tmp_path / "bad.mat", values)
    with pytest.raises(ValueError, match=f"bad.mat.*{message}"):
        read_vdsh_mat(path)


@pytest.mark.parametrize("name", ["train", "gnd_train"])
def test_a_shape_that_no_memory_holds(tmp_path, name):
    values = content() | {name: sparse.csc_matrix((2**31 - 1, 2**20))}
    path = write(tmp_path / "bad.mat", values)
    with pytest.raises(ValueError, match=f"bad.mat.*{name}"):
        read_vdsh_mat(path)


def test_an_index_outside_the_matrix_is_noticed_before_it_is_used(tmp_path):
    values = content()
    path = tmp_path / "bad.mat"
    savemat(path, values)
    whole, indices = path.read_bytes(), values["train"].indices.astype("<i4").tobytes()
    assert whole.count(indices) == 1
    path.write_bytes(whole.replace(indices, b"\xff\xff\xff\x7f" + indices[4:]))
    with pytest.raises(ValueError, match="bad.mat is not a MATLAB file or is damaged"):
        read_vdsh_mat(path)


def test_damaged_other_and_missing_files(tmp_path):
    path = write(tmp_path / "bad.mat", content())
    whole = path.read_bytes()
    for damaged in (whole[:-40], whole[:200], b"", b"not MATLAB at all" * 20):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="bad.mat"):
            read_vdsh_mat(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\0" * 400)
    with pytest.raises(ValueError, match=r"version 7.3.*-v7"):
        read_vdsh_mat(path)
    with pytest.raises(FileNotFoundError):
        read_vdsh_mat(tmp_path / "absent.mat")
