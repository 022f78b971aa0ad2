"""The loaders on the real data, skipped with the install line where it is absent."""

import hashlib

import numpy as np
import pytest

from skhash.datasets import (
    load_20newsgroups,
    load_fashion_mnist,
    load_glove,
    open_vectors,
)
from skhash.datasets._glove import find_glove
from skhash.datasets._newsgroups import find_texts
from skhash.datasets._paths import resolve_data_home


def digest(array: np.ndarray) -> str:
    content = np.ascontiguousarray(array)
    return hashlib.sha256(content).hexdigest()[:16]


def test_fashion_mnist(load_or_skip):
    data = load_or_skip(load_fashion_mnist, n_queries=None)
    pixels = [np.rint(X * 255).astype(np.uint8) for X in (data.database, data.query)]
    assert [X.shape for X in pixels] == [(60000, 784), (10000, 784)]
    assert [digest(X) for X in pixels] == ["2e487a6c89124f78", "c867c93ff9536059"]
    labels = [data.database_labels, data.query_labels]
    assert [digest(y.astype(np.uint8)) for y in labels] == [
        "657fbd221bfc9f41",
        "3d0e6c6ea990b53b",
    ]


def test_fashion_mnist_queries_are_the_first_of_each_class(load_or_skip):
    data = load_or_skip(load_fashion_mnist, n_train=5000)
    assert np.bincount(data.query_labels).tolist() == [100] * 10
    assert np.bincount(data.train_labels).tolist() == [500] * 10
    assert len(data.database) == 60000


def test_glove(load_or_skip):
    path = load_or_skip(find_glove, None)
    assert digest(open_vectors(path)) == "2d8f854bb078949c"
    data = load_glove()
    assert data.query.shape == (1000, 50) and data.train.shape == (50000, 50)
    assert data.database.shape == (399000, 50)
    np.testing.assert_allclose(np.linalg.norm(data.query, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("part", "expected"), [("train", "3287f997870c109a"), ("test", "34a4c6261eda98d8")]
)
def test_newsgroup_files(load_or_skip, part, expected):
    path = load_or_skip(find_texts, resolve_data_home(None), part)
    assert hashlib.sha256(path.read_bytes()).hexdigest()[:16] == expected


def test_newsgroup_texts(load_or_skip):
    data = load_or_skip(load_20newsgroups)
    assert (len(data.database), len(data.query)) == (11293, 7528)
    assert len(data.label_names) == 20
    counts = np.bincount(data.database_labels), np.bincount(data.query_labels)
    assert [(c.min(), c.max()) for c in counts] == [(377, 600), (251, 399)]


def test_newsgroup_counts(load_or_skip):
    data = load_or_skip(load_20newsgroups, "counts")
    assert data.database.shape == (11293, 10000) and data.query.shape == (7527, 10000)
    assert data.database.nnz + data.query.nnz == 2193675


def test_newsgroup_embeddings(load_or_skip):
    data = load_or_skip(load_20newsgroups, "minilm")
    assert data.database.shape == (11293, 384) and data.query.shape == (7528, 384)
    np.testing.assert_allclose(np.linalg.norm(data.query, axis=1), 1, rtol=1e-6)
