"""`HammingNeighbors`: exact search among binary codes as a scikit-learn estimator."""

from dataclasses import field
from typing import Any, Literal, Self

from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._index import BaseIndex, score_codes
from skhash.neighbors._params import check_count
from skhash.neighbors.search.base import Question
from skhash.neighbors.store.rows import nearest_within, without_self
from skhash.neighbors.store.select import select
from skhash.utils._sklearn import fit_context
from skhash.utils.lazy import LateModule
from skhash.utils.parameters import AnyInt, Count, CountFrom0, with_parameters
from skhash.utils.torch import check_device, inference_device

_searcher = LateModule("skhash.neighbors.search.choose")
_torch = LateModule("skhash.neighbors.search._torch")


class CodesMixin(GraphMixin):
    """Adds exact searches by codes to an index, ordered by (distance, position).

    It has `_check_radius`, and `_search_codes` for packed queries.
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, ids=None) -> Self:
        """Index codes, replacing any earlier ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the codes, for `score`.
        ids : array-like of shape (n_samples,), default=None
            Unique ids of the codes, integers or strings. `remove` and filters refer to
            codes by id, or by position if no ids are given.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If the codes hold values other than 0 and 1 or, with ``packed=True``, are
            not ``uint8``; if `y` or `ids` have another length; or if an id occurs
            twice.
        """
        return self._take_in(X, y, ids)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, ids=None) -> Self:
        """Add codes to the index.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Codes to add, in the format of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the codes, of the same type; required if and only if `fit` was
            given labels.
        ids : array-like of shape (n_samples,), default=None
            Ids of the codes; required if and only if `fit` was given ids. Ids of
            removed codes may be used again.

        Returns
        -------
        self : object
            The index with the codes added. If the call fails, the index is unchanged.
            Many small additions cost no more than a few large ones.

        Raises
        ------
        ValueError
            As in `fit`, or if the new codes do not match those in the index, or if an
            id is already in use.
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
        exclude_self=False,
        mask=None,
        ids=None,
        exclude=None,
        return_ids=False,
    ) -> Any:
        """Find the codes nearest to each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            Queries, in the format of `fit`. None finds the neighbours of each fitted
            code, excluding the code itself.
        n_neighbors : int, default=None
            Number of neighbours per query; by default the parameter `n_neighbors`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        radius : int or float, default=None
            Return only codes within this distance, inclusive. There may then be fewer
            than `n_neighbors`, and the answer has the form of `radius_neighbors`.
        exclude_self : bool, default=False
            Set True if row i of `X` is the code at position i, for all codes, as for
            `X` None. Each code is then left out of the answer to itself.
        mask : array-like of shape (n_samples_fit_,), bool, default=None
            Search only codes at positions where the mask is True.
        ids : array-like of shape (n_ids,), default=None
            Search only codes with these ids, or at these positions if the index has no
            ids. Ids that are not in the index are ignored.
        exclude : array-like of shape (n_ids,), default=None
            Leave out codes with these ids, or at these positions if the index has no
            ids. Ids that are not in the index are ignored.
        return_ids : bool, default=False
            Whether to return ids instead of positions.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), int32 or float64
            Number of bits that differ, or the Jaccard distance, in ascending order.
            Only if `return_distance` is True.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours, ordered by (distance, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If fewer than `n_neighbors` codes can be found and no `radius` is given, or
            if `X` is None and codes were removed since the last `compact`.

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
        X, exclude_self = _asked(store, X, exclude_self)
        k = self._check_n_neighbors(n_neighbors, exclude_self, selected, store, radius)
        neighbors = self._find("nearest", store, selected, X, k + exclude_self, radius)
        return self._answer(store, neighbors, return_distance, return_ids)

    def radius_neighbors(
        self,
        X=None,
        radius=None,
        return_distance=True,
        *,
        exclude_self=False,
        mask=None,
        ids=None,
        exclude=None,
        return_ids=False,
    ) -> Any:
        """Find all codes within a distance of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            Queries, in the format of `fit`. None finds the neighbours of each fitted
            code, excluding the code itself.
        radius : int or float, default=None
            Largest distance, inclusive; by default the parameter `radius`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        exclude_self, mask, ids, exclude, return_ids
            As in `kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of int32 or float64 arrays
            Number of bits that differ, or the Jaccard distance, in ascending order.
            Only if `return_distance` is True.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions of the neighbours, ordered by (distance, position); an empty array
            if there are none. With `return_ids`, their ids.

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
        X, _ = _asked(store, X, exclude_self)
        neighbors = self._find("within", store, selected, X, radius)
        return self._answer(store, neighbors, return_distance, return_ids)

    def _find(self, what, store, selected, X, reach, radius=None):
        if X is None:
            store.check_all_live()
            queries = store.packed
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


def _asked(store, X, exclude_self):
    """Return queries, None for all codes of the store, and whether these are meant."""
    if exclude_self and X is not None:
        store.check_all_live(X)
        X = None
    return X, X is None


@with_parameters(kw_only=True)
class HammingNeighbors(CodesMixin, BaseIndex):
    """Exact nearest-neighbour search of binary codes by Hamming distance.

    Answers are ordered by (distance, position): among equally near codes, the one added
    first comes first. This holds for every algorithm, device and number of threads, so
    the same query always has the same answer.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours that `kneighbors` and `transform` return by default.
    radius : int, default=2
        Default distance for `radius_neighbors`, inclusive.
    algorithm : {"auto", "brute", "multi_index", "pruned"}, default="auto"
        How to search. Every option is exact and gives the same answers; they differ in
        speed and memory.

        - "auto" starts with brute force and switches to tables or clusters once the
          queries so far would have repaid the time to build them. With at least 32,768
          codes it considers tables, for radii of a few bits and for very near
          neighbours; with at least 524,288 codes also clusters, for wider radii and for
          up to 100 neighbours. Call `prepare` to build them in advance.
        - "brute" compares each query with all codes.
        - "multi_index" looks codes up in tables, by parts of their bits (Norouzi et
          al., 2012). This is fast for small radii and near neighbours; where it would
          be slower than brute force, queries are compared with all codes.
        - "pruned" keeps codes in clusters and skips those that the triangle inequality
          excludes.
    packed : bool, default=False
        Format of the codes. False is bits 0/1, one per column. True is packed bytes
        (``uint8``, eight bits per column), as returned by `transform_packed` and
        `pack_bits`. The format is never guessed.
    n_jobs : int, default=None
        Number of threads. None uses all available cores, or 1 inside a joblib worker,
        and follows ``joblib.parallel_config(n_jobs=...)``. -1 uses all cores.
    device : str, default="cpu"
        Where to search.

        - "cpu" searches without torch.
        - "cuda", "cuda:1" and "mps" search on that device with torch, or on the CPU if
          the device is no longer available.
        - "auto" uses an accelerator if torch is already imported and finds one.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        The packed codes, by position. With ``packed=True`` this may be the array that
        was passed to `fit`, not a copy: do not change it.
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
    sklearn.neighbors.NearestNeighbors : Exact search on vectors, with many metrics.
    sklearn.neighbors.KNeighborsTransformer : The same `transform`, for real vectors.

    Notes
    -----
    With "auto", a search is meant to take about as long as comparing all pairs at most.
    With "pruned" it may take longer, where clusters can skip little, as among random
    codes. Its memory is the codes, the answer, and at most tens of megabytes per
    thread. The tables of "multi_index" need up to 8 bytes per code and part: a code of
    64 bits has 4 parts, or 3 if there are at least 2^22 codes. "pruned" holds a second
    copy of the codes and 4 to 6 more bytes per code. When the codes change, tables and
    clusters are rebuilt when they are next needed. "auto" builds neither if it would
    take more than half of the free memory. Clusters are saved with the index, at the
    same size. The first search after installation compiles the kernels, which takes
    some seconds, and caches them on disk.

    Searches order ties by position, so that answers are reproducible. The metrics of
    `skhash.metrics` take the expectation over the order of ties instead.

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
        """Build tables or clusters now, if the expected queries repay their cost.

        Otherwise they are built only after enough queries have been asked. The estimate
        assumes that queries are about as near to the codes as the codes are to each
        other. Answers do not change. Call it again after adding or removing codes.

        Parameters
        ----------
        expected_queries : int
            Number of queries that you expect.
        n_neighbors : int, default=None
            Number of neighbours that `kneighbors` will be asked for; by default the
            parameter `n_neighbors`.
        radius : int, default=None
            Radius that `radius_neighbors` will be asked for, instead of neighbours.

        Returns
        -------
        self : HammingNeighbors
            The index. Nothing is built for few codes, or on a device other than the
            CPU.

        Raises
        ------
        ValueError
            If a number is not an integer of at least 0.

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
            what, reach = "within", min(int(radius), 8 * store.n_bytes)
        is_on_cpu = inference_device(self.device) == "cpu"
        if expected_queries and store.n_live and is_on_cpu:
            question = Question(what, reach, self.n_jobs, store["live"])
            searcher = _searcher.searcher_of(store)
            searcher.prepare(question, expected_queries, self.algorithm)
        return self

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
            Mean average precision, in expectation over the order of ties; see
            `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the index was fitted without labels, or `y` is None.
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
        device = inference_device(self.device) if selected.n else "cpu"
        if device == "cpu":
            return _searcher.find(
                what, store, selected, queries, reach, self.n_jobs, self.algorithm
            )
        return _torch.find(what, store, selected, queries, reach, device)
