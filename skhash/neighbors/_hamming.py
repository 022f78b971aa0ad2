"""`HammingNeighbors`: exact search among binary codes as a scikit-learn estimator."""

from numbers import Integral

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash.codes import check_packed, check_unmasked, pack_bits
from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._params import check_params
from skhash.neighbors._rerank import RerankMixin
from skhash.neighbors.search.asymmetric import METRICS
from skhash.neighbors.store.ids import check_same_kind, read_ids
from skhash.neighbors.store.live import LiveMixin
from skhash.neighbors.store.rows import all_but_self, check_column_fits, read_labels
from skhash.neighbors.store.select import select
from skhash.neighbors.store.store import Store
from skhash.utils._sklearn import Interval, StrOptions, fit_context
from skhash.utils.threads import late_import
from skhash.utils.torch import inference_device, resolve_device


class HammingNeighbors(
    LiveMixin,
    GraphMixin,
    RerankMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
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
        "brute" compares each query with all codes. "multi_index" looks codes up by
        parts of their bits (Norouzi et al., 2012) where that is faster: for small radii
        and near neighbours. "pruned" compares, for `kneighbors`, only codes that the
        triangle inequality does not exclude: it keeps them in clusters. "auto" does
        either where that is faster, once it would have saved the time that its tables
        or clusters take to make, and searches equal codes once. All are exact, with the
        same answers.
    packed : bool, default=False
        Codes are bits 0/1, a column each, or with True packed bytes (``uint8``, eight
        bits a column, as `transform_packed` and `pack_bits` give). It is never guessed.
    rerank : {"asymmetric", "vectors"}, default=None
        What `kneighbors` orders its candidates by, instead of the Hamming distance: the
        real vectors of queries against what the codes decode to (see
        `asymmetric_scores`), or against the real vectors of the codes.
    n_candidates : int, default=100
        With `rerank`, how many codes nearest by Hamming distance are candidates; None
        takes all codes.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        With `rerank`, the metric of the real vectors. `fit` takes it in.
    n_jobs : int, default=None
        Threads. None takes all available cores, or 1 inside a joblib worker, and
        follows ``joblib.parallel_config(n_jobs=...)``; -1 takes all.
    device : str, default="cpu"
        "cpu" searches without torch. "cuda", "cuda:1", "mps" search there with torch,
        and on the CPU where there is no such device any more. "auto" takes an
        accelerator if torch is already imported and finds one.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        The codes, packed, by position. With ``packed=True`` it may be the array that
        was passed to `fit`, uncopied: do not change it.
    n_samples_fit_ : int
        The number of positions: of codes, those included that were removed since the
        last `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False for a code that was removed.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        The ids; only if they were given.
    algorithm_ : str
        The algorithm at the time of `fit`.
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
    Time is that of comparing all pairs at most; memory is that of the codes, the
    answer, and tens of megabytes a thread at most. The tables of "multi_index" take up
    to 8 bytes a code and part: a code of 64 bits is cut into 4 parts, from 2^22 codes
    on into 3. "pruned" holds the codes again, and 4 to 6 bytes a code more. Both are
    made anew after a change of the codes, when that is due. The first search in a fresh
    installation compiles the kernels, which takes seconds and is then kept on disk.

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

    _parameter_constraints: dict = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "radius": [Interval(Integral, 0, None, closed="left")],
        "algorithm": [StrOptions({"auto", "brute", "multi_index", "pruned"})],
        "packed": ["boolean"],
        "rerank": [StrOptions({"asymmetric", "vectors"}), None],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "metric": [StrOptions(set(METRICS))],
        "n_jobs": [None, Integral],
        "device": [str],
    }

    def __init__(
        self,
        n_neighbors=5,
        *,
        radius=2,
        algorithm="auto",
        packed=False,
        rerank=None,
        n_candidates=100,
        metric="euclidean",
        n_jobs=None,
        device="cpu",
    ):
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.algorithm = algorithm
        self.packed = packed
        self.rerank = rerank
        self.n_candidates = n_candidates
        self.metric = metric
        self.n_jobs = n_jobs
        self.device = device

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, ids=None, vectors=None, decoder=None):
        """Take in the codes to search, in place of any before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, for `score`.
        ids : array-like of shape (n_samples,), default=None
            Names of the codes: integers or strings, no two alike. `remove` and filters
            take them; without any, they take positions.
        vectors : array-like of shape (n_samples, n_features), default=None
            The real vectors of the codes, for ``rerank="vectors"``. They are kept as
            they are, a memory map on disk: only the rows of candidates are read.
        decoder : estimator or tuple (codebook, offset), default=None
            What the codes decode to, for ``rerank="asymmetric"``: see
            `asymmetric_scores`. It adds a float32 a code, for the cosine two.

        Returns
        -------
        self : HammingNeighbors
            The fitted index.

        Raises
        ------
        ValueError
            If the codes hold something else than 0 and 1, or, packed, are not
            ``uint8``; if `y` or `ids` have another length; if an id occurs twice; if
            there is no such device.
        """
        if self.device not in ("auto", "cpu"):
            resolve_device(self.device)
        y, ids = read_labels(X, y), read_ids(ids, X)
        packed, decoder = self._read_codes(X), self._read_decoder(decoder)
        rerank_columns = self._rerank_columns(decoder, X, packed, vectors)
        store = Store(packed, y=y, ids=ids, **rerank_columns)
        self._check_rerank(store, decoder)
        if ids is not None:
            store.lookup()  # refuses an id that occurs twice
        validate_data(self, X, reset=True, skip_check_array=True)
        self.algorithm_ = self.algorithm
        self._store, self._decoder = store, decoder
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, ids=None, vectors=None, decoder=None):
        """Add codes behind those that are there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            In the format of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, if the codes before have labels, and only then.
        ids : array-like of shape (n_samples,), default=None
            Ids, if the codes before have ids, and only then. The id of a code that was
            removed may be given again.
        vectors : array-like of shape (n_samples, n_features), default=None
            Real vectors, if the codes before have some, and only then. They are copied
            behind those of before, in memory.
        decoder : estimator or tuple (codebook, offset), default=None
            For the first call alone: later codes decode as those before.

        Returns
        -------
        self : HammingNeighbors
            The index with the codes added. If the call fails, the index is as before.
            Many small additions cost no more than a few large ones.

        Raises
        ------
        ValueError
            As `fit`, or if the codes do not fit those before, or an id is taken.
        """
        if not hasattr(self, "_store"):
            return self.fit(X, y, ids=ids, vectors=vectors, decoder=decoder)
        if decoder is not None:
            raise ValueError(
                "decoder is taken in by fit, or by the first partial_fit, for all "
                "codes; leave it out here."
            )
        store = self._fitted_store()
        packed = self._read_more_codes(X, store)
        y, ids = read_labels(X, y), read_ids(ids, X)
        check_column_fits("labels", "y", store["y"], y)
        check_column_fits("ids", "ids", store["ids"], ids)
        if ids is not None:
            check_same_kind(store["ids"], ids)
        rerank_columns = self._rerank_columns(self._decoder, X, packed, vectors)
        vectors = rerank_columns["vectors"]
        check_column_fits("vectors", "vectors", store["vectors"], vectors)
        self._store = store.append(packed, y=y, ids=ids, **rerank_columns)
        return self

    def kneighbors(
        self,
        X=None,
        n_neighbors=None,
        return_distance=True,
        *,
        vectors=None,
        mask=None,
        ids=None,
        return_ids=False,
    ):
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
        vectors : {array-like, sparse matrix} of shape (n_queries, n_features), \
                default=None
            The real vectors of the queries, for `rerank`. Those of the fitted codes are
            known if `fit` was given some.
        mask : array-like of shape (n_samples_fit_,), bool, default=None
            Finds only codes at positions where it is True.
        ids : array-like of shape (n_ids,), default=None
            Finds only codes with these ids, or at these positions where no ids were
            given. Those that are not in the index are passed over.
        return_ids : bool, default=False
            Whether to return ids in place of positions.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), int32
            Bits that differ, ascending. Only if `return_distance`. With `rerank` they
            are floats, as `asymmetric_scores` defines them for each metric: squared
            Euclidean distances, negated inner products, or 1 less the cosine.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours among the fitted codes, ordered by distance,
            then position. With `return_ids`, their ids.

        Raises
        ------
        ValueError
            If there are fewer codes to find, or candidates, than `n_neighbors`; if `X`
            is None and codes were removed since the last `compact`; if something that
            `rerank` needs is missing.

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
        selected = select(store, mask, ids)
        k = self._check_n_neighbors(n_neighbors, X, selected.n, store.n)
        queries = self._read_queries(X, store)
        if self.rerank is None:
            distances, positions = self._find(
                "nearest", store, selected, queries, k + (X is None)
            )
            if X is None:
                kept = all_but_self(positions)
                positions = positions[kept].reshape(len(queries), k)
                distances = distances[kept].reshape(len(queries), k)
        else:
            distances, positions = self._reranked(
                store, selected, queries, k, vectors, own=X is None
            )
        found = store.ids_at(positions) if return_ids else positions
        return (distances, found) if return_distance else found

    def radius_neighbors(
        self,
        X=None,
        radius=None,
        return_distance=True,
        *,
        mask=None,
        ids=None,
        return_ids=False,
    ):
        """Find all codes within a distance of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features_in_), default=None
            Queries in the format of `fit`. None asks for the neighbours of each fitted
            code, itself left out.
        radius : int, default=None
            Inclusive. The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.
        mask, ids, return_ids
            As in `kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of int32 arrays
            Bits that differ, ascending. Only if `return_distance`.
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
        radius = self.radius if radius is None else radius
        if not isinstance(radius, Integral) or radius < 0:
            raise ValueError(
                "radius counts bits and must be an integer of at least 0, got "
                f"{radius!r}."
            )
        selected = select(store, mask, ids)
        queries = self._read_queries(X, store)
        distances, positions = self._find(
            "within", store, selected, queries, int(radius)
        )
        if X is None:
            kept = [found != own for own, found in enumerate(positions)]
            distances = [d[k] for d, k in zip(distances, kept, strict=True)]
            positions = [p[k] for p, k in zip(positions, kept, strict=True)]
        found = map(store.ids_at, positions) if return_ids else positions
        found = _object_array(list(found))
        return (_object_array(distances), found) if return_distance else found

    def _fitted_store(self):
        if not hasattr(self, "_store"):
            check_is_fitted(self)  # takes as long as a small search
        check_params(self)
        return self._store

    def _read_codes(self, X):
        """Return validated `X`, packed."""
        kind = None if self.packed else "numeric"
        codes = check_array(
            check_unmasked(X), dtype=kind, estimator=self, input_name="X"
        )
        return self._pack(codes)

    def _read_more_codes(self, X, store):
        """Return validated `X`, packed, of the width of the codes in `store`."""
        if self._is_plain(X):
            packed = self._pack(X)
        else:
            packed = self._read_codes(X)
            validate_data(self, X, reset=False, skip_check_array=True)
        # Kernels take the width for granted.
        if packed.shape[1] != store.n_bytes:
            raise ValueError(
                f"packed={self.packed} takes these codes for {packed.shape[1]} bytes, "
                f"and those of the index have {store.n_bytes}; set packed back to what "
                "it was in fit, or fit again."
            )
        return packed

    def _pack(self, codes):
        return check_packed(codes) if self.packed else pack_bits(codes)

    def _is_plain(self, X):
        """Return whether scikit-learn would pass `X` on as it is; asking takes long."""
        return (
            type(X) is np.ndarray
            and X.dtype.kind in "biu"
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    def _read_queries(self, X, store):
        if X is not None:
            return self._read_more_codes(X, store)
        if store["live"] is not None:
            raise ValueError(
                f"{store.n - store.n_live} codes were removed, so the neighbours of "
                "every fitted code cannot be asked for; call compact() before, or pass "
                "the codes as X."
            )
        return store.packed

    def _find(self, what, store, selected, queries, reach):
        """Call the search named `what` ("nearest" or "within") on the device."""
        device = inference_device(self.device) if selected.n else "cpu"
        if device == "cpu":
            # numba is imported at the first search: importing skhash stays quick.
            with late_import:
                from skhash.neighbors.search import plan

            return plan.find(
                what, store, selected, queries, reach, self.n_jobs, self.algorithm
            )
        from skhash.neighbors.search import _torch

        return _torch.find(what, store, selected, queries, reach, device)

    def _check_n_neighbors(self, n_neighbors, X, n_found, n):
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(
                f"n_neighbors must be an integer of at least 1, got {k!r}."
            )
        available = n_found - (X is None)
        if k > available:
            themselves = " besides the query itself" if X is None else ""
            raise ValueError(
                f"n_neighbors={k} neighbours were asked for, but there are only "
                f"{available}{themselves} (n_samples_fit = {n}); "
                "ask for fewer, or fit more codes."
            )
        return int(k)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _object_array(arrays):
    result = np.empty(len(arrays), dtype=object)
    result[:] = arrays
    return result
