"""Sources of exports: live codes of an index or packed codes; decoders and tables."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_packed, packed_width
from skhash.neighbors import HashedNeighbors
from skhash.neighbors._hashed import seen_by
from skhash.neighbors._index import BaseIndex
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.ids import IdLookup, read_ids, to_strings
from skhash.utils.chunks import dense_rows

# Names of the items of a code in tables, see `Decoder.items`.
ITEMS = ("term", "factor")


def read_source(codes, ids=None, n_bits=None):
    """Read the codes to export, with an id for each.

    Parameters
    ----------
    codes : index or array-like of shape (n_samples, n_bytes), uint8
        A fitted index or `HashedNeighbors`, or packed codes. Removed codes are left
        out.
    ids : array-like of shape (n_samples,), default=None
        By default the ids of the index, or positions.
    n_bits : int, default=None
        Number of bits per code. By default that of an index that was fitted on bits or
        has a decoder, else all bits of the bytes.

    Returns
    -------
    packed : ndarray of shape (n_samples, n_bytes), uint8
    ids : ndarray of shape (n_samples,), int64 or str
    n_bits : int

    Raises
    ------
    ValueError
        If an index would refuse the ids, or bits are set behind `n_bits`.
    """
    index = fitted_index(codes)
    if index is not None:
        live = np.flatnonzero(index.live_)
        if ids is None:
            ids = getattr(index, "ids_", None)
            ids = live if ids is None else ids[live]
        if n_bits is None and not index.packed:
            n_bits = index.n_features_in_
        if n_bits is None and index._store.decoder is not None:
            n_bits = index._store.decoder.n_bits
        packed = index.packed_codes_[live]
    else:
        packed = check_packed(codes)
        ids = np.arange(len(packed)) if ids is None else ids
    if n_bits is None:
        n_bits = 8 * packed.shape[1]
    packed, ids = check_packed(packed, n_bits), read_ids(ids, packed)
    IdLookup().add(ids, np.arange(len(ids)), None)  # refuses one that occurs twice
    return packed, to_strings(ids), n_bits


def read_bits(codes, ids):
    """Return `read_source`'s codes and ids, for an engine that counts differing bits.

    Raises
    ------
    ValueError
        Also if the codes are those of a quantizer.
    """
    index = fitted_index(codes)
    decoder = None if index is None else index._store.decoder
    if decoder is not None and decoder.entries.ndim == 3:  # a vector a value of a block
        raise ValueError(
            "This engine compares codes by Hamming distance, but those of a quantizer "
            "are not made for it; fit HashedNeighbors with an encoder of bits, such as "
            "ITQHash, or score the codes of to_arrow with score_tables."
        )
    packed, ids, _ = read_source(codes, ids)
    return packed, ids


def read_items(codes):
    """Return the score terms and factors of the codes that `read_source` reads.

    Returns
    -------
    items : dict of str to ndarray of shape (n_samples,), float32
        "term", for angles also "factor"; empty where there is no decoder.
    """
    index = fitted_index(codes)
    if index is None or index._store.decoder is None:
        return {}
    store, live = index._store, index.live_
    if store.levels is None:
        return {"term": np.zeros(live.sum(), dtype=np.float32)}
    keys = store.decoder.keys_of_levels(store.levels[live])
    items = store.decoder.terms_and_factors(keys)
    return dict(zip(ITEMS, items[: 1 + store.decoder.by_angle], strict=False))


def read_scoring(source, metric=None):
    """Return the `Decoder` of an index, or of a decoder for `AsymmetricNeighbors.fit`.

    metric : str or None, which is that of an index, or else "euclidean"
    """
    index = fitted_index(source)
    if index is None:
        return read_decoder(source, metric or "euclidean")
    decoder = index._store.decoder
    if decoder is None:
        raise ValueError(
            f"This {type(source).__name__} has no decoder; pass an AsymmetricNeighbors "
            "that was fitted with fit(codes, decoder=...)."
        )
    if metric not in (None, decoder.metric):
        raise ValueError(
            f"metric={metric!r}, but the index was fitted for {decoder.metric!r}; "
            "leave it out, or pass the decoder itself."
        )
    return decoder


def fitted_index(source):
    """Return the index that `source` is or holds, or None if it is neither."""
    if isinstance(source, HashedNeighbors):
        check_is_fitted(source)
        source = source.index_
    if not isinstance(source, BaseIndex):
        return None
    check_is_fitted(source)
    return source


def whole_ids(ids, engine):
    """Return ids, or raise ``ValueError`` if `engine` cannot hold them."""
    wrong = ids if ids.dtype.kind == "U" else ids[ids < 0]
    if len(wrong):
        raise ValueError(
            f"{engine} supports only integer ids of at least 0, got "
            f"{wrong[0].item()!r}; export with ids=range(n), and keep your own table."
        )
    return ids


def score_tables(decoder, X, *, metric=None) -> Any:
    """Compute look-up tables from which another engine can score codes for each query.

    The score of a code is ``factor * sum + term``. The sum is over the bytes of the
    packed code, each of which selects an entry in its table. `to_arrow` and
    `to_pgvector` write the two floats of each code; the factor is 1 except for angles,
    that is for the cosine and for vectors of unit length. The score is the distance
    that `skhash.neighbors.asymmetric_scores` defines, or its square for "euclidean",
    to which an index adds a quarter of the squared error of a code if it has these.

    Parameters
    ----------
    decoder : index, estimator or tuple (codebook, offset)
        An `AsymmetricNeighbors`, a `HashedNeighbors` with a decoder, or a decoder as in
        `AsymmetricNeighbors.fit`.
    X : {array-like, sparse matrix} of shape (n_queries, n_features)
        Queries, as vectors.
    metric : {"euclidean", "inner_product", "cosine"}, default=None
        Metric of the scores. None is the metric of the index, or "euclidean" for a
        decoder.

    Returns
    -------
    tables : ndarray of shape (n_queries, n_bytes, 256), float32
        Tables, one kilobyte per byte of the code and query. Blocks of 1 or 4 bits are
        summed up to bytes. Terms common to all codes are in the table of the first
        byte.

    Raises
    ------
    ValueError
        If the index has no decoder or another metric, or if queries do not fit the
        decoder.

    Notes
    -----
    A score of a code of M bytes, computed in float32 and summed in any order, differs
    from the exact result for the same floats by at most
    ``(M + 2) * 2**-24 * (factor * size + |term|)``, where ``size`` is the sum of the
    entries' magnitudes.

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
        X = seen_by(decoder.encoder_, decoder._scaled(X))[1]
    queries = dense_rows(scoring.read_queries(X, "X"))
    return scoring.tables(queries, packed_width(scoring.n_bits))
