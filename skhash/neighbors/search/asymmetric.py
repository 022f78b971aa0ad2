"""Asymmetric scores: queries stay real, and codes stand for what they decode to."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import check_array

from skhash.codes import check_packed, check_unmasked, pack_bits, packed_width
from skhash.utils._sklearn import StrOptions, validate_params
from skhash.utils.chunks import CHUNK_BYTES, dense_rows, even_chunks, row_chunks
from skhash.utils.threads import count_threads, late_import, map_in_threads

METRICS = ("euclidean", "inner_product", "cosine")
# Bytes of codes to look up, over all pairs, below which a thread does not pay.
MIN_THREAD_WORK = 2**23


@validate_params(
    {
        "X_query": ["array-like", "sparse matrix"],
        "codes": ["array-like"],
        "decoder": "no_validation",
        "metric": [StrOptions(set(METRICS))],
        "packed": ["boolean"],
        "n_jobs": [None, Integral],
    },
    prefer_skip_nested_validation=True,
)
def asymmetric_scores(
    X_query, codes, decoder, *, metric="euclidean", packed=False, n_jobs=None
):
    r"""Score codes for real queries; the smaller the score, the nearer the code.

    The query is not encoded. A code h stands for the vector that a linear decoder makes
    of it, :math:`\hat x = o + \sum_k h_k b_k`, with offset o and codebook b. Then the
    score of h for the query q is, by metric,

    - "euclidean": :math:`|q - \hat x|^2`, the squared distance,
    - "inner_product": :math:`-q^T \hat x`,
    - "cosine": :math:`1 - q^T \hat x / (|q| |\hat x|)`, which is 1 where either vector
      is zero.

    Parameters
    ----------
    X_query : {array-like, sparse matrix} of shape (n_queries, n_features)
        Real vectors.
    codes : array-like of shape (n_codes, n_bits) or (n_codes, n_bytes)
        Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    decoder : estimator or tuple (codebook, offset)
        A fitted encoder or `skhash.linear.LinearDecoder` with ``codebook_`` and
        ``offset_``, or arrays of shape (n_bits, n_features) and (n_features,). Queries
        of an encoder with ``normalize=True`` are scaled to unit length as it does
        itself, and scores are of that space. Nothing else is done to queries: they must
        be in the space of the codebook.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        What to compare by.
    packed : bool, default=False
        The format of `codes`.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.

    Returns
    -------
    scores : ndarray of shape (n_queries, n_codes), float32
        Never below 0 for "euclidean" and "cosine".

    Raises
    ------
    ValueError
        If codes or queries do not fit the decoder, or hold what they must not.

    See Also
    --------
    HammingNeighbors : With ``rerank="asymmetric"``, search by these scores.
    skhash.SGHEncoder : An encoder with such a decoder.
    skhash.linear.LinearDecoder : A decoder for the codes of any encoder.

    Notes
    -----
    All three come from a sum over the bits that are set, and a float a code, for
    "cosine" two. For "euclidean" the float is :math:`|\hat x - o|^2`, as

    .. math:: |q - \hat x|^2 = |q - o|^2 - 2 \sum_k h_k (q - o)^T b_k + |\hat x - o|^2

    For "cosine" the query is compared with the unit vector along o, so that codes far
    from the origin, whose cosines are all nearly 1, keep their digits.

    The sum is looked up a byte at a time, in tables made once per query. Scoring for
    inner products, without decoding, is section D of [1]_.

    References
    ----------
    .. [1] B. Dai, R. Guo, S. Kumar, N. He and L. Song, "Stochastic generative hashing",
       ICML 2017, supplementary material.

    Examples
    --------
    >>> from skhash.neighbors import asymmetric_scores
    >>> codebook, offset = [[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0]
    >>> asymmetric_scores([[3.0, 2.0]], [[0, 0], [1, 0], [1, 1]], (codebook, offset))
    array([[5., 1., 0.]], dtype=float32)
    """
    decoder = read_decoder(decoder, metric)
    packed_codes = check_packed(codes) if packed else pack_bits(codes)
    decoder.check_codes(packed_codes, np.shape(codes)[1], packed)
    queries = decoder.read_queries(check_unmasked(X_query), "X_query")
    items = decoder.items(packed_codes)
    return CodeScorer(decoder, packed_codes, items, n_jobs).score_all(queries)


def read_decoder(decoder, metric):
    """Return the `Decoder` of a fitted estimator or of a tuple (codebook, offset)."""
    if isinstance(decoder, tuple) and len(decoder) == 2:
        codebook, offset = decoder
    elif hasattr(decoder, "codebook_") and hasattr(decoder, "offset_"):
        codebook, offset = decoder.codebook_, decoder.offset_
    else:
        raise ValueError(
            "decoder must have codebook_ and offset_, or be a tuple (codebook, "
            f"offset), got {decoder!r}; for the codes of any encoder, fit a "
            "skhash.linear.LinearDecoder."
        )
    codebook = check_array(codebook, dtype=np.float64, input_name="codebook")
    offset = check_array(offset, dtype=np.float64, ensure_2d=False, input_name="offset")
    if offset.shape != codebook.shape[1:]:
        raise ValueError(
            f"offset must have shape {codebook.shape[1:]}, as the codebook has shape "
            f"{codebook.shape}, got {offset.shape}."
        )
    normalized = bool(getattr(decoder, "normalize", False))
    return Decoder(codebook, offset, normalized, metric)


def items_per_code(metric) -> int:
    """Return how many floats `Decoder.items` has of a code."""
    return 2 if metric == "cosine" else 1


@dataclass(frozen=True)
class Decoder:
    """What codes decode to, ``offset + bits @ codebook``, and how that is compared.

    Attributes
    ----------
    codebook : ndarray of shape (n_bits, n_features), float64
    offset : ndarray of shape (n_features,), float64
    normalized : bool
        Whether this is a space of rows of unit length, to which queries are brought.
    metric : str
    """

    codebook: np.ndarray
    offset: np.ndarray
    normalized: bool
    metric: str

    def check_codes(self, packed_codes, n_columns, packed):
        """Raise ``ValueError`` unless such codes can be decoded."""
        n_bits = len(self.codebook)
        if n_columns != (packed_width(n_bits) if packed else n_bits):
            raise ValueError(
                f"Codes have {n_columns} {'bytes' if packed else 'bits'}, but the "
                f"decoder is for {n_bits} bits; take the one of the same encoder."
            )
        check_packed(packed_codes, n_bits)

    def read_queries(self, X, name):
        """Return validated queries, in the space of the codebook."""
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name
        )
        n_features = self.codebook.shape[1]
        if X.shape[1] != n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but codes decode to {n_features}."
            )
        return normalize(X) if self.normalized else X

    def items(self, packed_codes):
        """Return what scoring takes of each code, float32.

        Returns
        -------
        items : ndarray of shape (n_codes, 1), or (n_codes, 2) for "cosine"
            What is added to the sum of the bits' weights, and what that is multiplied
            with before.
        """
        n_bits, n_items = len(self.codebook), items_per_code(self.metric)
        items = np.zeros((len(packed_codes), n_items), dtype=np.float32)
        if self.metric == "inner_product":
            return items
        # Lengths are those in an orthonormal basis, which is no larger than the codes.
        vectors = np.vstack([self.codebook, self.offset])
        vectors = np.linalg.qr(vectors.T, mode="r").T
        codebook, offset = vectors[:n_bits], vectors[n_bits]
        for rows in row_chunks(len(packed_codes), 32 * len(vectors)):
            bits = np.unpackbits(packed_codes[rows], axis=1, count=n_bits)
            beyond = bits.astype(np.float64) @ codebook
            if self.metric == "cosine":
                parts = angles_to(offset, beyond)
            else:
                parts = (np.square(beyond).sum(axis=1),)
            items[rows] = np.stack([_to_float32(2 * part) for part in parts], axis=1)
            items[rows] /= 2
        return items

    def weights(self, X, n_planes):
        """Return what each bit that is set adds, and what a code of zeros has.

        They have shapes (n_queries, n_planes) and (n_queries,), float32.
        """
        X = X.astype(np.float64)
        if self.metric == "euclidean":
            X -= self.offset
            starts, times = np.square(X).sum(axis=1), -2
        elif self.metric == "inner_product":
            starts, times = -(X @ self.offset), -1
        else:
            X = normalize(X)
            length = np.linalg.norm(self.offset)
            towards = self.offset / length if length > 0 else self.offset
            is_zero = ~X.any(axis=1)
            X -= towards
            starts = length * np.where(is_zero, 1.0, np.square(X).sum(axis=1) / 2)
            times = -1
        own = times * (X @ self.codebook.T)
        # No sum of them may be beyond float32, nor one with the float of a code.
        _to_float32(2 * (np.abs(own).sum(axis=1) + np.abs(starts)))
        weights = np.zeros((len(X), n_planes), dtype=np.float32)
        weights[:, : len(self.codebook)] = own
        return weights, starts.astype(np.float32)


def angles_to(offset, beyond):
    """Return what the cosine of a query takes of vectors ``x = offset + beyond``.

    With unit vectors u along the offset and q of the query, the score
    ``1 - q^T x / |x|`` is ``(|x| - u^T x) / |x|``, which is of x alone, plus
    ``(u - q)^T x / |x|``. Where the offset is much longer than what is beyond it, all
    of it is small, and neither part is a difference of large numbers.

    Parameters
    ----------
    offset : ndarray of shape (n_axes,), float64
    beyond : ndarray of shape (n, n_axes), float64

    Returns
    -------
    terms, factors : ndarrays of shape (n,), float64
        1 less the cosine of u and x, and ``1 / |x|``; 1 and 0 where x is zero.
    """
    length = np.linalg.norm(offset)
    towards = offset / length if length > 0 else offset
    across = beyond - np.outer(beyond @ towards, towards)
    along = length + beyond @ towards
    squares = np.square(across).sum(axis=1)
    lengths = np.sqrt(along**2 + squares)
    factors = 1 / np.where(lengths > 0, lengths, np.inf)
    # lengths - along, of which one is nearly the other where along is positive.
    excess = np.where(along > 0, squares / (lengths + along + (lengths == 0)), 0)
    excess = np.where(along > 0, excess, lengths - along)
    return np.where(lengths > 0, excess * factors, 1.0), factors


class CodeScorer:
    """Scores of codes by what they decode to: of all, of candidates, or the smallest.

    Queries must have passed `read_queries`.

    Parameters
    ----------
    decoder : Decoder
    packed_codes : ndarray of shape (n_codes, n_bytes), uint8
    items : ndarray of shape (n_codes, 1) or (n_codes, 2), float32
        What `Decoder.items` returns; NaN for a code that `nearest` is to leave out.
    n_jobs : int or None
    """

    def __init__(self, decoder, packed_codes, items, n_jobs):
        self.decoder, self.packed_codes, self.items = decoder, packed_codes, items
        self.n_jobs = n_jobs
        self.read_queries = decoder.read_queries

    def score_all(self, queries):
        """Return scores (n_queries, n_codes)."""
        n_codes = len(self.packed_codes)
        scores = np.empty((queries.shape[0], n_codes), dtype=np.float32)
        self._run("score_all", n_codes, queries, scores)
        return scores

    def score_candidates(self, queries, candidates):
        """Return the scores of each query's own candidates, (n_queries, m)."""
        scores = np.empty(candidates.shape, dtype=np.float32)
        self._run("score_candidates", candidates.shape[1], queries, candidates, scores)
        return scores

    def nearest(self, queries, k):
        """Return the k smallest (score, position) of each query, in this order."""
        scores = np.full((queries.shape[0], k), np.inf, dtype=np.float32)
        positions = np.zeros((queries.shape[0], k), dtype=np.int64)
        self._run("nearest", len(self.packed_codes), queries, scores, positions)
        return smallest(scores, positions, k)

    def _run(self, kernel, n_scored, queries, *arrays):
        """Call a kernel on slices of the queries and of `arrays`, in threads.

        n_scored : codes that a query is compared with
        """
        # numba is imported at the first search: importing skhash stays quick.
        with late_import:
            from skhash.neighbors.kernels import asymmetric as kernels

        n_queries, n_bytes = queries.shape[0], self.packed_codes.shape[1]
        is_product = self.decoder.metric == "inner_product"
        floor = np.float32(-np.inf if is_product else 0)
        codes = self.packed_codes, self.items, floor

        def call(rows):
            weights = self.decoder.weights(dense_rows(queries[rows]), 8 * n_bytes)
            work = (
                np.empty((n_bytes, 256, kernels.LANES), dtype=np.float32),
                np.empty(kernels.LANES, dtype=np.float32),
                np.empty(kernels.LANES, dtype=np.float32),
            )
            slices = [array[rows] for array in arrays]
            getattr(kernels, kernel)(weights, codes, work, *slices)

        affordable = max(1, n_queries * n_scored * n_bytes // MIN_THREAD_WORK)
        threads = min(count_threads(self.n_jobs), affordable)
        # Dense queries in two precisions, and weights on the way to float32.
        query_bytes = 24 * queries.shape[1] + 96 * n_bytes
        n_chunks = max(threads, n_queries * query_bytes // CHUNK_BYTES)
        chunks = even_chunks(n_queries, min(n_queries, n_chunks))
        map_in_threads(call, chunks, threads)


def smallest(scores, positions, k):
    """Return the `k` smallest (score, position) of each row, in this order."""
    order = np.lexsort((positions, scores))[:, :k]
    return tuple(np.take_along_axis(a, order, axis=1) for a in (scores, positions))


def _to_float32(values):
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(
            "Scores are beyond float32; multiply codebook, offset and queries by a "
            "small constant, which changes no order."
        )
    return values
