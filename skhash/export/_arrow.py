"""Codes as Arrow tables, and so as Parquet, Feather and data frames."""

import numpy as np

from skhash.codes import check_packed
from skhash.export._source import import_engine, read_source

# Bytes that a chunk of a column may have: the offsets of Arrow are 32 bits wide.
_CHUNK_BYTES = 2**30


def to_arrow(codes, *, ids=None, n_bits=None):
    """Make an Arrow table of codes.

    ``pyarrow.parquet.write_table(to_arrow(index), "codes.parquet")`` makes a Parquet
    file of it.

    Parameters
    ----------
    codes : HammingNeighbors or array-like of shape (n_samples, n_bytes), uint8
        A fitted index, or packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        Integers or strings. By default the ids of the index, or positions.
    n_bits : int, default=None
        Length of the codes. By default that of an index that was fitted on bits, else
        all bits of the bytes.

    Returns
    -------
    table : pyarrow.Table
        Columns ``id`` and ``code``, of bytes of fixed size, the first bit highest. The
        length of the codes is in the metadata of the schema.

    Raises
    ------
    ImportError
        If pyarrow is not installed.

    See Also
    --------
    from_arrow : The way back.

    Examples
    --------
    >>> from skhash.export import to_arrow
    >>> from skhash.neighbors import HammingNeighbors
    >>> index = HammingNeighbors().fit([[1, 0, 1], [0, 1, 1]])
    >>> to_arrow(index).column_names  # doctest: +SKIP
    ['id', 'code']
    """
    arrow = import_engine("pyarrow", "pyarrow")
    packed, ids, n_bits = read_source(codes, ids, n_bits)
    width = packed.shape[1]
    kind, size = arrow.binary(width), max(1, _CHUNK_BYTES // width)
    chunks = [
        arrow.FixedSizeBinaryArray.from_buffers(
            kind, len(part), [None, arrow.py_buffer(np.ascontiguousarray(part))]
        )
        for part in (packed[i : i + size] for i in range(0, len(packed), size))
    ]
    schema = arrow.schema(
        [("id", arrow.int64() if ids.dtype.kind in "iu" else arrow.string())]
        + [("code", kind)],
        metadata={"n_bits": str(n_bits), "bitorder": "big"},
    )
    columns = [arrow.array(ids, schema[0].type), arrow.chunked_array(chunks, kind)]
    return arrow.table(columns, schema=schema)


def from_arrow(table):
    """Read the codes of a table that `to_arrow` made.

    Parameters
    ----------
    table : pyarrow.Table
        With the columns ``id`` and ``code``.

    Returns
    -------
    packed : ndarray of shape (n_samples, n_bytes), uint8
    ids : ndarray of shape (n_samples,), int64 or str
    n_bits : int
        All bits of the bytes, where the schema does not say.

    Raises
    ------
    ValueError
        If ``code`` is no column of bytes of fixed size, holds nulls, or its bits are
        in another order.

    Examples
    --------
    >>> import pyarrow.parquet  # doctest: +SKIP
    >>> from skhash.export import from_arrow
    >>> table = pyarrow.parquet.read_table("codes.parquet")  # doctest: +SKIP
    >>> packed, ids, n_bits = from_arrow(table)  # doctest: +SKIP
    """
    arrow = import_engine("pyarrow", "pyarrow")
    column, metadata = table["code"], table.schema.metadata or {}
    if not arrow.types.is_fixed_size_binary(column.type) or column.null_count:
        raise ValueError(
            "The column 'code' must hold bytes of fixed size and no nulls, got "
            f"{column.type} with {column.null_count} nulls."
        )
    order = metadata.get(b"bitorder", b"big").decode()
    if order != "big":
        raise ValueError(
            f"The first bit must be the highest (bitorder 'big'), got {order!r}; see "
            "skhash.export.reverse_bits."
        )
    width = column.type.byte_width
    parts = [np.empty((0, width), dtype=np.uint8)]
    for chunk in column.chunks:
        data = np.frombuffer(chunk.buffers()[1], dtype=np.uint8)
        start = chunk.offset * width
        parts.append(data[start : start + len(chunk) * width].reshape(-1, width))
    n_bits = int(metadata.get(b"n_bits", 8 * width))
    packed = check_packed(np.concatenate(parts), n_bits)
    ids = np.array(table["id"].to_pylist())
    return packed, ids, n_bits
