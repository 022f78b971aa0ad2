"""Asymmetric scores: queries stay real-valued, and codes are decoded."""

import math
from numbers import Integral

import numpy as np

from skhash.codes import check_packed, pack_bits, packed_width
from skhash.neighbors.search.base import by_query
from skhash.neighbors.search.chunks import read_only
from skhash.neighbors.store.blocks import Blocks
from skhash.neighbors.store.decoder import METRICS, read_decoder
from skhash.numerics._nearest import smallest
from skhash.utils._sklearn import StrOptions, validate_params
from skhash.utils.arrays import are_zero
from skhash.utils.chunks import CHUNK_BYTES, dense_rows, row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.threads import map_chunks, threads_for

_kernels = LateModule("skhash.neighbors.kernels.asymmetric")
_table_scan = LateModule("skhash.neighbors.search.table_scan")

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
    }
)
def asymmetric_scores(
    X_query, codes, decoder, *, metric="euclidean", packed=False, n_jobs=None
) -> np.ndarray:
    r"""Score codes for uncompressed queries, for all pairs; smaller is nearer.

    Queries are not encoded. A code h decodes to the vector :math:`\hat x = o + \sum_k
    h_k b_k`, with the decoder's offset o and codebook b. The score of h for a query q
    is, by metric:

    - "euclidean": :math:`|q - \hat x|`, the distance,
    - "inner_product": :math:`-q^T \hat x`,
    - "cosine": :math:`1 - q^T \hat x / (|q| |\hat x|)`, which is 1 where either vector
      is zero.

    If the decoder is for vectors of unit length, because it was fitted to such vectors
    or is an encoder with ``normalize=True``, queries and decoded vectors are first
    scaled to unit length. All three metrics then give the order of the cosine.

    Parameters
    ----------
    X_query : {array-like, sparse matrix} of shape (n_queries, n_features)
        Queries, as vectors in the space of the codebook. Apart from scaling them to
        unit length as described above, nothing is done to them.
    codes : array-like of shape (n_codes, n_bits) or (n_codes, n_bytes)
        Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
    decoder : estimator or tuple (codebook, offset)
        Decoder of the codes.

        - A fitted `skhash.AdditiveQuantizer`, `skhash.quantization.LinearDecoder`, or
          encoder with ``codebook_`` and ``offset_``.
        - Arrays of shape (n_bits, n_features) and (n_features,). With these, nothing is
          scaled.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        How queries and decoded vectors are compared.
    packed : bool, default=False
        Whether `codes` are packed bytes.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.

    Returns
    -------
    scores : ndarray of shape (n_queries, n_codes), float64
        Scores, computed in float32. They are never below 0 for "euclidean" and
        "cosine".

    Raises
    ------
    ValueError
        If codes or queries do not fit the decoder, or hold invalid values.

    See Also
    --------
    AsymmetricNeighbors : Search with these scores.
    skhash.SGHEncoder : An encoder with such a decoder.
    skhash.quantization.LinearDecoder : A decoder for the codes of any encoder.

    Notes
    -----
    All three metrics combine a sum over the set bits with a number that belongs to the
    code. For "euclidean", this number is :math:`|\hat x - o|^2`, because

    .. math:: |q - \hat x|^2 = |q - o|^2 - 2 \sum_k h_k (q - o)^T b_k + |\hat x - o|^2

    and for angles it is :math:`|\hat x|`. The number is rounded to as many bits of
    mantissa as the fit of a quantizer or `skhash.quantization.LinearDecoder` found
    necessary, and kept in float32 for other decoders. An index rounds it in the same
    way and stores it in one to four bytes.

    Angles are used for unit vectors for the following reason. Let :math:`x = \hat x +
    r` with :math:`|x| = 1`, where least squares makes r and :math:`\hat x` nearly
    orthogonal: the shorter :math:`\hat x`, the less the code says about x. In d
    dimensions, for a random query q of unit length, the product :math:`q^T \hat x` has

    - if q is unrelated to x, the mean 0 and the standard deviation :math:`|\hat x| /
      \sqrt d`;
    - if :math:`q^T x = \rho`, the mean :math:`\rho |\hat x|^2` and the standard
      deviation :math:`|\hat x| \sqrt{(1 - |\hat x|^2) (1 - \rho^2) / (d - 1)}`.

    Ranked by this product, codes that say little about their vectors hide neighbours,
    because their mean is smallest. Divided by :math:`|\hat x|^2`, as in RaBitQ, the
    mean is :math:`\rho` for all codes, but the products of unrelated vectors spread
    most for codes that say little, which then crowd out neighbours. Divided by
    :math:`|\hat x|`, the products of unrelated vectors have the same deviation
    :math:`1 / \sqrt d` for all codes, so that no code crowds out others, and the mean
    :math:`\rho |\hat x|` depends less on the code. To first order around the mean, this
    orders codes by the probability that :math:`q^T x` exceeds :math:`\rho`, as does
    :math:`|q - \hat x|^2 + (1 - \rho) |r|^2`. For vectors of any length,
    `AsymmetricNeighbors` adds a quarter of the error :math:`|r|^2` to the squared
    distance, if the errors are given.

    The sum is looked up byte by byte, in tables that are built once per query. Scoring
    for inner products, without decoding, is section D of [1]_.

    References
    ----------
    .. [1] B. Dai, R. Guo, S. Kumar, N. He and L. Song, "Stochastic generative hashing",
       ICML 2017, supplementary material.

    Examples
    --------
    >>> from skhash.neighbors import asymmetric_scores
    >>> codebook, offset = [[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0]
    >>> asymmetric_scores([[3.0, 2.0]], [[0, 0], [1, 0], [1, 1]], (codebook, offset))
    array([[2.23606798, 1.        , 0.        ]])
    """
    decoder = read_decoder(decoder, metric)
    packed_codes = check_packed(codes) if packed else pack_bits(codes)
    decoder.check_codes(packed_codes, np.shape(codes)[1], packed)
    queries = decoder.read_queries(X_query, "X_query")
    decoder, levels = decoder.with_levels(decoder.keys(packed_codes))
    scorer = CodeScorer(decoder, Blocks.of(packed_codes, levels), n_jobs)
    return to_distances(scorer.score_all(queries), metric)


def to_distances(scores, metric):
    """Return the distances of scores, arrays or lists of arrays, in float64.

    Searches compare squared distances. No two of them in float32 have the same root in
    float64, so the order is the same.
    """
    if isinstance(scores, list):
        return [to_distances(part, metric) for part in scores]
    scores = scores.astype(np.float64)
    return np.sqrt(scores, out=scores) if metric == "euclidean" else scores


def largest_score(radius, metric):
    """Return the largest score in float32 whose distance is at most `radius`."""
    limits, radius = np.finfo(np.float32), float(radius)
    if metric == "euclidean" and radius < 0:
        return np.float32(-1)
    most, distance = radius, float
    if metric == "euclidean":
        most, distance = radius * radius, math.sqrt
    score = np.float32(np.clip(most, float(limits.min), float(limits.max)))
    while score > limits.min and distance(score) > radius:
        score = np.nextafter(score, limits.min)
    while score < limits.max and distance(np.nextafter(score, limits.max)) <= radius:
        score = np.nextafter(score, limits.max)
    return score


class CodeScorer:
    """Scores of decoded codes: of all, or the smallest.

    Queries must have passed `read_queries`.

    Parameters
    ----------
    decoder : Decoder
    codes : Blocks
        With levels as from `Decoder.with_levels`.
    n_jobs : int or None
    key : CodesKey, default=None
        Caches what is built from the codes for the next search.
    share : float, default=1.0
        How many of the codes a search of the nearest looks at, where it has lists.
    """

    def __init__(self, decoder, codes, n_jobs, key=None, share=1.0):
        self.decoder, self.codes = decoder, codes
        self.n_bytes = packed_width(decoder.n_bits)
        self.n_jobs, self.key, self.share = n_jobs, key, share
        self.read_queries = decoder.read_queries

    def __len__(self):
        return len(self.codes)

    def score_all(self, queries):
        """Return scores (n_queries, n_codes)."""
        scores = np.empty((queries.shape[0], len(self)), dtype=np.float32)
        self._run(_kernels.score_all, queries, scores)
        return self._corrected(scores, queries)

    def among(self, positions):
        """Return the scorer of the codes at these positions alone."""
        return CodeScorer(self.decoder, self.codes[positions], self.n_jobs)

    def nearest(self, queries, k, live=None):
        """Return the k smallest (score, position) of each query, in this order.

        live : ndarray of bool, or None, which is all
            Which codes may be found.
        """
        scan = self._scan()
        if scan is not None:
            scores, positions = scan.nearest(self, queries, k, live)
            return self._corrected(scores, queries), positions
        if live is not None:
            places = live.nonzero()[0]
            scores, indices = self.among(places).nearest(queries, k)
            return scores, places[indices]
        scores = np.full((queries.shape[0], k), np.inf, dtype=np.float32)
        positions = np.zeros((queries.shape[0], k), dtype=np.int64)
        self._run(_kernels.nearest, queries, scores, positions)
        scores, positions = smallest(scores, positions, k)
        return self._corrected(scores, queries), positions

    def within(self, queries, radius, live=None):
        """Return scores and positions within a radius by query, and counts."""
        scan = self._scan()
        # The scan has one radius for all queries.
        if scan is None or (self.decoder.zero_excess and are_zero(queries).any()):
            return self._within(queries, radius, live)
        return scan.within(self, queries, radius, live)

    def _within(self, queries, radius, live):
        """Return what `within` does, by the scores of all."""
        places = np.arange(len(self)) if live is None else live.nonzero()[0]
        scorer, parts = self if live is None else self.among(places), []
        for rows in row_chunks(queries.shape[0], 48 * len(places)):
            scores = scorer.score_all(queries[rows])
            parts.append(within(scores, np.broadcast_to(places, scores.shape), radius))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def _corrected(self, scores, queries):
        """Return scores, those of queries of zeros without what is too large."""
        excess = self.decoder.zero_excess
        if excess and (is_zero := are_zero(queries)).any():
            scores[is_zero] -= excess
        return scores

    def wants_lists(self):
        """Return whether the codes should stand in the order of lists, and do not."""
        if self.share == 1 or self.codes.order or self._scan() is None:
            return False
        return _table_scan.has_lists(self)

    def order_of_lists(self):
        """Return the positions of the codes in the order of lists."""
        return _table_scan.order_of_lists(self)

    def _scan(self):
        """Return the module that searches by blocks, or None without blocks."""
        has_blocks = self.key is not None and len(self) > 0
        return _table_scan if has_blocks and _table_scan.is_fast() else None

    def _run(self, kernel, queries, *arrays):
        """Call a kernel on slices of the queries and of `arrays`, in threads."""
        n_queries, n_bytes, decoder = queries.shape[0], self.n_bytes, self.decoder
        codes = read_only(self.codes.in_order().whole), len(self), decoder.law()

        def call(rows):
            tables = decoder.tables(dense_rows(queries[rows]), n_bytes)
            work = (
                np.zeros((n_bytes, 256, _kernels.LANES), dtype=np.float32),
                np.empty((2, _kernels.LANES), dtype=np.float32),
            )
            slices = [array[rows] for array in arrays]
            kernel(tables, codes, work, *slices)

        work = n_queries * len(self) * n_bytes
        threads = threads_for(work, MIN_THREAD_WORK, self.n_jobs)
        # Dense queries in two precisions, and tables on the way to float32.
        query_bytes = 24 * queries.shape[1] + 3072 * n_bytes
        map_chunks(call, n_queries, CHUNK_BYTES // query_bytes, threads)


def within(scores, positions, radius):
    """Return scores and positions within a radius by query, and counts."""
    near = np.nonzero(scores <= radius)
    return by_query(near[0], positions[near], scores[near], len(scores))
