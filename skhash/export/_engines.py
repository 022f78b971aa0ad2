"""Indexes of other engines, filled with our codes."""

import re
from typing import Any

import numpy as np

from skhash.codes import check_packed
from skhash.export._source import read_bits, whole_ids
from skhash.utils.lazy import import_extra


def to_faiss(codes, *, ids=None) -> Any:
    """Export codes to a flat binary index of faiss.

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index of bits, or packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        Unique ids, integers of at least 0, as faiss returns -1 if it finds nothing. By
        default the ids of the index, or positions.

    Returns
    -------
    index : faiss.IndexBinaryIDMap over faiss.IndexBinaryFlat
        The index. It finds the same distances as `HammingNeighbors`, and the same codes
        except for ties, whose order faiss does not define. Queries are packed codes.
        Its radius search is exclusive, so ask for ``radius + 1``.

    Raises
    ------
    ImportError
        If faiss is not installed.
    ValueError
        If the codes are those of a quantizer, or ids are not unique integers of at
        least 0.

    Examples
    --------
    >>> from skhash.export import to_faiss
    >>> from skhash.neighbors import HammingNeighbors
    >>> index = HammingNeighbors().fit([[0, 0], [0, 1], [1, 1]])
    >>> to_faiss(index).ntotal  # doctest: +SKIP
    3
    """
    faiss = import_extra("faiss", "This export", "faiss-cpu")
    packed, ids = read_bits(codes, ids)
    index = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(8 * packed.shape[1]))
    index.add_with_ids(np.ascontiguousarray(packed), whole_ids(ids, "faiss"))
    return index


def to_usearch(codes, *, ids=None, **parameters) -> Any:
    """Export codes to a graph index of usearch.

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index of bits, or packed codes. Removed codes are left out.
    ids : array-like of shape (n_samples,), default=None
        Unique ids, integers of at least 0. By default the ids of the index, or
        positions.
    **parameters
        Parameters of ``usearch.index.Index``, such as ``connectivity``.

    Returns
    -------
    index : usearch.index.Index
        The index. Its search is approximate, or exact with ``exact=True``. Queries are
        packed codes.

    Raises
    ------
    ImportError
        If usearch is not installed.
    ValueError
        If the codes are those of a quantizer, or ids are not unique integers of at
        least 0.

    Examples
    --------
    >>> from skhash.export import to_usearch
    >>> from skhash.neighbors import HammingNeighbors
    >>> index = HammingNeighbors().fit([[0, 0], [0, 1], [1, 1]])
    >>> len(to_usearch(index))  # doctest: +SKIP
    3
    """
    usearch = import_extra("usearch.index", "This export", "usearch")
    packed, ids = read_bits(codes, ids)
    ids = whole_ids(ids, "usearch")
    index = usearch.Index(
        ndim=8 * packed.shape[1],
        metric=usearch.MetricKind.Hamming,
        dtype=usearch.ScalarKind.B1,
        **parameters,
    )
    index.add(ids.astype(np.uint64), np.ascontiguousarray(packed))
    return index


def to_sqlite_vec(codes, connection, table="codes", *, ids=None) -> None:
    """Export codes to a new virtual table of sqlite-vec, in one transaction.

    If a transaction is open, the table becomes a part of it, and you have to commit.
    The table has the columns ``id`` and ``code``. The first bit of a byte is the
    lowest, as in sqlite-vec's ``vec_quantize_binary``, so pass queries through
    `reverse_bits`::

        SELECT id, distance FROM codes
        WHERE code MATCH vec_bit(?) AND k = 10 ORDER BY distance

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index of bits, or packed codes. Removed codes are left out.
    connection : sqlite3.Connection
        Connection with sqlite-vec loaded: after
        ``connection.enable_load_extension(True)``, ``sqlite_vec.load(connection)``.
    table : str, default="codes"
        Name of the table, of letters, digits and underscores.
    ids : array-like of shape (n_samples,), default=None
        Unique ids, integers or strings. By default the ids of the index, or positions.

    Raises
    ------
    ValueError
        If the name of the table is invalid, or if ids are not unique integers or
        strings.
    sqlite3.OperationalError
        If the table exists, or if sqlite-vec is not loaded. Nothing is written then.

    Examples
    --------
    >>> import sqlite3
    >>> from skhash.export import to_sqlite_vec
    >>> connection = sqlite3.connect("codes.db")  # doctest: +SKIP
    >>> connection.enable_load_extension(True)  # doctest: +SKIP
    >>> sqlite_vec.load(connection)  # doctest: +SKIP
    >>> to_sqlite_vec(index, connection)  # doctest: +SKIP
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", table, flags=re.ASCII):
        raise ValueError(
            f"A table name must consist of letters, digits and _, got {table!r}."
        )
    packed, ids = read_bits(codes, ids)
    kind = "integer" if ids.dtype.kind in "iu" else "text"
    blobs = (row.tobytes() for row in reverse_bits(packed))
    # BEGIN would fail within a transaction of the caller, which stays as it is.
    connection.execute("SAVEPOINT skhash")
    try:
        connection.execute(
            f"CREATE VIRTUAL TABLE {table} USING vec0"
            f"(id {kind} primary key, code bit[{8 * packed.shape[1]}])"
        )
        connection.executemany(
            f"INSERT INTO {table}(id, code) VALUES (?, vec_bit(?))",
            zip(ids.tolist(), blobs, strict=True),
        )
    except BaseException:
        connection.execute("ROLLBACK TO skhash")
        raise
    finally:
        connection.execute("RELEASE skhash")


_REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    axis=1,
)[:, 0]


def reverse_bits(packed) -> np.ndarray:
    """Reverse the order of the bits in each byte.

    Packed codes of skhash have the first bit highest, as in NumPy, PostgreSQL, Vespa
    and Elasticsearch. faiss's encoders and sqlite-vec have it lowest. Distances do not
    depend on the order, as long as queries and codes have the same.

    Parameters
    ----------
    packed : array-like of shape (n_samples, n_bytes), uint8
        Packed codes.

    Returns
    -------
    reversed : ndarray of shape (n_samples, n_bytes), uint8
        The bytes, with their bits reversed.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.export import reverse_bits
    >>> reverse_bits(np.array([[0b00101011]], dtype=np.uint8)) == 0b11010100
    array([[ True]])
    """
    return _REVERSED[check_packed(packed)]
