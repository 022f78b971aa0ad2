"""The one layout of codes that are decoded: grown, removed and copied, as if fresh."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import skhash
from skhash.neighbors import AsymmetricNeighbors
from skhash.neighbors.search import table_scan
from skhash.neighbors.search.chunks import LINE

N, N_BYTES, N_FEATURES = 1700, 3, 5
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 256, (N, N_BYTES), dtype=np.uint8)
QUERIES = RNG.normal(size=(9, N_FEATURES))
DECODER = RNG.normal(size=(N_BYTES, 256, N_FEATURES)), np.ones(N_FEATURES)
# Their numbers need more bytes than those of the others.
ERRORS = np.where(np.arange(N) % 700 == 650, 1e20, RNG.random(N))
KINDS = pytest.mark.parametrize("kind", ["errors", "inner_product", "cosine"])


def fitted(kind, rows, index=None):
    """Fit the codes of some rows, or add them to an index."""
    errors = {"errors": ERRORS[rows]} if kind == "errors" else {}
    if index is not None:
        return index.partial_fit(CODES[rows], **errors)
    metric = "euclidean" if kind == "errors" else kind
    index = AsymmetricNeighbors(20, metric=metric, packed=True)
    return index.fit(CODES[rows], decoder=DECODER, **errors)


def assert_holds(index, kind, rows):
    """Look whether an index is, and answers, as one that was fitted to some rows."""
    fresh = fitted(kind, rows)
    assert_array_equal(index.packed_codes_, CODES[rows])
    k = min(len(rows), 20)
    found, expected = (one.kneighbors(QUERIES, k) for one in (index, fresh))
    assert_array_equal(found, expected)
    mask = np.arange(len(rows)) % 3 == 1
    found, expected = (
        one.kneighbors(QUERIES, mask.sum() // 2, mask=mask) for one in (index, fresh)
    )
    assert_array_equal(found, expected)
    radius = float(np.median(expected[0]))
    found, expected = (one.radius_neighbors(QUERIES, radius) for one in (index, fresh))
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(np.concatenate(one), np.concatenate(other))
    keys, others = (
        store.decoder.keys_of_levels(store.levels)
        for store in (index._store, fresh._store)
    )
    assert_array_equal(keys, others)
    blocks = index._store["blocks"]
    assert blocks.whole.ctypes.data % LINE == 0


@KINDS
@pytest.mark.parametrize("mapped", [False, True])
def test_many_small_additions(kind, mapped, tmp_path):
    steps = np.cumsum([5, 1, 500, 5, 1, 1, 600, 99, 1, 1, 300, 3])
    index, every = fitted(kind, np.arange(steps[0])), np.arange(N)
    for first, last in zip(steps, steps[1:], strict=False):
        if mapped:
            index.save(tmp_path / f"{last}")
            index = skhash.load(tmp_path / f"{last}", mmap=True)
        fitted(kind, slice(first, last), index)
        assert_holds(index, kind, every[:last])
    arrays = []
    for i in range(steps[-1], N):
        fitted(kind, slice(i, i + 1), index)
        arrays.append(index._store["blocks"].array)
    assert len({*map(id, arrays)}) <= 2  # nearly all find room
    assert_holds(index, kind, every)


@KINDS
def test_two_that_grew_from_one(kind):
    """None sees what another one adds, and the first is as it was."""
    some = np.arange(600)
    first = fitted(kind, slice(600, 610), fitted(kind, some))
    held = first._store
    indexes = [copy.copy(first) for _ in range(3)]
    parts = [np.arange(700, 720), np.arange(800, 1600), np.arange(900, 901)]
    for index, rows in zip(indexes, parts, strict=True):
        fitted(kind, rows, index)
    for index, rows in zip(indexes, parts, strict=True):
        assert_holds(index, kind, np.concatenate([np.arange(610), rows]))
    assert_holds(first, kind, np.arange(610))
    assert first._store is held
    fitted(kind, slice(610, 640), first)
    assert_holds(first, kind, np.arange(640))
    assert_holds(indexes[0], kind, np.concatenate([np.arange(610), parts[0]]))


@KINDS
@pytest.mark.parametrize("change", ["add", "remove", "copy", "map"])
def test_codes_in_the_order_of_lists_are_those_of_their_positions(
    kind, change, monkeypatch, tmp_path
):
    monkeypatch.setattr(table_scan, "MIN_BLOCKS", 1)
    rows = np.arange(N)
    index = fitted(kind, rows).set_params(search_fraction=0.3)
    index.kneighbors(QUERIES)
    assert (index._store["blocks"].order is not None) == table_scan.is_fast()
    if change == "add":
        fitted(kind, rows := np.arange(40), index)
        rows = np.concatenate([np.arange(N), rows])
        index.kneighbors(QUERIES)
    elif change == "remove":
        index.remove(rows[::3])
        mask = index.live_ & (np.arange(N) % 2 == 1)
        whole = fitted(kind, rows).kneighbors(QUERIES, mask=mask)
        assert_array_equal(index.kneighbors(QUERIES, mask=mask), whole)
        assert_array_equal(index.packed_codes_, CODES)
        index.compact()
        rows = rows[rows % 3 > 0]
    elif change == "copy":
        index = copy.deepcopy(index)
    else:
        index.save(tmp_path)
        index = skhash.load(tmp_path, mmap=True)
        order = index._store["blocks"].order
        assert (order is not None) == table_scan.is_fast()
    assert_holds(index.set_params(search_fraction=1.0), kind, rows)
