"""`AsymmetricNeighbors`: search with uncompressed queries among decoded codes."""

from dataclasses import field
from itertools import chain
from numbers import Real
from typing import Annotated, Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._index import BaseIndex
from skhash.neighbors._params import check_radius
from skhash.neighbors.search.algorithm import as_lists
from skhash.neighbors.search.asymmetric import CodeScorer, largest_score, to_distances
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.rows import nearest_within, without_self
from skhash.neighbors.store.select import select
from skhash.numerics._levels import ERROR_WEIGHT
from skhash.persistence.schema import Plain
from skhash.utils._sklearn import Interval, fit_context
from skhash.utils.arrays import as_array, check_array
from skhash.utils.chunks import row_chunks
from skhash.utils.parameters import AnyInt, Count, Finite, Metric, with_parameters


@with_parameters(kw_only=True)
class AsymmetricNeighbors(GraphMixin, BaseIndex):
    """Nearest neighbours of uncompressed queries among codes, by their decoded vectors.

    Queries are not encoded. They are compared with the vectors that a linear decoder
    makes of the codes. The search is exact among these: answers are those of a stable
    sort of `asymmetric_scores`, on any number of threads.

    `skhash.HashedNeighbors` makes codes, decoder and such an index in one step. Use
    this class for codes that you have.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that `kneighbors` and `transform` find.
    radius : float, default=1.0
        The largest distance that `radius_neighbors` finds, inclusive.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        How vectors are compared. It is fixed in `fit`. With a decoder of rows of unit
        length, each metric ranks by the cosine of the decoded vectors, which finds
        most: see the notes of `asymmetric_scores`.
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
    HashedNeighbors : Vectors in, neighbours out.
    asymmetric_scores : The scores of all codes.

    Notes
    -----
    The index holds a number beside each code, except for inner products of rows of any
    length: see the notes of `asymmetric_scores`. It takes one byte where the fit of the
    decoder found that this costs no recall, or else two to four, and a byte more while
    a code is among the others that decodes to a much longer or shorter vector.
    If the processor can look up bytes in registers (AVX-512 VBMI, AVX2 and NEON), a
    search first adds up bounds of 8 bits, for 16 to 64 codes at a time, and then scores
    only the codes within the bounds.

    On such processors, use a `search_fraction` below 1 for millions of codes of
    `skhash.AdditiveQuantizer`, whose first byte says most. A list is the set
    of codes that have two bytes in common: the first, and the one of the others whose
    entries in the codebook vary most (inverted multi-index, [1]_). Codes are stored
    in blocks of 512, sorted by these bytes, and a search compares the blocks of the
    lists nearest to the query. The first search puts them in this order, and the index
    then holds 4 bytes for the position of each, or 8 once codes are asked for by
    position. At least 32,768 codes are compared. All codes are compared for
    radii, and for filters that leave less than half of all codes, or fewer than
    `n_neighbors` in the share.

    References
    ----------
    .. [1] A. Babenko, V. Lempitsky, "The inverted multi-index", CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import AdditiveQuantizer, AsymmetricNeighbors
    >>> X, _ = load_digits(return_X_y=True)
    >>> quantizer = AdditiveQuantizer(4).fit(X)
    >>> index = AsymmetricNeighbors(3, packed=True)
    >>> index = index.fit(quantizer.transform(X), decoder=quantizer)
    >>> distances, positions = index.kneighbors(X[:2])
    >>> positions.shape
    (2, 3)
    """

    n_neighbors: Count = field(default=5, kw_only=False)
    radius: Finite = 1.0
    metric: Metric = "euclidean"
    search_fraction: Annotated[float, Interval(Real, 0, 1, closed="right")] = 1.0
    packed: bool = False
    n_jobs: None | AnyInt = None

    _saved = {"has_errors_": Plain(bool)}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, decoder, errors=None, ids=None) -> Self:
        """Set the codes to search, replacing any before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, for the scorers of `skhash.metrics`.
        decoder : estimator or tuple (codebook, offset)
            The decoder of the codes: see `asymmetric_scores`.
        errors : array-like of shape (n_samples,), default=None
            The squared distance between each vector and what its code decodes to, such
            as `AdditiveQuantizer.reconstruction_error` returns it: a quarter of it is
            added to the squared distances of the code, as a code that approximates its
            vector badly looks nearer than the vector is.
            Where directions are compared, by the cosine or with a decoder of rows of
            unit length, only an infinite error counts: it marks a vector of zeros,
            whose direction is unknown whatever its code decodes to.
        ids : array-like of shape (n_samples,), default=None
            Names of the codes, as in `HammingNeighbors.fit`.

        Returns
        -------
        self : AsymmetricNeighbors
            The fitted index.

        Raises
        ------
        ValueError
            If the codes hold something else than 0 and 1, or, packed, are not
            ``uint8``; if they do not fit the decoder.
        """
        return self._take_in(X, y, ids, decoder=decoder, errors=errors)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, decoder=None, errors=None, ids=None) -> Self:
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
            return self.fit(X, y, decoder=decoder, errors=errors, ids=ids)
        if decoder is not None:
            raise ValueError(
                "decoder is set by fit, or by the first partial_fit, for all "
                "codes; leave it out here."
            )
        return self._add(X, y, ids, errors=errors)

    def kneighbors(
        self,
        X,
        n_neighbors=None,
        return_distance=True,
        *,
        radius=None,
        exclude_self=False,
        return_ids=False,
        **filters,
    ) -> Any:
        """Find the codes nearest to each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Real vectors.
        n_neighbors : int, default=None
            The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.
        radius : float, default=None
            Finds only codes within this distance, inclusive, so that there may be fewer
            than `n_neighbors`. The answer has the form of `radius_neighbors`.
        exclude_self : bool, default=False
            Whether row i of `X` is the vector of the code at position i, for all codes;
            each is left out of its answer.
        return_ids : bool, default=False
            Whether to return ids in place of positions.
        **filters
            `mask`, `ids` and `exclude`, as in `HammingNeighbors.kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), float64
            Ascending, and as `asymmetric_scores` defines them for each metric:
            Euclidean distances, negated inner products, or 1 less the cosine. Only if
            `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours among the fitted codes, ordered by (distance,
            position). With `return_ids`, their ids.

        Raises
        ------
        ValueError
            If there are fewer codes to find than `n_neighbors`, and no `radius` is
            given.
        """
        store = self._fitted_store()
        selected = select(store, **filters)
        k = self._check_n_neighbors(n_neighbors, exclude_self, selected, store, radius)
        if radius is not None:
            radius = self._largest_score(radius)
        parts = self._find("nearest", store, selected, X, exclude_self, k, radius)
        join = np.concatenate if radius is None else chained
        neighbors = map(join, zip(*parts, strict=True))
        return self._answer(store, neighbors, return_distance, return_ids)

    def radius_neighbors(
        self,
        X,
        radius=None,
        return_distance=True,
        *,
        exclude_self=False,
        return_ids=False,
        **filters,
    ) -> Any:
        """Find all codes within a distance of each query.

        Parameters
        ----------
        X, exclude_self
            As in `kneighbors`.
        radius : float, default=None
            The largest distance, inclusive. The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.
        return_ids, **filters
            As in `kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of float64 arrays
            Ascending. Only if `return_distance`.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions among the fitted codes, ordered by (distance, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If the radius is no finite number.

        Examples
        --------
        >>> from skhash.neighbors import AsymmetricNeighbors
        >>> decoder = [[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0]
        >>> codes = [[0, 0], [1, 0], [1, 1]]
        >>> index = AsymmetricNeighbors(radius=1).fit(codes, decoder=decoder)
        >>> distances, indices = index.radius_neighbors([[3.0, 2.0]])
        >>> distances[0], indices[0]
        (array([0., 1.]), array([2, 1]))
        """
        store = self._fitted_store()
        selected = select(store, **filters)
        most = self._largest_score(self.radius if radius is None else radius)
        parts = self._find("within", store, selected, X, exclude_self, most)
        neighbors = map(chained, zip(*parts, strict=True))
        return self._answer(store, neighbors, return_distance, return_ids)

    @property
    def nbytes_(self) -> int:
        """Bytes that the index holds.

        They include the codes with their columns and room to grow, the decoder, and
        what was built for searches and the look-up of ids so far. Memory-mapped files
        count.
        """
        store = self._fitted_store()
        lists = store.codes_key.get("lists")
        if lists is None:
            return store.nbytes
        return store.nbytes + sum(part.nbytes for part in lists[1:])

    def _largest_score(self, radius):
        check_radius(radius)
        return largest_score(radius, self.metric, CodeScorer.dtype)

    def _find(self, what, store, selected, X, exclude_self, reach, most=None):
        """Search by `what`, "nearest" or "within"; yield answers for chunks of queries.

        reach : the number of neighbours, or the largest score
        most : the largest score of the nearest, of which there are then at most `reach`
        """
        scorer, places = self._scorer(store), selected.positions
        scorer = scorer if places is None else scorer.among(places)
        X = X.tocsr() if sparse.issparse(X) else as_array(X)
        if exclude_self:
            store.check_all_live()
            check_consistent_length(X, store["blocks"])
        search, count, width = scorer.within, reach, 1
        if what == "nearest":
            search, count = scorer.nearest, min(reach + exclude_self, selected.n)
            width = reach
        # Scores and positions of the neighbours, and room for sorting.
        for rows in row_chunks(max(1, X.shape[0]), 48 * width):
            queries = scorer.read_queries(X[rows], "X")
            neighbors = as_lists(search(queries, count, selected.live), places)
            if most is not None:
                first = rows.start if exclude_self else None
                neighbors = nearest_within(*neighbors, reach, most, first)
            elif exclude_self:
                neighbors = without_self(*neighbors, rows.start)
            scores, positions = neighbors
            yield to_distances(scores, self.metric), positions

    def _read_errors(self, X, errors, decoder):
        """Return the terms added to the scores of codes, or None; see `numbers`."""
        if errors is None:
            return None
        if not decoder.has_numbers:
            raise ValueError(
                "errors are for distances and angles; leave them out with "
                f"metric={decoder.metric!r}."
            )
        kinds = {"ensure_2d": False, "ensure_all_finite": not decoder.by_angle}
        errors = check_array(errors, dtype=np.float64, **kinds)
        check_consistent_length(X, errors)
        if errors.ndim != 1 or not errors.min() >= 0:
            raise ValueError(
                "errors must be squared distances, of shape (n_samples,) and not below "
                f"0, got shape {errors.shape} and a least of {errors.min()}."
            )
        return errors if decoder.by_angle else ERROR_WEIGHT * errors

    def _take_in(self, X, y, ids, *, decoder, errors=None, vectors=None):
        decoder = read_decoder(decoder, self.metric)
        columns = {"added": self._read_errors(X, errors, decoder), "vectors": vectors}
        super()._take_in(X, y, ids, decoder=decoder, **columns)
        self.has_errors_ = errors is not None
        return self

    def _add(self, X, y, ids, *, errors=None, **options):
        if self.has_errors_ != (errors is not None):
            has = "errors" if self.has_errors_ else "no errors"
            raise ValueError(
                f"The codes before have {has}; give errors to fit and to every "
                "partial_fit, or to none of them."
            )
        added = self._read_errors(X, errors, self._fitted_store().decoder)
        return super()._add(X, y, ids, added=added, **options)

    def _scorer(self, store):
        decoder = store.decoder
        if decoder.metric != self.metric:
            raise ValueError(
                f"metric={self.metric!r}, but the decoder was set for "
                f"{decoder.metric!r}; fit again."
            )
        scorer = self._make_scorer(store)
        if scorer.wants_lists():
            store.reorder(scorer.order_of_lists)
            scorer = self._make_scorer(store)
        return scorer

    def _make_scorer(self, store):
        key, share = store.codes_key, self.search_fraction
        return CodeScorer(store.decoder, store["blocks"], self.n_jobs, key, share)


def chained(parts):
    """Return the items of all lists in one list."""
    return list(chain.from_iterable(parts))
