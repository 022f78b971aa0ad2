"""`JaccardNeighbors`: exact search by Jaccard distance, 1 minus Tanimoto similarity."""

from dataclasses import field

from skhash.neighbors._hamming import CodesMixin
from skhash.neighbors._index import BaseIndex, score_search
from skhash.neighbors._params import check_radius
from skhash.neighbors.store.planes import Planes
from skhash.utils.lazy import LateModule
from skhash.utils.parameters import AnyInt, Count, NotNegative, with_parameters

_search = LateModule("skhash.neighbors.search.planes")


@with_parameters(kw_only=True)
class JaccardNeighbors(CodesMixin, BaseIndex):
    """Exact nearest-neighbour search of binary codes by Jaccard distance.

    The Jaccard distance of two codes is ``1 - |a & b| / |a | b|``, which is 1 minus the
    Tanimoto similarity of chemical fingerprints. Two codes without set bits have
    distance 0. Answers are ordered by (distance, position): among equally near codes,
    the one added first comes first.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours that `kneighbors` and `transform` return by default.
    radius : float, default=0.3
        Default distance for `radius_neighbors`, inclusive: 1 minus the lowest
        similarity. It is compared with the returned distance, which is the float64
        nearest to the exact one, so a radius of 0.3 finds codes at a distance of 3/10.
    packed : bool, default=False
        Format of the codes. False is bits 0/1, one per column. True is packed bytes
        (``uint8``, eight bits per column), as returned by `pack_bits`. The format is
        never guessed.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        A copy of the codes, packed, by position.
    n_samples_fit_ : int
        Number of positions in the index: one per code, including codes removed since
        the last `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False at the positions of removed codes, True elsewhere.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        Id of the code at each position. Defined only if ids were given.
    y_ : ndarray of shape (n_samples_fit_,) or (n_samples_fit_, n_labels)
        Labels of the code at each position. Defined only if labels were given.
    nbytes_ : int
        Bytes that the index holds: codes with their columns, and structures built for
        searches. Memory-mapped files are included.
    n_features_in_ : int
        Number of columns of the codes: bits, or bytes with ``packed=True``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if the codes had column names that are all
        strings.

    See Also
    --------
    HammingNeighbors : Exact search by the number of bits that differ.
    sklearn.neighbors.NearestNeighbors : The same distance with ``metric="jaccard"``.

    Notes
    -----
    Codes are sorted by their number of set bits and stored bit by bit: one cache line
    holds one bit of 512 codes. To count the set bits that a query shares with 512
    codes, a search adds up one line for each set bit of the query, so its time grows
    with the number of set bits, not with the code length. Codes whose number of set
    bits differs too much are skipped (Swamidass and Baldi, 2007). Memory is that of the
    codes, 6 bytes per code (10 with at least 2^31 codes), and one bit per code. After
    codes are added, there may be room for half as many more.

    References
    ----------
    S. J. Swamidass and P. Baldi, "Bounds and algorithms for fast exact searches of
    chemical fingerprints in linear and sublinear time", J. Chem. Inf. Model. 47, 2007.

    Examples
    --------
    >>> from skhash.neighbors import JaccardNeighbors
    >>> codes = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]]
    >>> index = JaccardNeighbors(n_neighbors=2).fit(codes)
    >>> index.kneighbors([[1, 1, 0, 1]])
    (array([[0.33333333, 0.5       ]]), array([[0, 1]]))
    """

    n_neighbors: Count = field(default=5, kw_only=False)
    radius: NotNegative = 0.3
    packed: bool = False
    n_jobs: None | AnyInt = None

    _has_hamming_distances = False

    def score(self, X, y=None) -> float:
        """Return the mean average precision of ranking the fitted codes, given labels.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries, in the format of `fit`.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Labels of the queries. A fitted code is relevant if it shares a label with
            the query.

        Returns
        -------
        score : float
            Mean average precision, with ties in the order of their positions.

        Raises
        ------
        ValueError
            If the index was fitted without labels, or `y` is None.
        """
        return score_search(self, self, X, y)

    def _arrange(self, packed):
        return Planes.of(packed)

    def _check_radius(self, radius):
        check_radius(radius, least=0)
        return float(radius)

    def _search_codes(self, what, store, selected, queries, reach):
        return _search.find(what, store, selected, queries, reach, self.n_jobs)
