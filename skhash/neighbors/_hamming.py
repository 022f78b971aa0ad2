"""`HammingNeighbors`: exact search among binary codes as a scikit-learn estimator."""

from dataclasses import field
from typing import Any, Literal, Self

from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._index import BaseIndex, score_codes
from skhash.neighbors._params import check_count
from skhash.neighbors.store.rows import nearest_within, without_self
from skhash.neighbors.store.select import select
from skhash.utils._sklearn import fit_context
from skhash.utils.late import LateModule
from skhash.utils.parameters import AnyInt, Count, CountFrom0, with_parameters
from skhash.utils.torch import check_device, inference_device

_searcher = LateModule("skhash.neighbors.search.searcher")


class CodesMixin(GraphMixin):
    """Adds exact searches by codes to an index, ordered by (distance, position).

    It has `_check_radius`, and `_search_codes` for packed queries.
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, ids=None) -> Self:
        """Set the codes to search, replacing any before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, for `score`.
        ids : array-like of shape (n_samples,), default=None
            Names of the codes: integers or strings, no two alike. `remove` and filters
            use them; without any, they use positions.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If the codes hold something else than 0 and 1, or, packed, are not
            ``uint8``; if `y` or `ids` have another length; if an id occurs twice.
        """
        return self._take_in(X, y, ids)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, ids=None) -> Self:
        """Append codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            In the format of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the same type, if the codes before have labels, and only then.
        ids : array-like of shape (n_samples,), default=None
            Ids, if the codes before have ids, and only then. The id of a code that was
            removed may be given again.

        Returns
        -------
        self : object
            The index with the codes added. If the call fails, the index is as before.
            Many small additions cost no more than a few large ones.

        Raises
        ------
        ValueError
            As `fit`, or if the codes do not fit those before, or an id is in use.
        """
        if not hasattr(self, "_store"):
            return self.fit(X, y, ids=ids)
        return self._add(X, y, ids)

    def kneighbors(
        self,
        X=None,
        n_neighbors=None,
        return_distance=True,
        *,
        radius=None,
        mask=None,
        ids=None,
        exclude=None,
        return_ids=False,
    ) -> Any:
        """Find the codes nearest to each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            Queries in the format of `fit`. None asks for the neighbours of each fitted
            code, itself left out.
        n_neighbors : int, default=None
            The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.
        radius : int or float, default=None
            Finds only codes within this distance, inclusive, so that there may be fewer
            than `n_neighbors`. The answer has the form of `radius_neighbors`.
        mask : array-like of shape (n_samples_fit_,), bool, default=None
            Finds only codes at positions where it is True.
        ids : array-like of shape (n_ids,), default=None
            Finds only codes with these ids, or at these positions where no ids were
            given. Those that are not in the index are passed over.
        exclude : array-like of shape (n_ids,), default=None
            Finds no codes with these ids, or at these positions. Those that are not in
            the index are passed over.
        return_ids : bool, default=False
            Whether to return ids in place of positions.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), int32 or float64
            Bits that differ, or the Jaccard distance, ascending. Only if
            `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours among the fitted codes, ordered by distance,
            then position. With `return_ids`, their ids.

        Raises
        ------
        ValueError
            If there are fewer codes to find than `n_neighbors` and no `radius` is
            given, or `X` is None and codes were removed since the last `compact`.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors(n_neighbors=1).fit([[0, 0], [0, 1], [1, 1]])
        >>> index.kneighbors(return_distance=False)
        array([[1],
               [0],
               [1]])
        >>> index.kneighbors([[0, 0]], mask=[False, True, True])
        (array([[1]], dtype=int32), array([[1]]))
        """
        store = self._fitted_store()
        selected = select(store, mask, ids, exclude)
        exclude_self = X is None
        k = self._check_n_neighbors(n_neighbors, exclude_self, selected, store, radius)
        neighbors = self._find("nearest", store, selected, X, k + exclude_self, radius)
        return self._answer(store, neighbors, return_distance, return_ids)

    def radius_neighbors(
        self,
        X=None,
        radius=None,
        return_distance=True,
        *,
        mask=None,
        ids=None,
        exclude=None,
        return_ids=False,
    ) -> Any:
        """Find all codes within a distance of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            Queries in the format of `fit`. None asks for the neighbours of each fitted
            code, itself left out.
        radius : int or float, default=None
            In the unit of the distances, inclusive. The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.
        mask, ids, exclude, return_ids
            As in `kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of int32 or float64 arrays
            Bits that differ, or the Jaccard distance, ascending. Only if
            `return_distance`.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions of the neighbours among the fitted codes, ordered by distance,
            then position. An empty ball has an empty array. With `return_ids`, their
            ids.

        Examples
        --------
        >>> from skhash.neighbors import HammingNeighbors
        >>> index = HammingNeighbors(radius=1).fit([[0, 0], [0, 1], [1, 1]])
        >>> distances, indices = index.radius_neighbors([[0, 0]])
        >>> indices[0]
        array([0, 1])
        """
        store = self._fitted_store()
        radius = self._check_radius(self.radius if radius is None else radius)
        selected = select(store, mask, ids, exclude)
        neighbors = self._find("within", store, selected, X, radius)
        return self._answer(store, neighbors, return_distance, return_ids)

    def _find(self, what, store, selected, X, reach, radius=None):
        if X is None:
            queries = store.own_queries()
        else:
            queries = self._read_more_codes(X, store)
        if not len(queries):  # those of an index without codes
            return [], []
        exclude_self = X is None
        n_found = min(reach, selected.n) if what == "nearest" else reach
        neighbors = self._search_codes(what, store, selected, queries, n_found)
        if radius is not None:
            radius = self._check_radius(radius)
            k, first = reach - exclude_self, 0 if exclude_self else None
            return nearest_within(*neighbors, k, radius, first)
        return without_self(*neighbors) if exclude_self else neighbors


@with_parameters(kw_only=True)
class HammingNeighbors(CodesMixin, BaseIndex):
    """Exact nearest neighbours among binary codes, by Hamming distance.

    Answers are ordered by (distance, position): of two codes that are equally near, the
    one that was added first comes first. That holds for every algorithm, device and
    number of threads, so that the same question always has the same answer.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that `kneighbors` and `transform` find.
    radius : int, default=2
        Distance, inclusive, up to which `radius_neighbors` finds neighbours.
    algorithm : {"auto", "brute", "multi_index", "pruned"}, default="auto"
        All are exact, with the same answers. "brute" compares each query with all
        codes. "multi_index" looks codes up by parts of their bits (Norouzi et al.,
        2012) if that is faster: for small radii and near neighbours. "pruned" keeps
        codes in clusters, and compares only codes that the triangle inequality does not
        exclude. "auto" begins with brute force. It makes tables for radii of few bits
        and for very near neighbours, from 32,768 codes on, and clusters for wider radii
        and for up to 100 neighbours, from 524,288 codes on. It makes each if it is
        expected to be faster, as soon as the queries so far would have repaid the time
        to build it. Call `prepare` if you know how many queries will follow.
    packed : bool, default=False
        Codes are bits 0/1, a column each, or with True packed bytes (``uint8``, eight
        bits a column, as `transform_packed` and `pack_bits` give). It is never guessed.
    n_jobs : int, default=None
        Threads. None uses all available cores, or 1 inside a joblib worker, and
        follows ``joblib.parallel_config(n_jobs=...)``; -1 uses all.
    device : str, default="cpu"
        "cpu" searches without torch. "cuda", "cuda:1", "mps" search on that device with
        torch, or on the CPU if it is not available any more. "auto" uses an accelerator
        if torch is already imported and finds one.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        The codes, packed, by position. With ``packed=True`` it may be the array that
        was passed to `fit`, uncopied: do not change it.
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
    sklearn.neighbors.NearestNeighbors : Other metrics, approximate for none.
    sklearn.neighbors.KNeighborsTransformer : What `transform` does, for real vectors.

    Notes
    -----
    A search takes at most the time of comparing all pairs. Memory holds the codes, the
    answer, and at most tens of megabytes a thread. The tables of "multi_index" need up
    to 8 bytes for each code and part: a code of 64 bits is cut into 4 parts, from 2^22
    codes on into 3. "pruned" holds a second copy of the codes, and 4 to 6 bytes a code
    more. After a change of the codes, both are made again when needed; "auto" makes
    neither if it would need more than half of the free memory. Clusters are saved
    with the index, in the same size. The first search in a fresh installation compiles
    the kernels for some seconds and keeps them on disk.

    The order of equally near codes is fixed so that answers repeat. Metrics in
    `skhash.metrics` take the expectation over it instead.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.neighbors import HammingNeighbors
    >>> codes = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]])
    >>> index = HammingNeighbors(n_neighbors=2).fit(codes)
    >>> distances, positions = index.kneighbors([[0, 0, 1, 1]])
    >>> distances
    array([[1, 2]], dtype=int32)
    >>> positions
    array([[1, 0]])
    """

    n_neighbors: Count = field(default=5, kw_only=False)
    radius: CountFrom0 = 2
    algorithm: Literal["auto", "brute", "multi_index", "pruned"] = "auto"
    packed: bool = False
    n_jobs: None | AnyInt = None
    device: str = "cpu"

    def prepare(self, expected_queries, *, n_neighbors=None, radius=None) -> Self:
        """Build now the tables or clusters that these queries would repay.

        With "auto", they would otherwise be made only after enough queries. This makes
        them at once if the expected queries, taken to be as near to the codes as codes
        are to each other, cost less with them. Answers stay the same. Call it again
        after a change of the codes.

        Parameters
        ----------
        expected_queries : int
            How many queries will be asked.
        n_neighbors : int, default=None
            For how many neighbours `kneighbors` will be asked; the default is the
            parameter.
        radius : int, default=None
            The radius for which `radius_neighbors` will be asked instead.

        Returns
        -------
        self : HammingNeighbors
            The index. With a device other than the CPU, where nothing is made, and for
            few codes it is as it was.

        Raises
        ------
        ValueError
            If a number is no integer of at least 0.

        Examples
        --------
        >>> import numpy as np
        >>> from skhash.neighbors import HammingNeighbors
        >>> codes = np.random.default_rng(0).integers(0, 2, (100, 16))
        >>> index = HammingNeighbors().fit(codes)
        >>> index.prepare(1_000_000, radius=2).radius_neighbors(codes[:1])[1][0][0]
        np.int64(0)
        """
        store = self._fitted_store()
        check_count("expected_queries", expected_queries)
        if radius is None:
            k = self.n_neighbors if n_neighbors is None else n_neighbors
            check_count("n_neighbors", k)
            what, reach = "nearest", min(k, store.n_live)
        else:
            check_count("radius", radius)
            what, reach = "within", int(radius)
        is_on_cpu = inference_device(self.device) == "cpu"
        if expected_queries and store.n_live and is_on_cpu:
            _searcher.prepare(
                what, store, reach, expected_queries, self.n_jobs, self.algorithm
            )
        return self

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
            In expectation over the order of equally near codes: see
            `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the index was fitted without labels.
        """
        queries = self._read_more_codes(X, self._fitted_store())
        return score_codes(self, queries, y)

    def _take_in(self, X, y, ids, **columns):
        check_device(self.device)
        return super()._take_in(X, y, ids, **columns)

    def _check_radius(self, radius):
        check_count("radius", radius)
        return int(radius)

    def _search_codes(self, what, store, selected, queries, reach):
        return self._search(
            what, store, selected, queries, reach, self.algorithm, self.device
        )
