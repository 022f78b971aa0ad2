"""`AsymmetricNeighbors`: search with uncompressed queries among decoded codes."""

from itertools import chain
from numbers import Integral, Real
from os import PathLike

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._index import BaseIndex
from skhash.neighbors._params import check_candidates
from skhash.neighbors.search.algorithm import as_lists
from skhash.neighbors.search.asymmetric import CodeScorer, within
from skhash.neighbors.search.vectors import VectorScorer
from skhash.neighbors.store.decoder import METRICS, read_decoder
from skhash.neighbors.store.kept_file import KeptFile
from skhash.neighbors.store.rows import read_vectors, without_self
from skhash.neighbors.store.select import select
from skhash.numerics._nearest import smallest
from skhash.persistence.schema import Plain
from skhash.utils._sklearn import Interval, StrOptions, fit_context
from skhash.utils.arrays import as_array, check_array
from skhash.utils.chunks import row_chunks


class AsymmetricNeighbors(GraphMixin, BaseIndex):
    """Nearest neighbours of uncompressed queries among codes, by their decoded vectors.

    Queries are not encoded. They are compared with the vectors that a linear decoder
    makes of the codes, or with the real vectors of the codes. Answers are ordered by
    (score, position) on any number of threads, and a pair has the same score, to the
    last bit.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that `kneighbors` and `transform` find.
    radius : float, default=1.0
        The largest score that `radius_neighbors` finds, inclusive.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        How vectors are compared. It is fixed in `fit`. With a decoder of rows of unit
        length, each metric ranks by the cosine of the decoded vectors, which finds
        most: see the notes of `asymmetric_scores`.
    error_weight : float, default=0.25
        For "euclidean", the share of the squared error of a code that is added to its
        scores, if `fit` gets errors. It is fixed in `fit`. Without it, a code that
        approximates its vector badly looks nearer to queries than the vector is.
    n_candidates : int, default=None
        Number of codes to compare: those nearest by Hamming distance, which needs the
        codes of the queries; or, if the index has a decoder and vectors, those of the
        smallest scores by the decoder, whose vectors are then compared. The answer is
        exact among these. None compares all, and is exact.
    search_fraction : float, default=1.0
        Share of the codes that `kneighbors` compares by a decoder of whole bytes; see
        the notes. 1.0 compares all, and is exact.
    packed : bool, default=False
        Codes are bits 0/1, a column each, or with True packed bytes, as in
        `HammingNeighbors`.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        The codes, packed, by position.
    vectors_ : ndarray of shape (n_samples_fit_, n_features)
        The real vectors; only if they were given.
    n_samples_fit_ : int
        The number of positions: of codes, including those removed since the last
        `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False for a code that was removed.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        The ids; only if they were given.
    y_ : ndarray of shape (n_samples_fit_,) or (n_samples_fit_, n_labels)
        The labels; only if they were given.
    has_errors_ : bool
        Whether errors were given.
    nbytes_ : int
        Bytes of memory.
    n_features_in_ : int
        The number of columns of codes: bits, or bytes with ``packed=True``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns; only if the codes had names that are all strings.

    See Also
    --------
    HammingNeighbors : Search with codes as queries.
    HashedNeighbors : An encoder and such an index in one.
    asymmetric_scores : The scores of all codes.

    Notes
    -----
    With a decoder the index holds a number beside each code, except for inner
    products of rows of any length: see the notes of `asymmetric_scores`. It takes one
    byte where the fit of the decoder found that this costs no recall, or else two to
    four, and one more while the index has a code that decodes to a much longer or
    shorter vector. The first search makes a second copy of the codes, in another
    layout. A memory map of vectors stays on disk, and only the rows that are compared
    are read; adding codes copies it into memory.

    If the processor can look up bytes in registers (AVX-512 VBMI, AVX2 and NEON), a
    search first adds up bounds of 8 bits, for 16 to 64 codes at a time, and then scores
    only the codes within the bounds.

    On such processors, use a `search_fraction` below 1 for millions of codes of
    ``LinearDecoder(start="residual")``, whose first byte says most. A list is the set
    of codes that have two bytes in common: the first, and the one of the others whose
    entries in the codebook vary most (inverted multi-index, [1]_). Codes are stored
    in blocks of 512, sorted by these bytes, and a search compares the blocks of the
    lists nearest to the query. The position of each code needs 8 bytes of memory. At
    least 32,768 codes are compared. All codes are compared for radii, and for filters
    that leave less than half of all codes, or fewer than `n_neighbors` in the share.

    References
    ----------
    .. [1] A. Babenko, V. Lempitsky, "The inverted multi-index", CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHash
    >>> from skhash.linear import LinearDecoder
    >>> from skhash.neighbors import AsymmetricNeighbors
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = ITQHash(32, random_state=0).fit_transform(X)
    >>> decoder = LinearDecoder().fit(X, bits)
    >>> index = AsymmetricNeighbors(3).fit(decoder.refine(X, bits), decoder=decoder)
    >>> scores, positions = index.kneighbors(X[:2])
    >>> positions.shape
    (2, 3)

    Candidates of the Hamming distance, in the order of the real vectors:

    >>> index = AsymmetricNeighbors(3, n_candidates=50).fit(bits, vectors=X)
    >>> scores, positions = index.kneighbors(X[:2], codes=bits[:2])
    >>> positions[:, 0]
    array([0, 1])
    """

    _saved = {"has_errors_": Plain(bool)}
    _parameter_constraints: dict = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "radius": [Interval(Real, None, None, closed="neither")],
        "metric": [StrOptions(set(METRICS))],
        "error_weight": [Interval(Real, 0, None, closed="left")],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "search_fraction": [Interval(Real, 0, 1, closed="right")],
        "packed": ["boolean"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_neighbors=5,
        *,
        radius=1.0,
        metric="euclidean",
        error_weight=0.25,
        n_candidates=None,
        search_fraction=1.0,
        packed=False,
        n_jobs=None,
    ):
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.metric = metric
        self.error_weight = error_weight
        self.n_candidates = n_candidates
        self.search_fraction = search_fraction
        self.packed = packed
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, decoder=None, errors=None, vectors=None, ids=None):
        """Set the codes to search, replacing any before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, for the scorers of `skhash.metrics`.
        decoder : estimator or tuple (codebook, offset), default=None
            The decoder of the codes: see `asymmetric_scores`.
        errors : array-like of shape (n_samples,), default=None
            The squared distance between each vector and what its code decodes to, such
            as `LinearDecoder.reconstruction_error` returns it, for `error_weight`.
            Where directions are compared, by the cosine or with a decoder of rows of
            unit length, only an infinite error counts: it marks a vector of zeros,
            whose direction is unknown whatever its code decodes to.
        vectors : array-like of shape (n_samples, n_features) or path-like, default=None
            The real vectors that they were made of. With a decoder too, that finds the
            `n_candidates`, and these are compared by their vectors. Of a path, a
            ``.npy`` file, the index keeps only the name and a checksum, saved or not.
        ids : array-like of shape (n_samples,), default=None
            Names of the codes, as in `HammingNeighbors.fit`.

        Returns
        -------
        self : AsymmetricNeighbors
            The fitted index.

        Raises
        ------
        FileNotFoundError
            If there is no such file of vectors.
        ValueError
            If the codes hold something else than 0 and 1, or, packed, are not
            ``uint8``; if they do not fit the decoder or the vectors; if there is
            neither of the two.
        """
        if decoder is None and vectors is None:
            raise ValueError(
                "Codes are compared by what a decoder makes of them, or by their "
                "vectors, and neither was given; fit by fit(codes, decoder=...) or "
                "fit(codes, vectors=...)."
            )
        if decoder is not None:
            decoder = read_decoder(decoder, self.metric)
        added = self._read_errors(X, errors, decoder)
        if isinstance(vectors, str | PathLike):
            vectors = KeptFile(vectors).summed()
        self._take_in(X, y, ids, decoder, added, vectors=read_vectors(X, vectors))
        self.has_errors_ = errors is not None
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X, y=None, *, decoder=None, errors=None, vectors=None, ids=None
    ):
        """Append codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            In the format of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, if the codes before have labels, and only then.
        decoder : estimator or tuple (codebook, offset), default=None
            For the first call alone: later codes decode as those before.
        errors : array-like of shape (n_samples,), default=None
            Errors, if the codes before have some, and only then.
        vectors : array-like of shape (n_samples, n_features), default=None
            Real vectors, if the codes before have some, and only then. They are copied
            behind those of before, in memory.
        ids : array-like of shape (n_samples,), default=None
            Ids, if the codes before have ids, and only then.

        Returns
        -------
        self : AsymmetricNeighbors
            The index with the codes added. If the call fails, the index is as before.

        Raises
        ------
        ValueError
            As `fit`, or if the codes do not fit those before, or an id is in use.
        """
        if not hasattr(self, "_store"):
            arguments = {"decoder": decoder, "errors": errors, "vectors": vectors}
            return self.fit(X, y, ids=ids, **arguments)
        if decoder is not None:
            raise ValueError(
                "decoder is set by fit, or by the first partial_fit, for all "
                "codes; leave it out here."
            )
        if self.has_errors_ != (errors is not None):
            has = "errors" if self.has_errors_ else "no errors"
            raise ValueError(
                f"The codes before have {has}; give errors to fit and to every "
                "partial_fit, or to none of them."
            )
        added = self._read_errors(X, errors, self._fitted_store().decoder)
        return self._add(X, y, ids, read_vectors(X, vectors), added)

    def kneighbors(
        self,
        X=None,
        n_neighbors=None,
        return_distance=True,
        *,
        codes=None,
        own=False,
        mask=None,
        ids=None,
        return_ids=False,
    ):
        """Find the codes nearest to each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Real vectors; sparse ones for a decoder. None stands for the fitted vectors,
            where the index has them, with ``own=True``.
        n_neighbors : int, default=None
            The default is the parameter.
        return_distance : bool, default=True
            Whether to return the scores too.
        codes : array-like of shape (n_queries, n_features_in_), default=None
            The codes of the queries in the format of `fit`, for `n_candidates`. Those
            of the fitted vectors are known.
        own : bool, default=False
            Whether row i of `X` is the vector of the code at position i, for all codes;
            each is left out of its answer.
        mask, ids, return_ids
            As in `HammingNeighbors.kneighbors`.

        Returns
        -------
        scores : ndarray of shape (n_queries, n_neighbors), float32 or float64
            Ascending, and as `asymmetric_scores` defines them for each metric: squared
            Euclidean distances, negated inner products, or 1 less the cosine. Those of
            real vectors are computed in float64, and float64. Only if
            `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours among the fitted codes, ordered by (score,
            position). With `return_ids`, their ids.

        Raises
        ------
        ValueError
            If there are fewer codes to find, or candidates, than `n_neighbors`; if
            something that the search needs is missing.
        """
        store = self._fitted_store()
        own, selected = bool(own) or X is None, select(store, mask, ids)
        k = self._check_n_neighbors(n_neighbors, own, selected.n, store.n)
        if self.n_candidates is not None:
            check_candidates(k, self.n_candidates)
        parts = self._find("nearest", store, selected, X, codes, own, k)
        found = map(np.concatenate, zip(*parts, strict=True))
        return self._answer(store, found, return_distance, return_ids)

    def radius_neighbors(
        self,
        X=None,
        radius=None,
        return_distance=True,
        *,
        codes=None,
        own=False,
        mask=None,
        ids=None,
        return_ids=False,
    ):
        """Find all codes whose score is at most `radius`, for each query.

        Parameters
        ----------
        X, codes, own
            As in `kneighbors`.
        radius : float, default=None
            The largest score, inclusive: a squared distance for "euclidean", a negated
            product for "inner_product". The default is the parameter.
        return_distance : bool, default=True
            Whether to return the scores too.
        mask, ids, return_ids
            As in `kneighbors`.

        Returns
        -------
        scores : ndarray of shape (n_queries,) of float32 or float64 arrays
            As in `kneighbors`. Only if `return_distance`.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions among the fitted codes, ordered by (score, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If the radius is no finite number, or something that the search needs is
            missing.

        Examples
        --------
        >>> from skhash.neighbors import AsymmetricNeighbors
        >>> decoder = [[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0]
        >>> codes = [[0, 0], [1, 0], [1, 1]]
        >>> index = AsymmetricNeighbors(radius=1).fit(codes, decoder=decoder)
        >>> scores, indices = index.radius_neighbors([[3.0, 2.0]])
        >>> scores[0], indices[0]
        (array([0., 1.], dtype=float32), array([2, 1]))
        """
        store = self._fitted_store()
        own, selected = bool(own) or X is None, select(store, mask, ids)
        radius = self.radius if radius is None else radius
        if not isinstance(radius, Real) or not np.isfinite(radius):
            raise ValueError(f"radius must be a finite number, got {radius!r}.")
        parts = self._find("within", store, selected, X, codes, own, radius)
        found = (list(chain.from_iterable(part)) for part in zip(*parts, strict=True))
        return self._answer(store, found, return_distance, return_ids)

    @property
    def nbytes_(self) -> int:
        """Bytes that the index holds.

        They include the codes with their columns and room to grow, the decoder, and
        what was built for searches and the look-up of ids so far. Memory-mapped files
        count.
        """
        store = self._fitted_store()
        parts = []
        for name in "blocks", "lists":
            codes, order, lists = store.codes_key.get(name) or (None, None, None)
            if codes is not None:
                parts += [codes.blocks, order, *(lists or ())[1:]]
        return store.nbytes + sum(part.nbytes for part in parts)

    @property
    def vectors_(self):
        """The real vectors by position, where they were given."""
        return np.asarray(self._column("vectors"))

    def _find(self, what, store, selected, X, codes, own, reach):
        """Search by `what`, "nearest" or "within"; yield answers for chunks of queries.

        own : whether the queries are the fitted codes, each left out of its answer
        """
        n_candidates = int(self.n_candidates or 0)
        if n_candidates >= selected.n:
            n_candidates = 0  # that is all
        by_codes = n_candidates and self._finds_by_codes(store)
        X, codes = self._read_question(store, X, codes, own, by_codes and n_candidates)
        scorer = self._scorer(store)
        if what == "within":
            reach = nearest_number(reach, scorer.dtype)
        # Candidates, their distances and scores, and room for sorting.
        width = n_candidates or (reach if what == "nearest" else 1)
        for rows in row_chunks(max(1, X.shape[0]), 48 * width):
            queries = scorer.read_queries(X[rows], "X")
            first = rows.start if own else None
            if not n_candidates:
                yield find_among_all(what, scorer, queries, reach, selected, first)
                continue
            if by_codes:
                count = n_candidates + own
                found = self._search("nearest", store, selected, codes[rows], count)
                _, candidates = without_self(*found, first) if own else found
            else:
                finder = self._code_scorer(store)
                asked = finder.read_queries(X[rows], "X")
                task = asked, n_candidates, selected, first
                _, candidates = find_among_all("nearest", finder, *task)
            scores = scorer.score_candidates(queries, candidates)
            among = smallest if what == "nearest" else within
            yield as_lists(among(scores, candidates, reach))

    def _finds_by_codes(self, store):
        """Return whether candidates are those of the codes of the queries."""
        decodes = store.decoder is not None and store["vectors"] is not None
        return self.n_candidates is not None and not decodes

    def _read_errors(self, X, errors, decoder):
        """Return the terms added to the scores of codes, or None; see `numbers`."""
        if errors is None:
            return None
        if decoder is None or not decoder.has_numbers:
            raise ValueError(
                "errors are those of decoded codes; give them with a decoder, for "
                "distances or angles."
            )
        kinds = {"ensure_2d": False, "ensure_all_finite": not decoder.by_angle}
        errors = check_array(errors, dtype=np.float64, **kinds)
        check_consistent_length(X, errors)
        if errors.ndim != 1 or not errors.min() >= 0:
            raise ValueError(
                "errors must be squared distances, of shape (n_samples,) and not below "
                f"0, got shape {errors.shape} and a least of {errors.min()}."
            )
        return errors if decoder.by_angle else float(self.error_weight) * errors

    def _read_question(self, store, X, codes, own, n_candidates):
        """Return the vectors of the queries, and their packed codes or None."""
        if X is None and store["vectors"] is None:
            raise ValueError(
                "X=None asks for the neighbours of the fitted vectors, and this index "
                "has none; pass them, kneighbors(X, own=True)."
            )
        if own:
            codes = store.own_queries()
        elif not n_candidates:
            codes = None
        elif codes is not None:
            codes = self._read_more_codes(codes, store)
        else:
            raise ValueError(
                f"n_candidates={n_candidates} codes are found by the codes of the "
                "queries; ask by kneighbors(X, codes=...), or put the encoder and the "
                "index into one HashedNeighbors, which does so."
            )
        if X is None:
            X = store["vectors"]  # of a file, read as they are asked about
        else:
            X = X.tocsr() if sparse.issparse(X) else as_array(X)
        check_consistent_length(X, codes)
        return X, codes

    def _scorer(self, store):
        if store["vectors"] is not None:
            return VectorScorer(store["vectors"], self.metric, self.n_jobs)
        if store.decoder is None:
            raise ValueError("The index has neither a decoder nor vectors; fit again.")
        return self._code_scorer(store)

    def _code_scorer(self, store):
        decoder = store.decoder
        if decoder.metric != self.metric:
            raise ValueError(
                f"metric={self.metric!r}, but the decoder was set for "
                f"{decoder.metric!r}; fit again."
            )
        codes = store["words"].view(np.uint8), store["levels"]
        options = self.n_jobs, store.codes_key, self.search_fraction
        return CodeScorer(decoder, *codes, *options)


def nearest_number(value, dtype):
    """Return a finite number, rounded to the precision of scores and still finite."""
    limits = np.finfo(dtype)
    return dtype.type(np.clip(float(value), float(limits.min), float(limits.max)))


def find_among_all(what, scorer, queries, reach, selected, first):
    """Return scores and positions of the selected codes near each query.

    first : position of the first query's code, if each query is a fitted code that is
        left out of its answer, or else None
    """
    own, places, live = first is not None, selected.positions, selected.live
    some = scorer if places is None else scorer.among(places)
    count = reach + own if what == "nearest" else reach
    found = as_lists(getattr(some, what)(queries, count, live), places)
    return without_self(*found, first) if own else found
