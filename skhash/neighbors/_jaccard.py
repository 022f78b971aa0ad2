"""`JaccardNeighbors`: exact search by the Jaccard distance, 1 less Tanimoto's index."""

from dataclasses import field

from skhash.neighbors._hamming import CodesMixin
from skhash.neighbors._index import BaseIndex, score_search
from skhash.neighbors._params import check_radius
from skhash.neighbors.store.planes import Planes
from skhash.utils.late import LateModule
from skhash.utils.parameters import AnyInt, Count, NotNegative, with_parameters

_search = LateModule("skhash.neighbors.search.planes")


@with_parameters(kw_only=True)
class JaccardNeighbors(CodesMixin, BaseIndex):
    """Exact nearest neighbours among binary codes, by the Jaccard distance.

    The distance of two codes is the share of their ones that they do not have in
    common, ``1 - |a & b| / |a | b|``: 1 less the Tanimoto similarity of chemical
    fingerprints. Two codes without ones have a distance of 0. Answers are ordered by
    (distance, position): of two codes that are equally near, the one that was added
    first comes first.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that `kneighbors` and `transform` find.
    radius : float, default=0.3
        Distance, inclusive, up to which `radius_neighbors` finds neighbours: 1 less the
        least similarity. It is compared with the float64 next to the distance, which is
        the one that is returned, so that a radius of 0.3 finds codes at 3/10.
    packed : bool, default=False
        Codes are bits 0/1, a column each, or with True packed bytes (``uint8``, eight
        bits a column, as `pack_bits` gives). It is never guessed.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        The codes, packed, by position: a copy.
    n_samples_fit_ : int
        The number of positions: of codes, including those removed since the last
        `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False for a code that was removed.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        The ids; only if they were given.
    y_ : ndarray of shape (n_samples_fit_,) or (n_samples_fit_, n_labels)
        The labels; only if they were given.
    n_features_in_ : int
        The number of columns of codes: bits, or bytes with ``packed=True``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns; only if the codes had names that are all strings.

    See Also
    --------
    HammingNeighbors : Counts the bits that differ.
    sklearn.neighbors.NearestNeighbors : The same distance with ``metric="jaccard"``.

    Notes
    -----
    Codes are kept bit by bit: a bit of 512 codes in a line of memory, in the order of
    their ones. The ones that a query has in common with 512 codes are the sum of as
    many lines as it has ones, so that the time of a search grows with the ones of the
    query, not with its bits. Where the numbers of ones differ too much, codes are
    passed over (Swamidass and Baldi, 2007). Memory holds the codes, 6 bytes a code
    more (10 from 2^31 codes on), and one bit a code; codes that were added may leave
    room for half as many.

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

    def score(self, X, y) -> float:
        """Return the mean average precision of the ranking of the fitted codes.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_)
            Queries in the format of `fit`.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Their labels. A fitted code that shares one is relevant.

        Returns
        -------
        score : float
            With equally near codes in the order of their positions.

        Raises
        ------
        ValueError
            If the index was fitted without labels.
        """
        return score_search(self, self, X, y)

    def _arrange(self, packed):
        return Planes.of(packed)

    def _check_radius(self, radius):
        check_radius(radius, least=0)
        return float(radius)

    def _search_codes(self, what, store, selected, queries, reach):
        return _search.find(what, store, selected, queries, reach, self.n_jobs)
