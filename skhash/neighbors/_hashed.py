"""`HashedNeighbors`: an encoder and an index as one search of real vectors."""

from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize
from sklearn.utils import check_array, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash.codes import pack_bits
from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._hashed_files import SavedInPartsMixin
from skhash.utils._sklearn import HasMethods, fit_context


class HashedNeighbors(
    SavedInPartsMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Nearest neighbours of real vectors, found by their codes.

    An encoder makes the codes, and an index searches them. What the index needs to
    re-rank, it gets: the real vectors with ``rerank="vectors"``, and a decoder with
    ``rerank="asymmetric"``, which is the encoder itself where it has a codebook, and
    else a `skhash.linear.LinearDecoder`, fitted to its codes.

    Codes decode to vectors as the encoder sees them: of unit length with its
    ``normalize=True``, and behind the other steps where it is a Pipeline. So are the
    queries that are compared with them. With ``rerank="vectors"`` vectors stay as they
    are; set the `metric` of the index to the one that the codes follow.

    Parameters
    ----------
    encoder : estimator
        It has `transform`, to bits 0/1, or `transform_packed`. It is cloned and fitted;
        wrapped in `sklearn.frozen.FrozenEstimator` it stays as it is. A Pipeline that
        ends in an encoder is one too.
    index : HammingNeighbors or PrefixNeighbors, default=None
        It is cloned, and holds packed codes whatever its `packed`. None stands for
        ``HammingNeighbors()``.
    decoder : LinearDecoder, default=None
        With ``rerank="asymmetric"``, what decodes the codes, in place of the encoder.
        It is cloned, fitted to the encoder's codes, and refines those of the database:
        they decode nearer to the vectors, and their Hamming distances say less, so let
        the index take all codes as candidates, ``n_candidates=None``.

    Attributes
    ----------
    encoder_ : estimator
        The fitted encoder.
    index_ : HammingNeighbors or PrefixNeighbors
        The fitted index. Codes are removed by ``index_.remove``.
    decoder_ : LinearDecoder
        The fitted decoder; only if one was given.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    HammingNeighbors : Search among codes, however they were made.
    sklearn.neighbors.NearestNeighbors : Exact search by real vectors.

    Examples
    --------
    >>> from skhash import HammingNeighbors, HashedNeighbors, ITQHash
    >>> from skhash.datasets import load_digits_retrieval
    >>> data = load_digits_retrieval()
    >>> search = HashedNeighbors(
    ...     ITQHash(32, random_state=0), HammingNeighbors(10, rerank="asymmetric")
    ... ).fit(data.train)
    >>> distances, positions = search.kneighbors(data.query)
    >>> positions.shape
    (297, 10)

    Codes that are refined for such a search, which looks at all of them:

    >>> from skhash.linear import LinearDecoder
    >>> search = HashedNeighbors(
    ...     ITQHash(32, random_state=0),
    ...     HammingNeighbors(10, rerank="asymmetric", n_candidates=None),
    ...     decoder=LinearDecoder(n_alternations=5),
    ... ).fit(data.train)
    """

    _parameter_constraints: dict = {
        "encoder": [HasMethods(["fit", "transform"])],
        "index": [HasMethods(["fit", "kneighbors"]), None],
        "decoder": [HasMethods(["fit", "refine"]), None],
    }

    def __init__(self, encoder, index=None, *, decoder=None):
        self.encoder = encoder
        self.index = index
        self.decoder = decoder

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, ids=None, **fit_params):
        """Fit the encoder, and take in the codes of the same rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. With ``rerank="vectors"`` the index keeps them as they are.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, for the encoder and the index.
        ids : array-like of shape (n_samples,), default=None
            Names of the vectors, as in `HammingNeighbors.fit`. An encoder that takes
            `pairs` gets them too.
        **fit_params
            What else the encoder's `fit` takes, such as `pairs` and `pair_labels`. With
            metadata routing enabled, what it requests.

        Returns
        -------
        self : HashedNeighbors
            The fitted search.

        Raises
        ------
        ValueError
            If encoder or index refuse what they are given, or there is a decoder, but
            no asymmetric search.
        """
        validate_data(self, X, skip_check_array=True)
        index = HammingNeighbors() if self.index is None else clone(self.index)
        index.set_params(packed=True)
        if self.decoder is not None and _rerank(index) != "asymmetric":
            raise ValueError(
                "decoder is for an index with rerank='asymmetric', and this one has "
                f"rerank={_rerank(index)!r}; set it, or leave decoder out."
            )
        if "pairs" in fit_params:
            fit_params["ids"] = ids
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).encoder.fit
        self.encoder_ = clone(self.encoder).fit(X, y, **fit_params)
        arguments = {} if ids is None else {"ids": ids}
        if _rerank(index) == "vectors":
            arguments["vectors"] = check_array(X)
        if _rerank(index) == "asymmetric":
            arguments["decoder"] = self._decoder(X)
        self.index_ = index.fit(self._encode_database(X), y, **arguments)
        return self

    def partial_fit(self, X, y=None, *, ids=None):
        """Add vectors behind those that are there; the encoder stays as it is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, if the vectors before have labels, and only then.
        ids : array-like of shape (n_samples,), default=None
            Names, if the vectors before have names, and only then.

        Returns
        -------
        self : HashedNeighbors
            The search with the vectors added. The first call is `fit`.
        """
        if not hasattr(self, "index_"):
            return self.fit(X, y, ids=ids)
        arguments = {} if ids is None else {"ids": ids}
        if _rerank(self.index_) == "vectors":
            arguments["vectors"] = check_array(X)
        self.index_.partial_fit(self._encode_database(X), y, **arguments)
        return self

    def kneighbors(
        self,
        X=None,
        n_neighbors=None,
        return_distance=True,
        *,
        vectors=None,
        **filters,
    ):
        """Find the vectors nearest to each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Real vectors. None asks for the neighbours of each fitted vector, itself
            left out.
        n_neighbors : int, default=None
            The default is the one of the index.
        return_distance : bool, default=True
            Whether to return the distances too.
        vectors : {array-like, sparse matrix} of shape (n_samples, n_features), \
                default=None
            The fitted vectors once more, where `X` is None and
            ``rerank="asymmetric"``, since the index does not keep them.
        **filters
            What else the index's `kneighbors` takes, such as `mask` and `ids`.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Hamming distances, or with `rerank` the scores; see the index. Only if
            `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions among the fitted vectors, ordered by (distance, position).
        """
        check_is_fitted(self)
        if X is not None and vectors is not None:
            raise ValueError(
                "vectors are for queries that are the fitted vectors, X=None; the "
                "queries in X are vectors themselves."
            )
        codes, queries = self._read_queries(X)
        if vectors is not None:
            queries = {"vectors": self._compared(vectors)}
        return self.index_.kneighbors(
            codes, n_neighbors, return_distance, **queries, **filters
        )

    def kneighbors_graph(self, X=None, n_neighbors=None, mode="connectivity"):
        """Return the nearest neighbours of each query as a sparse matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            As in `kneighbors`.
        n_neighbors : int, default=None
            As in `kneighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Whether entries are 1, or the distance; 0 too is an explicit entry.

        Returns
        -------
        graph : CSR sparse array of shape (n_queries, n_samples), float64
            The entries of a row are ordered by (distance, position).
        """
        check_is_fitted(self)
        codes, vectors = self._read_queries(X)
        return self.index_.kneighbors_graph(codes, n_neighbors, mode, **vectors)

    def transform(self, X):
        """Return the graph of distances that estimators for precomputed ones take.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Real vectors.

        Returns
        -------
        graph : CSR sparse array of shape (n_queries, n_samples), float64
            One neighbour more than `n_neighbors` a row, as a fitted vector is its own
            neighbour.
        """
        check_is_fitted(self)
        n_neighbors = int(self.index_.n_neighbors) + 1
        return self.kneighbors_graph(X, n_neighbors, mode="distance")

    @available_if(lambda self: hasattr(self.index or HammingNeighbors, "score"))
    def score(self, X, y):
        """Return the mean average precision of the ranking of the fitted codes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Real vectors.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Their labels. A fitted vector that shares one is relevant.

        Returns
        -------
        score : float
            That of the codes by Hamming distance, in expectation over the order of
            equally near ones: see `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the search was fitted without labels.
        """
        check_is_fitted(self)
        return self.index_.score(self._encode(X), y)

    def get_metadata_routing(self):
        """Return what `fit` requests for itself and for the encoder.

        Returns
        -------
        routing : MetadataRouter
        """
        encoder = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(encoder=self.encoder, method_mapping=encoder)
        )

    def _read_queries(self, X):
        """Return codes of queries, and their vectors if the index asks for them."""
        if X is None:
            return None, {}
        if _rerank(self.index_) is None:
            return self._encode(X), {}
        return self._encode(X), {"vectors": self._compared(X)}

    def _compared(self, X):
        """Return what re-ranking compares of rows."""
        if _rerank(self.index_) == "vectors":
            return X
        return rows_within(self.encoder_, X)

    def _encode(self, X):
        if hasattr(self.encoder_, "transform_packed"):
            return self.encoder_.transform_packed(X)
        return pack_bits(self.encoder_.transform(X))

    def _encode_database(self, X):
        if self.decoder is None:
            return self._encode(X)
        rows = rows_within(self.encoder_, X)
        return pack_bits(self.decoder_.refine(rows, self.encoder_.transform(X)))

    def _decoder(self, X):
        """Return what decodes the codes: by default the encoder, if it can."""
        encoder = _innermost(self.encoder_)
        if self.decoder is None and hasattr(encoder, "codebook_"):
            return encoder
        from skhash.linear import LinearDecoder

        decoder = LinearDecoder() if self.decoder is None else clone(self.decoder)
        rows = rows_within(self.encoder_, X)
        decoder.fit(rows, self.encoder_.transform(X))
        if self.decoder is not None:
            self.decoder_ = decoder
        return decoder

    @property
    def _n_features_out(self):
        return self.index_.n_samples_fit_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        encoder = get_tags(self.encoder)
        takes_sparse = encoder.input_tags.sparse and _rerank(self.index) != "vectors"
        tags.input_tags.sparse = takes_sparse
        tags.target_tags.required = encoder.target_tags.required
        return tags


def rows_within(encoder, X):
    """Return rows as a fitted encoder, the last step of a Pipeline, sees them.

    Parameters
    ----------
    encoder : estimator
        A Pipeline, or frozen, perhaps. With `normalize` it sees rows of unit length.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    """
    if isinstance(encoder, FrozenEstimator):
        return rows_within(encoder.estimator, X)
    if isinstance(encoder, Pipeline):
        X = encoder[:-1].transform(X) if len(encoder) > 1 else X
        return rows_within(encoder[-1], X)
    return normalize(X) if getattr(encoder, "normalize", False) else X


def _innermost(encoder):
    """Return the encoder itself, of a Pipeline that ends in it, or frozen."""
    if isinstance(encoder, FrozenEstimator):
        return _innermost(encoder.estimator)
    return _innermost(encoder[-1]) if isinstance(encoder, Pipeline) else encoder


def _rerank(index):
    """Return what an index re-ranks by; one that does not know of it does not."""
    return getattr(index, "rerank", None)
