import numpy as np
import pytest

from skhash.datasets import read_ann_hdf5

RNG = np.random.default_rng(0)
PARTS = {
    "train": RNG.normal(size=(9, 4)).astype(np.float32),
    "test": RNG.normal(size=(3, 4)).astype(np.float32),
    "neighbors": RNG.integers(0, 9, (3, 5)).astype(np.int32),
    "distances": RNG.random((3, 5)).astype(np.float32),
}


def write(path, distance="angular", **parts):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        if distance is not None:
            file.attrs["distance"] = distance
        for name, value in (PARTS | parts).items():
            if value is not None:
                file[name] = value
    return path


@pytest.mark.parametrize(
    ("distance", "metric"),
    [
        ("euclidean", "euclidean"),
        ("angular", "cosine"),
        (b"angular", "cosine"),
        ("hamming", "hamming"),
        ("dot", "inner_product"),
    ],
)
def test_round_trip(tmp_path, distance, metric):
    data = read_ann_hdf5(write(tmp_path / "toy-4.hdf5", distance))
    assert data.name == "toy-4.hdf5" and data.metric == metric
    assert data.train is data.database
    np.testing.assert_array_equal(data.database, PARTS["train"])
    np.testing.assert_array_equal(data.query, PARTS["test"])
    np.testing.assert_array_equal(data.true_neighbors, PARTS["neighbors"])
    np.testing.assert_array_equal(data.true_distances, PARTS["distances"])


def test_the_truth_may_be_missing(tmp_path):
    path = write(tmp_path / "toy.hdf5", neighbors=None, distances=None)
    data = read_ann_hdf5(path)
    assert data.true_neighbors is None and data.true_distances is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": "jaccard"}, "'distance' is 'jaccard'"),
        ({"distance": None}, "'distance' is None"),
        ({"test": None}, "no data set test, but distances, neighbors, train"),
        ({"train": np.zeros(9)}, r"query.*database.*\(9,\)"),
        ({"test": np.zeros((3, 5))}, r"query.*\(3, 5\)"),
        ({"neighbors": np.full((3, 5), 9)}, "true_neighbors"),
        ({"distances": np.zeros((3, 4))}, r"true_distances has shape \(3, 4\)"),
    ],
)
def test_other_layouts(tmp_path, change, message):
    path = write(tmp_path / "bad.hdf5", **change)
    with pytest.raises(ValueError, match=f"bad.hdf5.*{message}"):
        read_ann_hdf5(path)
