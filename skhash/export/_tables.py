"""Codes as tables: of Arrow, and so of Parquet and data frames, and of PostgreSQL."""

from typing import Any

import numpy as np

from skhash.codes import check_packed
from skhash.export._source import read_items, read_scoring, read_source
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import import_extra

# Bytes that a chunk of a column may have: the offsets of Arrow are 32 bits wide.
_CHUNK_BYTES = 2**30
# As COPY reads them.
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


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


def bit_strings(packed, n_bits=None) -> np.ndarray:
    """Convert codes to strings of 0 and 1, the format of PostgreSQL's ``bit(n)``.

    Parameters
    ----------
    packed : array-like of shape (n_samples, n_bytes), uint8
        Packed codes.
    n_bits : int, default=None
        Number of bits per code; by default all bits of the bytes.

    Returns
    -------
    strings : ndarray of shape (n_samples,), str
        Strings of 0 and 1, starting with the first bit.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.export import bit_strings
    >>> bit_strings(np.array([[0b10110000]], dtype=np.uint8), n_bits=4)
    array(['1011'], dtype='<U4')
    """
    packed = check_packed(packed, n_bits)
    n_bits = 8 * packed.shape[1] if n_bits is None else n_bits
    bits = np.unpackbits(packed, axis=1, count=n_bits)
    letters = np.ascontiguousarray(bits + np.uint8(ord("0")))
    return letters.view(f"S{n_bits}")[:, 0].astype(f"U{n_bits}")


def to_pgvector(codes, file, *, ids=None, n_bits=None) -> None:
    """Export codes as text for PostgreSQL's COPY, with one id and code per line.

    For an index with a decoder, each line also has the ``term`` of the code and, for
    angles, its ``factor``; see `to_arrow`.

    In the database, use the operators of pgvector (``<~>`` is the Hamming distance)::

        CREATE TABLE items (id bigint PRIMARY KEY, code bit(64));
        COPY items (id, code) FROM STDIN;
        SELECT id, code <~> B'1011...' AS distance FROM items
        ORDER BY distance, id LIMIT 10;

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index, or packed codes. Removed codes are left out.
    file : text file
        File to write to, in chunks: any object with a ``write`` method.
    ids : array-like of shape (n_samples,), default=None
        Unique ids, integers or strings. By default the ids of the index, or positions.
    n_bits : int, default=None
        Number of bits per code. By default that of the index, if known, otherwise all
        bits of the bytes.

    Raises
    ------
    ValueError
        If bits after the first `n_bits` are set, or if ids are not unique, are mixed,
        contain NUL, or are not as many as the codes.

    Examples
    --------
    >>> import io
    >>> from skhash.export import to_pgvector
    >>> from skhash.neighbors import HammingNeighbors
    >>> index = HammingNeighbors().fit([[1, 0, 1], [0, 1, 1]], ids=["a", "b"])
    >>> to_pgvector(index, file := io.StringIO())
    >>> print(file.getvalue(), end="")  # doctest: +NORMALIZE_WHITESPACE
    a 101
    b 011
    """
    packed, ids, n_bits = read_source(codes, ids, n_bits)
    items = read_items(codes).values()
    for rows in row_chunks(len(packed), 8 * n_bits + 200):
        names = [str(name).translate(_ESCAPES) for name in ids[rows].tolist()]
        # NumPy writes as many digits as tell one float32 from all others.
        floats = [item[rows].astype(str).tolist() for item in items]
        columns = names, bit_strings(packed[rows], n_bits).tolist(), *floats
        lines = ("\t".join(line) + "\n" for line in zip(*columns, strict=True))
        file.write("".join(lines))
