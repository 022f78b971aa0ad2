"""The graph of near neighbours against plain searches in float64, chunk by chunk."""

import numpy as np
import pytest
import torch
from cases import each, memory_below
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from skhash import ITQHash, NeighborHash
from skhash.neural.neighbor import _rows
from skhash.neural.neighbor._module import _known
from skhash.numerics import _graph, _nearest, _projection
from skhash.numerics._graph import neighbor_table
from skhash.training import _module
from skhash.training._module import Batch
from skhash.utils import chunks
from skhash.utils.chunks import RowView

CPU = torch.device("cpu")
METRICS = ["euclidean", "cosine", "inner_product"]


def rows_of(n=500, d=6, seed=0):
    X = np.random.RandomState(seed).randn(n, d) + 0.5
    return X.astype(np.float16).astype(np.float64)  # which every dtype holds


def in_kind(X, kind):
    if kind == "sparse":
        return sparse.csr_array(X.astype(np.float32))
    if kind == "half":
        return RowView(X.astype(np.float16), prepare=np.float32)
    return X.astype(kind)


def table_of(X, k=4, metric="euclidean", n_axes=None, rows=None):
    rows = np.arange(X.shape[0]) if rows is None else rows
    return neighbor_table(X, rows, k, metric, n_axes, CPU, torch.Generator())


def keys_of(X, metric):
    """All keys, in float64, from what scikit-learn says."""
    if metric == "inner_product":
        keys = -X @ X.T
    else:
        search = NearestNeighbors(n_neighbors=len(X), metric=metric, algorithm="brute")
        distances, order = search.fit(X).kneighbors(X)
        keys = np.empty_like(distances)
        np.put_along_axis(keys, order, distances, axis=1)
    np.fill_diagonal(keys, np.inf)
    return keys


@pytest.fixture(params=[(70, 2000), (128, 1), (499, 10**5)], ids=str)
def chunked(request, monkeypatch):
    monkeypatch.setattr(_nearest, "CHUNK_ROWS", request.param[0])
    monkeypatch.setattr(_nearest, "TABLE_BYTES", request.param[1])


@each("metric", METRICS)
@each("kind", [np.float64, np.float32, "half", "sparse"])
def test_chunks_of_rows_find_what_a_plain_search_finds(metric, kind, chunked):
    X = rows_of()
    anchors = np.array([499, 3, 64, 63, 250, 70])
    keys = keys_of(X, metric)[anchors]
    if metric == "cosine" and kind != "half":
        X = np.ldexp(X, np.linspace(-70, 70, len(X)).astype(int)[:, None])
    for k in (1, 20, 499):
        table = table_of(in_kind(X, kind), k, metric, rows=anchors)
        assert [len(set(row)) for row in table] == [k] * len(anchors)
        found = np.take_along_axis(keys, table, axis=1)
        np.testing.assert_allclose(found, np.sort(keys)[:, :k], rtol=1e-4, atol=2e-3)
    np.testing.assert_array_equal(table[:, :50], np.argsort(keys)[:, :50])


@each("kind", [np.float32, "sparse"])
def test_equal_rows_are_nearest(kind, chunked):
    X = np.tile(np.round(rows_of(40)), (5, 1))
    table = table_of(in_kind(X, kind), 6)
    found = np.take_along_axis(keys_of(X, "euclidean"), table, axis=1)
    np.testing.assert_array_equal(found, np.sort(keys_of(X, "euclidean"))[:, :6])
    assert all(len(set(row) - {i}) == 6 for i, row in enumerate(table))


@each("metric", METRICS)
@each("kind", ["half", "sparse"])
def test_axes_of_a_sample_that_hold_everything_lose_nothing(
    metric, kind, chunked, monkeypatch
):
    monkeypatch.setattr(_graph, "AXES_ROWS", 20)
    X = np.round(rows_of(200, 3) * 8) @ np.round(rows_of(3, 40, seed=1) * 4)
    table = table_of(in_kind(X, kind), 10, metric, n_axes=4)
    keys = keys_of(X, metric)
    found = np.take_along_axis(keys, table, axis=1)
    scale = np.abs(keys[np.isfinite(keys)]).max()
    np.testing.assert_allclose(found / scale, np.sort(keys)[:, :10] / scale, atol=2e-4)
    if metric == "euclidean":
        off = table_of(in_kind(X, kind), 10, metric, n_axes=1)
        assert (off == table).mean() < 0.9


# Partners that are known to be near


def known_by_loops(rows, partners, labels, others, other_labels):
    n = len(rows)
    known = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(n):
            known[i, j] = others[j] in {rows[i], *partners[i]}
            if labels is not None and labels.shape[1] == 1:
                known[i, j] |= labels[i] == other_labels[j] and labels[i] >= 0
            elif labels is not None:
                known[i, j] |= (labels[i] & other_labels[j]).any()
            known[i, j] |= i == j
    return known


@each("kind", [None, "classes", "several"])
@each("n_rows", [5, 40, 1000])
def test_known_partners_are_those_of_a_plain_loop(kind, n_rows):
    rng = np.random.RandomState(n_rows)
    rows, others = rng.randint(n_rows, size=(2, 30))
    partners = rng.randint(n_rows, size=(60, 7))
    labels = {
        None: None,
        "classes": rng.randint(-1, 9, size=(60, 1)),
        "several": (rng.rand(60, 5) < 0.2).astype(np.int64),
    }[kind]
    batch = Batch(
        torch.zeros(60, 2),
        torch.from_numpy(np.r_[rows, others]),
        labels=None if labels is None else torch.from_numpy(labels),
        partners=torch.from_numpy(partners)[:, :, None],
    )
    halves = (None, None) if labels is None else (labels[:30], labels[30:])
    expected = known_by_loops(rows, partners[:30], halves[0], others, halves[1])
    assert expected.any() and not expected.all()
    np.testing.assert_array_equal(_known(*batch.parts()).numpy(), expected)


def test_torch_finds_the_nearest_as_the_kernel_does(monkeypatch, chunked):
    """Covers devices other than the CPU."""
    X = rows_of()
    table = table_of(X, 20)

    class Elsewhere(_nearest._Search):
        add = _nearest._Search._add_by_torch

    monkeypatch.setattr(_nearest, "_Search", Elsewhere)
    np.testing.assert_array_equal(table_of(X, 20), table)


# Rows on disk


def fitted(X, **params):
    few = {"max_epochs": 2, "max_train_samples": 200, "hidden_layer_sizes": (16,)}
    return NeighborHash(16, random_state=0, **few | params).fit(X)


@pytest.fixture
def on_disk(tmp_path):
    def write(X):
        np.save(tmp_path / "rows.npy", X)
        return np.load(tmp_path / "rows.npy", mmap_mode="r")

    return write


@pytest.fixture
def small_chunks(monkeypatch):
    for function in (chunks.row_chunks, chunks.dense_chunks):
        monkeypatch.setattr(function, "__defaults__", (2**14,))


@pytest.mark.parametrize("held", [True, False])
@each(
    "params",
    [
        {"normalize": True},
        {"metric": "cosine", "hidden_layer_sizes": (5,)},
        {"graph": "exact", "validation_fraction": 0.2},
    ],
)
def test_half_rows_on_disk_are_the_same_rows_in_memory(
    params, held, on_disk, monkeypatch
):
    X = rows_of(600, 40).astype(np.float16)
    bits = fitted(X.astype(np.float32), **params).transform(X)
    if not held:
        monkeypatch.setattr(_module, "HELD_BYTES", 0)
    encoder = fitted(on_disk(X), **params)
    changed = encoder.transform(X.astype(np.float32)) != bits
    # Products of a batch and those of all rows at once are rounded in other ways.
    assert changed.mean() <= (0 if held else 1e-3)
    np.testing.assert_array_equal(encoder.transform(on_disk(X)) != bits, changed)
    encoder.partial_fit(on_disk(X)).partial_fit(X.astype(np.float32))
    assert encoder.n_iter_ == 4


@each(
    "dtype, params",
    [
        (np.float32, {}),
        (np.float16, {"normalize": True}),
        (np.float16, {"metric": "cosine"}),
    ],
)
def test_a_file_is_fitted_without_a_copy_of_it(dtype, params, on_disk, monkeypatch):
    """As far as NumPy says how much is allocated."""
    X = np.random.RandomState(0).randn(70_000, 48).astype(dtype)
    X += 1  # a sum that float16 does not hold
    for module, name in (
        (_nearest, "CHUNK_ROWS"),
        (_graph, "AXES_ROWS"),
        (_projection, "START_ROWS"),
        (_rows, "BANK_ROWS"),
    ):
        monkeypatch.setattr(module, name, 1000)
    for function in (chunks.row_chunks, chunks.dense_chunks):
        monkeypatch.setattr(function, "__defaults__", (2**18,))
    fitted(X[:500], **params)  # imports
    file = on_disk(X)
    with memory_below(X.nbytes / 2):
        fitted(file, **params)


@each("value", [np.nan, -np.inf])
@each("dtype", [np.float16, np.float32])
def test_the_last_value_of_a_file_is_checked(value, dtype, on_disk, monkeypatch):
    monkeypatch.setattr(chunks.dense_chunks, "__defaults__", (2**10,))
    X = rows_of().astype(dtype)
    encoder = fitted(on_disk(X))
    X[-1, -1] = value
    name = "NaN" if np.isnan(value) else "infinity"
    for use in (fitted, encoder.transform, encoder.partial_fit):
        with pytest.raises(ValueError, match=f"X.*{name}"):
            use(on_disk(X))
    X[-1, -1] = np.finfo(dtype).max  # whose sum is infinite, and is no error by itself
    if dtype == np.float16:
        assert np.isfinite(fitted(np.repeat(X[-2:], 300, axis=0)).coefs_[0]).all()


def test_all_rows_of_a_file_are_compared_before_it_is_refused(on_disk, small_chunks):
    X = np.ones((3000, 20), dtype=np.float16)
    with pytest.raises(ValueError, match="3000"):
        fitted(on_disk(X))
    for row, column in ((0, 0), (1500, 7), (2999, 19)):
        for value in (0, 2):
            changed = X.copy()
            changed[row, column] = value
            low, high = chunks.column_range(on_disk(changed))
            np.testing.assert_array_equal(low, changed.min(axis=0))
            np.testing.assert_array_equal(high, changed.max(axis=0))


def test_any_encoder_reads_half_rows_in_chunks(on_disk, small_chunks):
    X = rows_of(600, 40).astype(np.float16)
    encoder = ITQHash(16, random_state=0).fit(X.astype(np.float32))
    bits = encoder.transform(X.astype(np.float32))
    np.testing.assert_array_equal(
        ITQHash(16, random_state=0).fit(on_disk(X)).transform(X), bits
    )
    np.testing.assert_array_equal(encoder.transform(on_disk(X)), bits)
    X = on_disk(np.zeros((60_000, 40), dtype=np.float16))
    encoder.transform_packed(X[:10])
    with memory_below(X.nbytes / 2):
        encoder.transform_packed(X)
