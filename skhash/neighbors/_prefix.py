"""`PrefixNeighbors`: approximate search by the first bits of nested codes."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skhash.codes import packed_to_words, packed_width
from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._index import read_question
from skhash.neighbors._params import check_candidates, check_params
from skhash.utils._sklearn import Interval, fit_context
from skhash.utils.threads import count_threads, map_chunks

# Candidates of as many queries as fill this are measured at a time: it fits a cache.
BLOCK_BYTES = 2**20


class PrefixNeighbors(BaseEstimator):
    """Approximate nearest neighbours among nested codes, by their first bits.

    The `n_candidates` codes nearest by the first `prefix_bits` bits are found, ordered
    by (distance over these bits, position), and then ordered by (distance over all
    bits, position). A near code that is no candidate is missed: the answer is not that
    of `HammingNeighbors`, but where every code is a candidate. It is the same at every
    call, though.

    Use it for many long codes, such as 512 bits, whose first bits are codes too, as
    those of `NeighborHash` are. On short codes it gains nothing.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that `kneighbors` finds.
    prefix_bits : int, default=128
        Length of the prefix. Below 64 bits the search gets hardly faster.
    n_candidates : int, default=500
        Codes to measure by all bits, a query; all codes where there are fewer. More
        miss less and take longer.
    packed : bool, default=False
        Codes are bits 0/1, a column each, or with True packed bytes, as in
        `HammingNeighbors`.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.

    Attributes
    ----------
    index_ : HammingNeighbors
        The whole codes, for exact search.
    prefix_index_ : HammingNeighbors
        Their prefixes, packed.
    n_features_in_ : int
        The number of columns of codes: bits, or bytes with ``packed=True``.

    See Also
    --------
    HammingNeighbors : Exact search.
    skhash.NeighborHash : Codes whose prefixes are codes.

    Examples
    --------
    >>> from skhash.neighbors import PrefixNeighbors
    >>> codes = [[0, 0, 1, 1], [0, 1, 0, 0], [1, 1, 0, 0]]
    >>> index = PrefixNeighbors(1, prefix_bits=2, n_candidates=1).fit(codes)
    >>> index.kneighbors([[0, 0, 0, 0]])
    (array([[2]], dtype=int32), array([[0]]))
    >>> index.set_params(n_candidates=2).kneighbors([[0, 0, 0, 0]])
    (array([[1]], dtype=int32), array([[1]]))
    """

    _parameter_constraints: dict = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "prefix_bits": [Interval(Integral, 1, None, closed="left")],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "packed": ["boolean"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_neighbors=5,
        *,
        prefix_bits=128,
        n_candidates=500,
        packed=False,
        n_jobs=None,
    ):
        self.n_neighbors = n_neighbors
        self.prefix_bits = prefix_bits
        self.n_candidates = n_candidates
        self.packed = packed
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Set the codes to search, replacing any before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : None
            Ignored.

        Returns
        -------
        self : PrefixNeighbors
            The fitted index.

        Raises
        ------
        ValueError
            If the codes hold something else than 0 and 1, or, packed, are not
            ``uint8``; if they are shorter than `prefix_bits`.
        """
        index = HammingNeighbors(packed=self.packed).fit(X)
        n_bits = index.n_features_in_ * (8 if self.packed else 1)
        prefix_bits = int(self.prefix_bits)
        if prefix_bits > n_bits:
            raise ValueError(
                f"prefix_bits={prefix_bits} is more than the {n_bits} bits of the "
                "codes; use fewer, or search such codes with HammingNeighbors."
            )
        self.prefix_index_ = HammingNeighbors(packed=True, n_jobs=self.n_jobs).fit(
            _prefix(index.packed_codes_, prefix_bits)
        )
        self.index_, self.n_features_in_ = index, index.n_features_in_
        self._prefix_bits = prefix_bits
        return self

    def kneighbors(self, X, n_neighbors=None, return_distance=True):
        """Find codes near each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries in the format of `fit`.
        n_neighbors : int, default=None
            The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), int32
            Bits that differ, of all bits, ascending. Only if `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours among the fitted codes, ordered by distance,
            then position.

        Raises
        ------
        ValueError
            If there are fewer codes, or candidates, than `n_neighbors`, or
            `prefix_bits` is not what it was in `fit`.
        """
        check_is_fitted(self)
        check_params(self)
        if self.prefix_bits != self._prefix_bits:
            raise ValueError(
                f"prefix_bits={self.prefix_bits}, but the codes were fitted with "
                f"prefix_bits={self._prefix_bits}; fit again."
            )
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        store, k, queries = read_question(self.index_, X, k)
        check_candidates(k, self.n_candidates)
        candidates = self.prefix_index_.kneighbors(
            _prefix(queries, self._prefix_bits),
            min(int(self.n_candidates), store.n),
            return_distance=False,
        )
        distances, positions = _nearest_candidates(
            store["words"],
            packed_to_words(queries),
            candidates,
            k,
            count_threads(self.n_jobs),
        )
        return (distances, positions) if return_distance else positions


def _prefix(packed, n_bits):
    """Return a copy of the first bits, the last byte padded with 0."""
    prefix = packed[:, : packed_width(n_bits)].copy()
    prefix[:, -1] &= np.uint8(256 - (1 << -n_bits % 8))
    return prefix


def _nearest_candidates(words, queries, candidates, k, threads):
    """Return distances and positions of the `k` nearest candidates of a query.

    Distance and position make one integer, ``distance * n + position``, and no two are
    alike, so that the smallest k in order are the answer.
    """
    n = len(words)
    distances = np.empty((len(queries), k), dtype=np.int32)
    positions = np.empty((len(queries), k), dtype=np.int64)

    def measure(rows):
        keys = np.zeros(candidates[rows].shape, dtype=np.int64)
        for word, query in zip(words.T, queries[rows].T, strict=True):
            keys += np.bitwise_count(word[candidates[rows]] ^ query[:, None])
        keys *= n
        keys += candidates[rows]
        nearest = np.sort(np.partition(keys, k - 1, axis=1)[:, :k], axis=1)
        distances[rows], positions[rows] = np.divmod(nearest, n)

    # Keys, a gathered word and its bit count, for each candidate.
    size = BLOCK_BYTES // (32 * candidates.shape[1])
    map_chunks(measure, len(queries), size, threads)
    return distances, positions
