"""Codes as Arrow tables, and so as Parquet, Feather and data frames."""

from typing import Any

import numpy as np

from skhash.export._source import read_items, read_scoring, read_source
from skhash.utils.lazy import import_extra

# Bytes that a chunk of a column may have: the offsets of Arrow are 32 bits wide.
_CHUNK_BYTES = 2**30


def to_arrow(codes, *, ids=None, n_bits=None) -> Any:
    """Export codes to an Arrow table.

    To write a Parquet file, call ``pyarrow.parquet.write_table(to_arrow(index),
    "codes.parquet")``.

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index, or packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        Unique ids, integers or strings. By default the ids of the index, or positions.
    n_bits : int, default=None
        Number of bits per code. By default that of the index, if known, otherwise all
        bits of the bytes.

    Returns
    -------
    table : pyarrow.Table
        Columns ``id`` and ``code``, the latter binary of fixed size with the first bit
        highest. For an index with a decoder, also ``term`` and, for angles, ``factor``,
        in float32. The score of a code is then ``factor * sum + term``, where the sum
        is over the entries of its bytes in `score_tables`; for Euclidean distances, it
        is the squared distance. The schema's metadata has the length of the codes.

    Raises
    ------
    ImportError
        If pyarrow is not installed.

    See Also
    --------
    score_tables : The look-up tables of queries.

    Examples
    --------
    >>> from skhash.export import to_arrow
    >>> from skhash.neighbors import HammingNeighbors
    >>> index = HammingNeighbors().fit([[1, 0, 1], [0, 1, 1]])
    >>> to_arrow(index).column_names  # doctest: +SKIP
    ['id', 'code']
    """
    arrow = import_extra("pyarrow", "This export", "pyarrow")
    packed, ids, n_bits = read_source(codes, ids, n_bits)
    width = packed.shape[1]
    kind, size = arrow.binary(width), max(1, _CHUNK_BYTES // width)
    chunks = [
        arrow.FixedSizeBinaryArray.from_buffers(
            kind, len(part), [None, arrow.py_buffer(np.ascontiguousarray(part))]
        )
        for part in (packed[i : i + size] for i in range(0, len(packed), size))
    ]
    metadata = {"n_bits": str(n_bits), "bitorder": "big"}
    items = read_items(codes)
    if items:
        metadata["metric"] = read_scoring(codes).metric
    id_type = arrow.int64() if ids.dtype.kind in "iu" else arrow.string()
    columns = {
        "id": arrow.array(ids, id_type),
        "code": arrow.chunked_array(chunks, kind),
        **{name: arrow.array(item) for name, item in items.items()},
    }
    return arrow.table(columns, metadata=metadata)
