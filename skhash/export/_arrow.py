"""Codes as Arrow tables, and so as Parquet, Feather and data frames."""

import re

import numpy as np

from skhash.codes import MAX_BITS, check_packed
from skhash.export._source import import_engine, read_items, read_scoring, read_source

# Bytes that a chunk of a column may have: the offsets of Arrow are 32 bits wide.
_CHUNK_BYTES = 2**30
# How much larger strings of one width may be than their text, where they fill more than
# a chunk: one long id among short ones would fill the memory.
_MAX_GROWTH = 256


def to_arrow(codes, *, ids=None, n_bits=None):
    """Make an Arrow table of codes.

    ``pyarrow.parquet.write_table(to_arrow(index), "codes.parquet")`` makes a Parquet
    file of it.

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index, or packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        Integers or strings. By default the ids of the index, or positions.
    n_bits : int, default=None
        Length of the codes. By default that of the index, where it is known, else all
        bits of the bytes.

    Returns
    -------
    table : pyarrow.Table
        Columns ``id`` and ``code``, of bytes of fixed size, the first bit highest. Of
        an index with a decoder also ``term`` and, for angles, ``factor``, float32:
        the score of a code is ``factor * sum + term``, with the sum of what its bytes
        have in `score_tables`. The length of the codes is in the metadata of the
        schema.

    Raises
    ------
    ImportError
        If pyarrow is not installed.

    See Also
    --------
    from_arrow : Reads it.
    score_tables : The sums, query by query.

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
        If a column is missing or damaged, or holds nulls or something else than bytes
        of fixed size and ids; if the bits are in another order or do not fit their
        number.

    Examples
    --------
    >>> import pyarrow.parquet  # doctest: +SKIP
    >>> from skhash.export import from_arrow
    >>> table = pyarrow.parquet.read_table("codes.parquet")  # doctest: +SKIP
    >>> packed, ids, n_bits = from_arrow(table)  # doctest: +SKIP
    """
    arrow = import_engine("pyarrow", "pyarrow")
    table = _whole(arrow, table)
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
    }
    column = table["code"]
    if not arrow.types.is_fixed_size_binary(column.type) or column.null_count:
        raise ValueError(
            "The column 'code' must hold bytes of fixed size and no nulls, got "
            f"{column.type} with {column.null_count} nulls."
        )
    order = metadata.get("bitorder", "big")
    if order != "big":
        raise ValueError(
            f"The first bit must be the highest (bitorder 'big'), got {order!r}; see "
            "skhash.export.reverse_bits."
        )
    width = column.type.byte_width
    text = metadata.get("n_bits", f"{8 * width}")
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > MAX_BITS:
        raise ValueError(
            f"'n_bits' of the schema must be a number up to {MAX_BITS}, got "
            f"{text[:50]!r}."
        )
    n_bits = int(text)
    parts = [np.empty((0, width), dtype=np.uint8)]
    for chunk in column.chunks if width else ():
        data = np.frombuffer(chunk.buffers()[1] or b"", dtype=np.uint8)
        start = chunk.offset * width
        parts.append(data[start : start + len(chunk) * width].reshape(-1, width))
    packed = check_packed(np.concatenate(parts), n_bits)
    return packed, _read_ids(arrow, table["id"]), n_bits


def _whole(arrow, table):
    """Return ids and codes of a table, or raise if it is damaged."""
    if not isinstance(table, arrow.Table):
        raise TypeError(
            f"table must be a pyarrow.Table, got {table!r:.100}; read a file, as "
            "by pyarrow.parquet.read_table(path)."
        )
    for name in ("id", "code"):
        if table.column_names.count(name) != 1:
            raise ValueError(
                f"The table must have one column {name!r}, got {table.column_names}."
            )
    table = table.select(["id", "code"])
    table.validate(full=True)
    return table


def _read_ids(arrow, column):
    """Return ids as an array of int64 or of strings."""
    is_text = column.type in (arrow.string(), arrow.large_string())
    if column.null_count or not (is_text or arrow.types.is_integer(column.type)):
        raise ValueError(
            "The column 'id' must hold integers or strings and no nulls, got "
            f"{column.type} with {column.null_count} nulls."
        )
    if not is_text:
        return column.cast(arrow.int64()).to_numpy()
    texts = column.to_pylist()
    n_bytes = 4 * len(texts) * max(map(len, texts), default=0)
    if n_bytes > max(_CHUNK_BYTES, _MAX_GROWTH * column.nbytes):
        raise ValueError(
            f"The longest of {len(texts)} ids has {max(map(len, texts))} characters, "
            f"and an array of such strings would need {n_bytes} bytes; give shorter "
            "ids, or numbers."
        )
    return np.array(texts, dtype=str)
