"""Sums of looked-up bytes, their tables and products, against NumPy."""

import numpy as np
import pytest
from compiled import call

from skhash.neighbors.kernels import byte_tables
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
