"""What codes decode to, for other engines: as an Arrow table, and as score tables."""

from dataclasses import dataclass

import numpy as np

from skhash.codes import MAX_BITS, packed_width
from skhash.export._arrow import check_table, read_count
from skhash.export._source import import_engine, read_scoring
from skhash.neighbors import HashedNeighbors
from skhash.neighbors._hashed import seen_by
from skhash.neighbors.store.decoder import METRICS, bits_of_block
from skhash.utils.chunks import dense_rows


def score_tables(decoder, X, *, metric=None):
    """Return what each value of each byte of a code adds to its score, by query.

    The score of a code, as `skhash.neighbors.asymmetric_scores` defines it, is
    ``factor * sum + term``: the sum, over the bytes of the packed code, of the entry
    that the byte chooses in its table; and the two floats of the code that `to_arrow`
    and `to_pgvector` write, of which the factor is 1 but for the cosine.

    Parameters
    ----------
    decoder : index, estimator or tuple (codebook, offset)
        An `AsymmetricNeighbors` with a decoder, a `HashedNeighbors` that has one, or
        what `AsymmetricNeighbors.fit` takes as decoder.
    X : {array-like, sparse matrix} of shape (n_queries, n_features)
        Real vectors, such as the index is asked with.
    metric : {"euclidean", "inner_product", "cosine"}, default=None
        None stands for that of the index, and for "euclidean" without one.

    Returns
    -------
    tables : ndarray of shape (n_queries, n_bytes, 256), float32
        A kilobyte a byte and query. Blocks of 1 or 4 bits are summed up to bytes. What
        all codes have of a query stands in the table of the first byte.

    Raises
    ------
    ValueError
        If the index has no decoder or another metric, or queries do not fit.

    See Also
    --------
    decoder_to_arrow : The decoder itself.

    Notes
    -----
    The score of a code of M bytes, computed in float32 and summed in whatever order, is
    within ``(M + 2) * 2**-24 * (factor * size + |term|)`` of what the same floats give
    exactly, where ``size`` is the sum of the magnitudes of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.export import score_tables
    >>> codebook, offset = [[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0]
    >>> tables = score_tables((codebook, offset), [[3.0, 2.0]], metric="inner_product")
    >>> tables[0, 0, np.packbits([[0, 0], [1, 0], [1, 1]], axis=1)[:, 0]]
    array([ -5., -11., -13.], dtype=float32)
    """
    scoring = read_scoring(decoder, metric)
    if isinstance(decoder, HashedNeighbors):
        X = seen_by(decoder.encoder_, X)[1]
    queries = dense_rows(scoring.read_queries(X, "X"))
    return scoring.tables(queries, packed_width(scoring.n_bits))


@dataclass(frozen=True, eq=False)
class ExportedDecoder:
    """A decoder that was read from a table, for `AsymmetricNeighbors.fit`.

    Parameters
    ----------
    codebook_ : ndarray of shape (n_bits, n_features)
        What each bit that is set adds; or of shape (n_blocks, 2**g, n_features), what
        each value of a block of g bits adds. float32, or float64 if it or the offset
        was more exact.
    offset_ : ndarray of shape (n_features,)
        What the sum is added to.
    n_bits_ : int
        Length of the codes.
    normalize : bool
        Whether queries are scaled to unit length.
    metric : {"euclidean", "inner_product", "cosine"}
        What it was exported for.

    See Also
    --------
    decoder_from_arrow : Makes it.
    """

    codebook_: np.ndarray
    offset_: np.ndarray
    n_bits_: int
    normalize: bool
    metric: str


def decoder_to_arrow(decoder, *, metric=None):
    """Make an Arrow table of what codes decode to, a row a vector.

    A code decodes to the sum of the rows that it chooses: of each block of its bits the
    row of the value that they have, read as a number whose first bit is the highest,
    and the offset, which is the row of block -1.

    Parameters
    ----------
    decoder : index, estimator or tuple (codebook, offset)
        As in `score_tables`.
    metric : {"euclidean", "inner_product", "cosine"}, default=None
        None stands for that of the index, and for "euclidean" without one.

    Returns
    -------
    table : pyarrow.Table
        Columns ``block`` and ``value``, int32, and ``vector``, a list of fixed size of
        float32, or float64 where codebook or offset are more exact. Rows stand in
        order: the offset, and all values of a block after those of the block before.
        The metadata of the schema are ``n_bits``, ``block_bits``, ``metric``, and as
        ``normalized`` "true" or "false", whether queries are scaled to unit length.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If the index has no decoder, or another metric.

    See Also
    --------
    decoder_from_arrow : The way back.
    to_arrow : The codes.

    Notes
    -----
    It is a table of its own, not metadata of the codes': any engine can read the
    vectors as rows, metadata of Parquet are text that every reader loads whole, and
    codes in many files share one decoder.

    Examples
    --------
    >>> from skhash.export import decoder_to_arrow
    >>> decoder = [[2.0, 0.0]], [1.0, 1.0]
    >>> decoder_to_arrow(decoder).to_pydict()  # doctest: +SKIP
    {'block': [-1, 0, 0], 'value': [0, 0, 1], 'vector': [[1.0, 1.0], [0.0, 0.0], ...]}
    """
    arrow = import_engine("pyarrow", "pyarrow")
    scoring = read_scoring(decoder, metric)
    block_bits, n_features = bits_of_block(scoring.codebook), len(scoring.offset)
    blocks, values = _rows(scoring.n_bits, block_bits)
    entries = scoring.codebook
    if block_bits == 1:  # a bit that is 0 adds nothing
        entries = np.stack([np.zeros_like(entries), entries], axis=1)
    vectors = np.vstack([scoring.offset, entries.reshape(-1, n_features)])
    with np.errstate(over="ignore"):
        short = vectors.astype(np.float32)
    if (short == vectors).all():
        vectors = short
    metadata = {
        "n_bits": str(scoring.n_bits),
        "block_bits": str(block_bits),
        "metric": scoring.metric,
        "normalized": str(scoring.normalized).lower(),
    }
    flat = arrow.array(vectors.ravel())
    columns = {
        "block": arrow.array(blocks),
        "value": arrow.array(values),
        "vector": arrow.FixedSizeListArray.from_arrays(flat, n_features),
    }
    return arrow.table(columns, metadata=metadata)


def decoder_from_arrow(table) -> ExportedDecoder:
    """Read a decoder from a table that `decoder_to_arrow` made.

    Parameters
    ----------
    table : pyarrow.Table
        Its rows may stand in any order.

    Returns
    -------
    decoder : ExportedDecoder
        ``AsymmetricNeighbors(metric=decoder.metric).fit(codes, decoder=decoder)``
        scores codes as the index that was exported did.

    Raises
    ------
    ValueError
        If columns or metadata are missing or damaged, or rows are not one for each
        value of each block and one for the offset.

    Examples
    --------
    >>> import pyarrow.parquet  # doctest: +SKIP
    >>> from skhash.export import decoder_from_arrow
    >>> table = pyarrow.parquet.read_table("decoder.parquet")  # doctest: +SKIP
    >>> decoder = decoder_from_arrow(table)  # doctest: +SKIP
    """
    arrow = import_engine("pyarrow", "pyarrow")
    table, metadata = check_table(arrow, table, ("block", "value", "vector"))
    n_bits = read_count(metadata, "n_bits", MAX_BITS)
    block_bits = int(_read_choice(metadata, "block_bits", ("1", "4", "8")))
    metric = _read_choice(metadata, "metric", METRICS)
    normalized = _read_choice(metadata, "normalized", ("false", "true"))
    n_blocks = -(-n_bits // block_bits)
    n_rows = 1 + n_blocks * 2**block_bits
    if len(table) != n_rows:
        raise ValueError(
            f"A decoder of {n_bits} bits in blocks of {block_bits} has {n_rows} rows, "
            f"got {len(table)}."
        )
    vectors = _read_vectors(arrow, table["vector"])
    blocks, values = (_read_integers(arrow, table, key) for key in ("block", "value"))
    order = np.lexsort((values, blocks))
    expected = np.array(_rows(n_bits, block_bits))
    if (np.array([blocks, values])[:, order] != expected).any():
        raise ValueError(
            "The table must have one row for each value of each block, and one of "
            "block -1 and value 0, the offset."
        )
    offset, entries = vectors[order[0]], vectors[order[1:]]
    codebook = entries.reshape(n_blocks, 2**block_bits, -1)
    if block_bits == 1:
        if codebook[:, 0].any():
            raise ValueError("A bit that is 0 must add nothing; its vectors are zeros.")
        codebook = codebook[:, 1]
    return ExportedDecoder(codebook, offset, n_bits, normalized == "true", metric)


def _rows(n_bits, block_bits):
    """Return the block and the value of each row, int32, in order."""
    n_blocks, n_values = -(-n_bits // block_bits), 2**block_bits
    blocks = np.concatenate([[-1], np.repeat(np.arange(n_blocks), n_values)])
    values = np.concatenate([[0], np.tile(np.arange(n_values), n_blocks)])
    return blocks.astype(np.int32), values.astype(np.int32)


def _read_choice(metadata, key, choices):
    value = metadata.get(key, "")
    if value not in choices:
        raise ValueError(
            f"The schema must have {key!r}, one of {choices}, in its metadata, got "
            f"{value[:50]!r}."
        )
    return value


def _read_integers(arrow, table, name):
    column = table[name]
    if column.null_count or not arrow.types.is_integer(column.type):
        raise ValueError(
            f"The column {name!r} must hold integers and no nulls, got {column.type} "
            f"with {column.null_count} nulls."
        )
    return column.cast(arrow.int64()).to_numpy()


def _read_vectors(arrow, column):
    """Return a column of lists as an array of shape (n, n_features)."""
    kind = column.type
    if not (
        arrow.types.is_fixed_size_list(kind)
        and kind.value_type in (arrow.float32(), arrow.float64())
        and kind.list_size > 0
    ):
        raise ValueError(
            "The column 'vector' must hold lists of fixed size of float32 or float64, "
            f"got {kind}."
        )
    parts = [chunk.flatten() for chunk in column.chunks]
    n_nulls = column.null_count + sum(part.null_count for part in parts)
    if n_nulls:
        raise ValueError(f"The column 'vector' holds {n_nulls} nulls.")
    vectors = np.concatenate([part.to_numpy() for part in parts])
    if not np.isfinite(vectors).all():
        raise ValueError("The column 'vector' holds NaN or infinity.")
    return vectors.reshape(-1, kind.list_size)
