"""Score tables for other engines."""

from typing import Any

from skhash.codes import packed_width
from skhash.export._source import read_scoring
from skhash.neighbors import HashedNeighbors
from skhash.neighbors._hashed import seen_by
from skhash.utils.chunks import dense_rows


def score_tables(decoder, X, *, metric=None) -> Any:
    """Return lookup tables of what each byte of a code adds to its score, by query.

    The score of a code is ``factor * sum + term``: the sum, over the bytes of the
    packed code, of the entry that the byte chooses in its table; and the two floats of
    the code that `to_arrow` and `to_pgvector` write, of which the factor is 1 but for
    angles: the cosine, and rows of unit length. It is the distance that
    `skhash.neighbors.asymmetric_scores` defines, and its square for "euclidean".

    Parameters
    ----------
    decoder : index, estimator or tuple (codebook, offset)
        An `AsymmetricNeighbors` with a decoder, a `HashedNeighbors` that has one, or
        the `decoder` of `AsymmetricNeighbors.fit`.
    X : {array-like, sparse matrix} of shape (n_queries, n_features)
        Real vectors, as queries of the index.
    metric : {"euclidean", "inner_product", "cosine"}, default=None
        None stands for that of the index, and for "euclidean" without one.

    Returns
    -------
    tables : ndarray of shape (n_queries, n_bytes, 256), float32
        A kilobyte a byte and query. Blocks of 1 or 4 bits are summed up to bytes. Terms
        common to all codes are in the table of the first byte.

    Raises
    ------
    ValueError
        If the index has no decoder or another metric, or queries do not fit.

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
        X = seen_by(decoder.encoder_, decoder._scaled(X))[1]
    queries = dense_rows(scoring.read_queries(X, "X"))
    return scoring.tables(queries, packed_width(scoring.n_bits))
