"""Sums of looked-up bytes, their tables and products, against NumPy."""

import numpy as np
import pytest
from cases import each
from compiled import call

from skhash.neighbors.kernels import byte_tables
from skhash.neighbors.kernels.products import Source, write_tables
from skhash.utils.llvm import has_features

WAYS = [
    way
    for way, features in (
        (byte_tables._Bytes(), ("avx512f", "avx512bw", "avx512vbmi")),
        (byte_tables._Nibbles(), ("avx2",)),
        (byte_tables._Pairs(), ("avx2",)),
        (byte_tables._Quarters(), ("neon",)),
    )
    if has_features(*features)
]
BLOCK = byte_tables.BLOCK


def sums(way, blocks, tables):
    """Return sums up to 255, of shape (queries, blocks, 512)."""
    if way.entries == 32:
        tables = tables.astype(int)
        high, low = tables[..., :16, None], tables[..., None, 16:]
        tables = (high + low).reshape(*tables.shape[:-1], 256)
    tables = np.repeat(tables, 256 // tables.shape[-1], axis=-1)
    rows = np.arange(blocks.shape[1])[:, None]
    return np.array(
        [
            [np.minimum(own[rows, block].sum(axis=0), 255) for block in blocks]
            for own in tables.astype(int)
        ]
    )


@pytest.mark.parametrize("way", WAYS, ids=lambda way: type(way).__name__)
@pytest.mark.parametrize("n_rows", [1, 2, 9, 40])
@pytest.mark.parametrize("largest", [1, 20, 255])
def test_low_sums(way, n_rows, largest):
    rng = np.random.default_rng(n_rows)
    blocks = rng.integers(0, 256, (3, n_rows, BLOCK), dtype=np.uint8)
    shape = 2, n_rows, way.entries
    tables = rng.integers(0, largest + 1, shape, dtype=np.uint8)
    find_low = byte_tables.make_find_low(way)
    for q, of_query in enumerate(sums(way, blocks, tables)):
        for block, expected in enumerate(of_query):
            for limit in {0, expected.min(), int(np.median(expected)), 254}:
                found = np.zeros(BLOCK // 64, dtype=np.uint64)
                limit = np.uint8(min(limit, 254))
                is_any = call(find_low, blocks, block, tables, q, limit, found)
                bits = np.unpackbits(found.view(np.uint8), bitorder="little")
                np.testing.assert_array_equal(bits, expected <= limit)
                assert is_any == bits.any()


def test_extremes_and_steps():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 64)).astype(np.float32)
    for first, count in ((0, 64), (144, 16), (224, 32)):
        own = values.ravel()[first : first + count]
        found = call(byte_tables.extremes, values, first, count)
        assert found == (own.min(), own.max())
        tables = np.full((3, 4, 64), 7, dtype=np.uint8)
        scale = own.min(), np.float32(100)
        call(byte_tables.write_steps, values, first, count, *scale, tables, 1)
        expected = np.minimum((own - scale[0]) * scale[1], 255).astype(np.uint8)
        written = tables[1].ravel()[first : first + count]
        np.testing.assert_array_equal(written, expected)
        written[:] = 7
        assert (tables == 7).all()


@each("n_features", [1, 5, 384])
def test_products(n_features):
    rng = np.random.default_rng(n_features)
    queries = rng.normal(size=(11, n_features)).astype(np.float32).astype(float)
    features = rng.normal(size=(3, n_features, 256)).astype(np.float32)
    offset, scales = rng.normal(size=n_features), np.float32([1, 0.5, 4])
    source = Source(offset, False, False, features, scales, np.float32(-2))

    def written(queries):
        tables = np.full((len(queries), 3, 256), np.nan, dtype=np.float32)
        assert write_tables(queries.copy(), source, tables)
        return tables

    tables = written(queries)
    exact = np.einsum("qf,bfe->qbe", queries, features.astype(float))
    exact *= -2 * scales[:, None].astype(float)
    exact[:, 0] -= (queries @ offset)[:, None]
    room = 2.0**-22 * n_features * np.abs(queries).max() * 4 * np.abs(features).max()
    np.testing.assert_allclose(tables, exact, rtol=0, atol=room)
    # A query has the same products in another place, beside others.
    for places in ([5, 1, 1, 10], [10], [3, 9, 0]):
        np.testing.assert_array_equal(written(queries[places]), tables[places])
