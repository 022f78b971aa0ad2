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
from skhash.neighbors.search.asymmetric import CodeScorer, largest_score, to_distances
from skhash.neighbors.search.base import as_lists
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.rows import nearest_within, without_self
from skhash.neighbors.store.select import SCAN_SHARE, select
from skhash.numerics._levels import ERROR_WEIGHT
from skhash.persistence.schema import Plain
from skhash.utils._sklearn import Interval, fit_context
from skhash.utils.arrays import as_array, check_array
from skhash.utils.chunks import row_chunks
from skhash.utils.parameters import AnyInt, Count, Finite, Metric, with_parameters


@with_parameters(kw_only=True)
class AsymmetricNeighbors(GraphMixin, BaseIndex):
    """Asymmetric search: compares uncompressed queries with decoded codes.

    Queries are not encoded. They are compared with the vectors that a linear decoder
    makes of the codes, and answers are those of a stable sort of `asymmetric_scores`,
    with any number of threads. If `fit` was given the errors of the codes, a quarter of
    each is added to the squared distance.

    Use this class for codes that you already have. `skhash.HashedNeighbors` makes the
    codes, the decoder and such an index in one step.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours that `kneighbors` and `transform` return by default.
    radius : float, default=1.0
        Default distance for `radius_neighbors`, inclusive.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        How queries and decoded vectors are compared; `fit` fixes it. If the decoder was
        fitted to vectors of unit length, every metric ranks by the cosine, which finds
        the most neighbours; see the notes of `asymmetric_scores`.
    search_fraction : float, default=1.0
        Share of the codes that `kneighbors` compares with each query. 1.0 compares all
        codes and is exact. Lower values take effect only with a decoder of whole bytes
        (its ``block_bits_`` is 8).
    packed : bool, default=False
        Format of the codes, as in `HammingNeighbors`: bits 0/1, or with True packed
        bytes.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`.

    Attributes
    ----------
    packed_codes_ : ndarray of shape (n_samples_fit_, n_bytes), uint8
        The packed codes, by position.
    n_samples_fit_ : int
        Number of positions in the index: one per code, including codes removed since
        the last `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False at the positions of removed codes, True elsewhere.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        Id of the code at each position. Defined only if ids were given.
    y_ : ndarray of shape (n_samples_fit_,) or (n_samples_fit_, n_labels)
        Labels of the code at each position. Defined only if labels were given.
    has_errors_ : bool
        Whether `fit` was given errors.
    nbytes_ : int
        Bytes that the index holds: codes and their columns, the decoder, and structures
        built for searches. Memory-mapped files are included.
    n_features_in_ : int
        Number of columns of the codes: bits, or bytes with ``packed=True``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if the codes had column names that are all
        strings.

    See Also
    --------
    HammingNeighbors : Exact search with codes as queries.
    HashedNeighbors : Encodes vectors and searches their codes.
    asymmetric_scores : The scores of all codes.

    Notes
    -----
    The index stores a number with each code, unless the metric is the inner product and
    vectors are not of unit length; see the notes of `asymmetric_scores`. The number
    takes one byte if the fit of the decoder found that this costs no recall, otherwise
    two to four. While some code decodes to a much longer or shorter vector than the
    others, it may take one more, but never more than four. On processors that can look
    up bytes in registers (AVX-512 VBMI, AVX2 and NEON), a search first adds up 8-bit
    bounds for 16 to 64 codes at a time, then scores only the codes within the bounds.

    On such processors, use a `search_fraction` below 1 for millions of codes from
    `skhash.AdditiveQuantizer`, whose first byte is the most informative. The search
    then uses inverted lists. A list is the set of codes that share two bytes: the
    first, and the one among the others whose codebook entries vary most (an inverted
    multi-index, [1]_). Codes are stored in blocks of 512, sorted by these two bytes,
    and a search compares the blocks of the lists nearest to the query. The first search
    sorts the codes, and the index then holds 4 more bytes per code for its position, or
    8 once codes are looked up by position. At least 32,768 codes are always compared.
    All codes are compared for searches by radius, and for filters that leave less than
    half of the codes, or fewer than `n_neighbors` in the share.

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
        """Index codes with their decoder, replacing any earlier codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Codes: bits 0/1, or packed bytes (``uint8``) with ``packed=True``.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the codes, for the scorers of `skhash.metrics`.
        decoder : estimator or tuple (codebook, offset)
            Decoder of the codes; see `asymmetric_scores`.
        errors : array-like of shape (n_samples,), default=None
            Squared distance of each vector from its decoded code, as returned by
            `AdditiveQuantizer.reconstruction_error`. A quarter of it is added to
            squared distances, because a code that approximates its vector badly looks
            nearer than the vector is. For the cosine, or with a decoder for vectors of
            unit length, only infinite errors have an effect: they mark zero vectors,
            which have no direction.
        ids : array-like of shape (n_samples,), default=None
            Unique ids of the codes, as in `HammingNeighbors.fit`.

        Returns
        -------
        self : AsymmetricNeighbors
            The fitted index.

        Raises
        ------
        ValueError
            If the codes hold values other than 0 and 1 or, with ``packed=True``, are
            not ``uint8``, or if they do not fit the decoder.
        """
        return self._take_in(X, y, ids, decoder=decoder, errors=errors)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, decoder=None, errors=None, ids=None) -> Self:
        """Add codes to the index.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits) or (n_samples, n_bytes)
            Codes to add, in the format of `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the codes; required if and only if `fit` was given labels.
        decoder : estimator or tuple (codebook, offset), default=None
            Decoder of the codes. Give it in the first call only; later codes use the
            same one.
        errors : array-like of shape (n_samples,), default=None
            Errors of the codes; required if and only if `fit` was given errors.
        ids : array-like of shape (n_samples,), default=None
            Ids of the codes; required if and only if `fit` was given ids.

        Returns
        -------
        self : AsymmetricNeighbors
            The index with the codes added. If the call fails, the index is unchanged.

        Raises
        ------
        ValueError
            As in `fit`, or if the new codes do not match those in the index, or if an
            id is already in use.
        """
        if not hasattr(self, "_store"):
            return self.fit(X, y, decoder=decoder, errors=errors, ids=ids)
        if decoder is not None:
            raise ValueError(
                "decoder is set by fit, or by the first partial_fit, for all codes; "
                "leave it out here."
            )
        return self._add(X, y, ids, errors=errors)

    def kneighbors(
        self,
        X=None,
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
            Queries, as vectors. None raises an error, because the index has no vectors.
        n_neighbors : int, default=None
            Number of neighbours per query; by default the parameter `n_neighbors`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        radius : float, default=None
            Return only codes within this distance, inclusive. There may then be fewer
            than `n_neighbors`, and the answer has the form of `radius_neighbors`.
        exclude_self : bool, default=False
            Set True if row i of `X` is the vector of the code at position i, for all
            codes. Each code is then left out of the answer to its own vector.
        return_ids : bool, default=False
            Whether to return ids instead of positions.
        **filters
            `mask`, `ids` and `exclude`, as in `HammingNeighbors.kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors), float64
            Distances in ascending order, as defined by `asymmetric_scores` and the
            errors given to `fit`: Euclidean distances, negated inner products, or 1
            minus the cosine. Only if `return_distance` is True.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours, ordered by (distance, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If fewer than `n_neighbors` codes can be found and no `radius` is given.
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
        X=None,
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
            Largest distance, inclusive; by default the parameter `radius`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        return_ids, **filters
            As in `kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of float64 arrays
            Distances in ascending order. Only if `return_distance` is True.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions of the neighbours, ordered by (distance, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If the radius is not a finite number.

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
        # Lists of `search_fraction` are built at the first search.
        lists = self._fitted_store().codes_key.get("lists") or ()
        return super().nbytes_ + sum(part.nbytes for part in lists[1:])

    def _largest_score(self, radius):
        check_radius(radius)
        return largest_score(radius, self.metric)

    def _find(self, what, store, selected, X, exclude_self, reach, most=None):
        """Search by `what`, "nearest" or "within"; yield answers for chunks of queries.

        reach : the number of neighbours, or the largest score
        most : the largest score of the nearest, of which there are then at most `reach`
        """
        if X is None:
            raise ValueError(
                "X=None asks for the neighbours of the fitted vectors, but an index of "
                "codes has none; pass them: kneighbors(X, exclude_self=True)."
            )
        scorer, places = self._scorer(store), selected.positions
        if places is not None:
            scorer = scorer.among(places)
        elif selected.n < SCAN_SHARE * store.n:
            scorer.share = 1  # lists would have too few of the codes
        X = X.tocsr() if sparse.issparse(X) else as_array(X)
        if exclude_self:
            store.check_all_live(X)
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
                "errors apply to distances and angles only; leave them out with "
                f"metric={decoder.metric!r}."
            )
        kinds = {"ensure_2d": False, "ensure_all_finite": not decoder.by_angle}
        errors = check_array(errors, dtype=np.float64, **kinds)
        check_consistent_length(X, errors)
        if errors.ndim != 1 or not errors.min() >= 0:
            raise ValueError(
                "errors must be squared distances, of shape (n_samples,) and at least "
                f"0, got shape {errors.shape} and a minimum of {errors.min()}."
            )
        return errors if decoder.by_angle else ERROR_WEIGHT * errors

    def _take_in(self, X, y, ids, *, decoder, errors=None, vectors=None):
        decoder = read_decoder(decoder, self.metric)
        columns = {"added": self._read_errors(X, errors, decoder), "vectors": vectors}
        super()._take_in(X, y, ids, decoder=decoder, **columns)
        self.has_errors_ = errors is not None
        return self

    def _add(self, X, y, ids, *, errors=None, **options):
        decoder = self._fitted_store().decoder
        if self.has_errors_ != (errors is not None):
            has = "errors" if self.has_errors_ else "no errors"
            raise ValueError(
                f"The codes in the index have {has}; give errors to fit and to every "
                "partial_fit, or to none of them."
            )
        added = self._read_errors(X, errors, decoder)
        return super()._add(X, y, ids, added=added, **options)

    def _scorer(self, store):
        decoder = store.decoder
        if decoder.metric != self.metric:
            raise ValueError(
                f"metric={self.metric!r}, but the index was fitted with "
                f"metric={decoder.metric!r}; set it back, or fit again."
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
