"""`HashedNeighbors`: vectors in, neighbours out."""

from dataclasses import field
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Annotated, Any, Self, get_args
from warnings import warn

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from skhash.codes import pack_bits
from skhash.neighbors._asymmetric import AsymmetricNeighbors, chained
from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._index import BaseIndex, score_search
from skhash.neighbors._params import check_candidates, check_params, check_radius
from skhash.neighbors.search.asymmetric import to_distances, within
from skhash.neighbors.search.base import as_lists
from skhash.neighbors.search.vectors import VectorScorer
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.kept_file import KeptFile
from skhash.neighbors.store.rows import read_vectors
from skhash.neighbors.store.select import select
from skhash.numerics._nearest import smallest
from skhash.persistence.estimators import save_estimator
from skhash.persistence.schema import Part, Plain, optional
from skhash.utils._sklearn import HasMethods, fit_context
from skhash.utils.arrays import (
    are_zero,
    as_array,
    check_array,
    is_checked,
    is_numeric,
    unit_rows,
    validate_data,
)
from skhash.utils.chunks import RowView, dense_chunks, row_chunks
from skhash.utils.parameters import AnyInt, Count, Metric, with_parameters
from skhash.utils.progress import steps_of


@with_parameters(kw_only=True)
class HashedNeighbors(GraphMixin, BaseEstimator):
    """Nearest-neighbour search on vectors that are compressed to a few bytes each.

    A quantizer or an encoder turns each vector into a code, and an index searches the
    codes. ``HashedNeighbors(8)`` stores eight bytes per vector and compares queries
    with the vectors that the codes decode to. With `rerank`, the best candidates are
    then compared by their original vectors.

    Parameters
    ----------
    encoder : int or estimator, default=8
        What makes the codes. Estimators are cloned and refitted; to use one that is
        already fitted, wrap it in `sklearn.frozen.FrozenEstimator`.

        - an integer: a `skhash.AdditiveQuantizer` with this many bytes per vector;
        - a quantizer, for codes that are compared by decoding;
        - an encoder such as `ITQHash`, with `transform` to bits 0/1 or
          `transform_packed`, for codes that are compared by Hamming distance;
        - a Pipeline that ends in a quantizer or an encoder.
    n_neighbors : int, default=5
        Number of neighbours that `kneighbors` and `transform` return by default.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        How vectors are compared. With "cosine", vectors and queries are scaled to unit
        length before they are encoded. If all vectors given to `fit` have unit length,
        decoded codes, and queries that are compared with them, are scaled to it with
        every metric: then add vectors of unit length only. Hamming distances between
        codes do not depend on `metric`.
    rerank : int, default=None
        Number of candidates to re-rank by their original vectors, for each query. It
        requires `vectors`. With None, the codes alone decide.
    vectors : bool or path-like, default=None
        The original vectors, for `rerank`.

        - True keeps a copy of `X` in memory and in the saved search; a memory map is
          not copied into memory.
        - A path names your own file with exactly the rows of `X`: ``.npy``, or another
          format that `skhash.datasets.open_vectors` maps, except HDF5. The file is read
          in place. `partial_fit` and `replace` keep the new vectors in memory; to have
          them on disk, call `fit` with a file of all vectors and the fitted encoder in
          a `FrozenEstimator`.
    index : HammingNeighbors or AsymmetricNeighbors, default=None
        The index to search with. It is cloned, and holds packed codes whatever its
        parameter `packed` says.

        - None is ``AsymmetricNeighbors()`` for a quantizer and ``HammingNeighbors()``
          for an encoder.
        - ``AsymmetricNeighbors()`` with an encoder compares uncompressed queries with
          the encoder's codes, using a `skhash.quantization.LinearDecoder` that `fit`
          fits to these codes.
    n_jobs : int, default=None
        Number of threads, as in `HammingNeighbors`. None leaves searches to the
        parameter of `index`.
    verbose : bool, default=False
        Whether `fit` prints its steps and the time elapsed.

    Attributes
    ----------
    encoder_ : estimator
        The fitted encoder or quantizer.
    index_ : HammingNeighbors, JaccardNeighbors or AsymmetricNeighbors
        The fitted index.
    decoder_ : LinearDecoder
        The decoder of the codes. Defined only for an encoder with an
        `AsymmetricNeighbors` index.
    metric_ : str
        The `metric` of `fit`.
    n_samples_fit_ : int
        Number of positions in the index: one per vector, including vectors removed
        since the last `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False at the positions of removed vectors, True elsewhere.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        Id of the vector at each position. Defined only if ids were given.
    y_ : ndarray of shape (n_samples_fit_,) or (n_samples_fit_, n_labels)
        Labels of the vector at each position. Defined only if labels were given.
    nbytes_ : int
        Bytes that the index holds: codes and the numbers stored with them, the decoder,
        and kept vectors, in memory or mapped from the file of the index. The file that
        `vectors` names does not count.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns. Defined only if `X` has column names that are all strings.

    See Also
    --------
    skhash.AdditiveQuantizer : The quantizer that makes the codes by default.
    HammingNeighbors, AsymmetricNeighbors : Search of codes from any source.
    sklearn.neighbors.NearestNeighbors : Exact search on the original vectors.

    Examples
    --------
    Four bytes per vector:

    >>> from skhash import HashedNeighbors
    >>> from skhash.datasets import load_digits_retrieval
    >>> data = load_digits_retrieval()
    >>> search = HashedNeighbors(4).fit(data.database)
    >>> distances, positions = search.kneighbors(data.query, 10)
    >>> positions.shape
    (297, 10)

    Re-rank 100 candidates by their vectors, which gives exact distances:

    >>> search = HashedNeighbors(4, rerank=100, vectors=True).fit(data.database)
    >>> distances, positions = search.kneighbors(data.query, 10)

    Bits compared by Hamming distance, from an encoder fitted on other rows:

    >>> from sklearn.frozen import FrozenEstimator
    >>> from skhash import ITQHash
    >>> encoder = FrozenEstimator(ITQHash(64, random_state=0).fit(data.train))
    >>> search = HashedNeighbors(encoder).fit(data.database)
    >>> search.kneighbors(data.query)[0].dtype.kind
    'i'
    """

    encoder: Count | Annotated[Any, HasMethods(["fit", "transform"])] = field(
        default=8, kw_only=False
    )
    n_neighbors: Count = 5
    metric: Metric = "euclidean"
    rerank: Count | None = None
    vectors: bool | str | PathLike | None = None
    index: Annotated[Any, HasMethods(["fit", "kneighbors"])] | None = None
    n_jobs: None | AnyInt = None
    verbose: bool = False

    _saved = {
        "encoder_": Part("transform"),
        "index_": Part("remove"),
        "decoder_": optional(Part("refine")),
        "metric_": Plain(str),
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, ids=None, **fit_params) -> Self:
        """Fit the encoder to the vectors, and index their codes.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors to index.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the vectors, for the encoder and for `score`.
        ids : array-like of shape (n_samples,), default=None
            Unique ids of the vectors, as in `HammingNeighbors.fit`. If `pairs` are
            given, the encoder gets the ids too.
        **fit_params
            Other parameters of the encoder's `fit`, such as `pairs` and `pair_labels`;
            with metadata routing enabled, those that the encoder requests.

        Returns
        -------
        self : HashedNeighbors
            The fitted search. If the call fails, the search is left as it was.

        Raises
        ------
        ValueError
            If the encoder or the index rejects its input, if only one of `rerank` and
            `vectors` is given, or if the file of vectors holds other rows than `X`.
        """
        self._check_options()
        kept = self._read_vectors(X)  # before minutes are spent
        if "pairs" in fit_params:
            fit_params["ids"] = ids
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).encoder.fit
        new = as_it_is(self)  # other threads may search meanwhile
        new.metric_ = self.metric
        validate_data(new, X, skip_check_array=True)
        rows = new._rows_to_encode(X)
        with steps_of("HashedNeighbors", self.verbose) as begin:
            encoder = self._new_encoder()
            begin(f"encoder, {_described(encoder)}")
            new.encoder_ = encoder.fit(rows, y, **fit_params)
            index = new._new_index()
            vars(new).pop("decoder_", None)
            if by_decoder(index) and quantizer_of(new.encoder_) is None:
                begin("decoder of the codes")
                new.decoder_ = new._fitted_decoder(rows)
            begin("codes of all rows")
            new.index_ = new._indexed(index, rows, y, ids, kept)
        self.__dict__ = vars(new)
        return self

    def partial_fit(self, X, y=None, *, ids=None) -> Self:
        """Add vectors to the index without refitting the encoder.

        The first call is the same as `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors to add.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the vectors; required if and only if `fit` was given labels.
        ids : array-like of shape (n_samples,), default=None
            Ids of the vectors; required if and only if `fit` was given ids.

        Returns
        -------
        self : HashedNeighbors
            The search with the vectors added.
        """
        if not hasattr(self, "index_"):
            return self.fit(X, y, ids=ids)
        return self._add(X, y, ids)

    def replace(self, X, y=None, *, ids) -> Self:
        """Replace the vectors that have the given ids, in one step.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The new vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels of the new vectors; required if and only if `fit` was given labels.
        ids : array-like of shape (n_samples,)
            Ids of the vectors to replace. The new vectors get the same ids.

        Returns
        -------
        self : HashedNeighbors
            The search with the vectors replaced; see `HammingNeighbors.replace`.

        Raises
        ------
        ValueError
            If the search has no ids, or one of `ids` is unknown or occurs twice. No
            vector is replaced then.
        """
        check_is_fitted(self)
        return self._add(X, y, ids, replaces=True)

    def remove(self, ids) -> Self:
        """Remove vectors, so that no search finds them any more.

        The other vectors keep their positions until `compact` is called.

        Parameters
        ----------
        ids : array-like of shape (n_ids,)
            Ids of the vectors to remove, or their positions if the search has no ids.

        Returns
        -------
        self : HashedNeighbors
            The search without these vectors.

        Raises
        ------
        ValueError
            If one of them is not in the index. No vector is removed then.
        """
        check_is_fitted(self)
        self.index_.remove(ids)
        return self

    def compact(self) -> Self:
        """Free the memory of removed vectors, and renumber the positions of the others.

        Returns
        -------
        self : HashedNeighbors
            The search. It finds the same vectors in the same order, at new positions.
        """
        check_is_fitted(self)
        self.index_.compact()
        return self

    def kneighbors(
        self, X=None, n_neighbors=None, return_distance=True, **options
    ) -> Any:
        """Find the vectors nearest to each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Queries. None finds the neighbours of each fitted vector, excluding the
            vector itself. If codes are decoded and no `vectors` are kept, None is not
            possible: pass the fitted vectors with ``exclude_self=True`` instead.
        n_neighbors : int, default=None
            Number of neighbours per query; by default the parameter `n_neighbors`.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        **options
            Options:

            - ``exclude_self=True``: `X` holds the fitted vectors, in order, and each is
              left out of the answer to itself;
            - `radius`: return only neighbours within this distance;
            - `mask`, `ids`, `exclude` and `return_ids`: see
              `HammingNeighbors.kneighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances to the decoded codes or, with `rerank`, to the original vectors:
            Euclidean distances, 1 minus the cosine, or minus the inner product. To
            squared Euclidean distances to decoded codes, a quarter of the squared error
            of the code is added, unless all vectors have unit length. For bits without
            `rerank`, Hamming distances. Only if `return_distance` is True.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions of the neighbours, ordered by (distance, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If fewer than `n_neighbors` vectors can be found and no `radius` is given.
        """
        return self._find("nearest", X, n_neighbors, return_distance, **options)

    def radius_neighbors(
        self, X=None, radius=None, return_distance=True, **options
    ) -> Any:
        """Find all vectors within a distance of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Queries, as in `kneighbors`.
        radius : int or float, default=None
            Largest distance, inclusive, in the units that `kneighbors` returns; by
            default the radius of the index. With `rerank`, only that many candidates
            are compared, so there are never more neighbours than that; a warning says
            for how many queries there may be more.
        return_distance : bool, default=True
            Whether to return distances as well as positions.
        **options
            The options of `kneighbors`, except `radius`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of arrays
            Distances as in `kneighbors`, ascending. Only if `return_distance` is True.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions of the neighbours, ordered by (distance, position).
        """
        return self._find("within", X, radius, return_distance, **options)

    def score(self, X, y=None):
        """Return the mean average precision of the search, given labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Labels of the queries. A fitted vector is relevant if it shares a label with
            the query.

        Returns
        -------
        score : float
            Mean average precision of the ranking that `kneighbors` returns, over all
            fitted vectors or, with `rerank`, over that many. For Hamming distances it
            is the expectation over the order of ties; see
            `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the search was fitted without labels, or `y` is None.
        """
        check_is_fitted(self)
        if by_decoder(self.index_) or self.rerank is not None:
            return score_search(self, self.index_, X, y, self.rerank)
        return self.index_.score(self._encode(self._scaled(X)), y)

    @property
    def n_samples_fit_(self) -> int:
        """Number of positions, including those of removed vectors."""
        return self.index_.n_samples_fit_

    @property
    def live_(self) -> np.ndarray:
        """False at the positions of removed vectors, True elsewhere."""
        return self.index_.live_

    @property
    def ids_(self) -> np.ndarray:
        """Id of the vector at each position, if ids were given."""
        return self.index_.ids_

    @property
    def y_(self) -> np.ndarray:
        """Labels of the vector at each position, if labels were given."""
        return self.index_.y_

    @property
    def nbytes_(self) -> int:
        """Bytes that the index holds, with vectors that are not in the user's file."""
        return self.index_.nbytes_

    def save(self, path) -> None:
        """Save the search to a directory, as safetensors and JSON.

        The file holds data only: loading it runs no code. A search that is already
        there is replaced atomically: if writing fails or the process is killed, the old
        one stays.

        Parameters
        ----------
        path : path-like
            Directory to write to. It is created if it does not exist.

        Raises
        ------
        FileExistsError
            If `path` is a file, or a directory with other content.
        TypeError
            If skhash cannot save the encoder, the index or the decoder, for example a
            Pipeline. Nothing is written then.
        ValueError
            If labels are neither numbers nor strings.

        Notes
        -----
        Parameters that are not plain data are left out with a warning, as in every
        ``save``.
        """
        check_is_fitted(self)
        save_estimator(as_it_is(self), path)  # whole, as a search sees it

    def get_metadata_routing(self) -> Any:
        """Return the metadata that `fit` requests for itself and for the encoder.

        Returns
        -------
        routing : MetadataRouter
            Routing of the parameters of `fit`.
        """
        encoder = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(encoder=self.encoder, method_mapping=encoder)
        )

    def _add(self, X, y, ids, **options):
        self._check_metric()
        columns = self._columns(self.index_, self._rows_to_encode(X))
        if self._has_vectors:
            columns["vectors"] = read_vectors(X)
        self.index_._add(columns.pop("X"), y, ids, **columns, **options)
        return self

    def _find(self, what, X, reach, return_distance, exclude_self=False, **question):
        """Ask the index by codes or by vectors; what : "nearest" or "within"."""
        if not hasattr(self, "index_"):
            check_is_fitted(self)  # takes as long as a small search
        check_params(self)
        self = as_it_is(self)  # another thread may fit it again meanwhile
        if self.n_jobs not in (None, self.index_.n_jobs):  # it was changed
            self.index_ = as_it_is(self.index_)
            self.index_.n_jobs = self.n_jobs
        self._check_metric()
        if exclude_self and X is not None and not by_decoder(self.index_):
            # Their codes are known, so the encoder checks nothing.
            validate_data(self, X, reset=False, skip_check_array=True)
        if what == "nearest":
            reach = self.n_neighbors if reach is None else reach
        if self.rerank is not None:
            return self._rerank(
                what, X, reach, return_distance, exclude_self, **question
            )
        if X is None and by_decoder(self.index_):
            X, exclude_self = np.asarray(self._own_vectors(self.index_._store)), True
        asked, options = self._question(X, exclude_self)
        index = self.index_
        search = index.kneighbors if what == "nearest" else index.radius_neighbors
        return search(asked, reach, return_distance, **options, **question)

    def _question(self, X, exclude_self):
        """Return what the index is asked with, and options."""
        if by_decoder(self.index_):
            _, rows = seen_by(self.encoder_, self._scaled(X), checks=True)
            return rows, {"exclude_self": exclude_self}
        if exclude_self:
            self.index_._store.check_all_live(X)
        # The codes of all fitted vectors are known.
        return None if exclude_self or X is None else self._encode(self._scaled(X)), {}

    def _rerank(
        self,
        what,
        X,
        reach,
        return_distance,
        exclude_self,
        radius=None,
        return_ids=False,
        **filters,
    ):
        """Compare the nearest codes by their vectors."""
        index = as_it_is(self.index_)  # another thread may change it meanwhile
        store = index._store
        if not store.has("vectors"):
            raise ValueError(
                f"rerank={self.rerank} needs the original vectors, and the search was "
                "fitted without them; fit it with vectors=True, or the path of a file."
            )
        if X is None:
            X, exclude_self = self._own_vectors(store), True
        selected, k = select(store, **filters), None
        if what == "nearest":
            k = index._check_n_neighbors(reach, exclude_self, selected, store, radius)
            check_candidates(k, self.rerank)
        else:
            radius = index.radius if reach is None else reach
        best = partial(smallest, k=k)
        if radius is not None:
            check_radius(radius)
            best = partial(within, radius=float(radius))
        n_found = min(int(self.rerank) + exclude_self, selected.n)
        parts = self._reranked(index, X, exclude_self, n_found, best, **filters)
        parts = zip(*parts, strict=True)  # distances, and positions
        if radius is None:
            neighbors = map(np.concatenate, parts)
        else:
            neighbors = [[row[:k] for row in chained(part)] for part in parts]
            if what == "within" and n_found < selected.n:
                self._warn_of_more(map(len, neighbors[0]))
        return index._answer(store, neighbors, return_distance, return_ids)

    def _reranked(self, index, X, exclude_self, n_found, best, **filters):
        """Yield distances and positions of the best candidates, by their vectors.

        X is read in chunks, as it may be in a file.
        """
        vectors, known = index._store["vectors"], None
        if exclude_self:
            index._store.check_all_live(X)
            if not by_decoder(index):
                known = index._store.packed
        scorer = VectorScorer(vectors, self.metric, self.n_jobs)
        row_bytes = 48 * max(1, n_found) + 16 * vectors.shape[1]
        X = X if hasattr(X, "__getitem__") else as_array(X)
        for rows in row_chunks(max(1, np.shape(X)[0]), row_bytes):
            part = as_rows(X, rows)
            queries = scorer.read_queries(part, "X")
            candidates = np.zeros((len(queries), 0), dtype=np.int64)
            if n_found:
                asked = self._question(part, False)[0] if known is None else known[rows]
                candidates = index.kneighbors(asked, n_found, False, **filters)
            scores = scorer.score_candidates(queries, candidates)
            # In float64, squares that differ may have the same root.
            distances = to_distances(scores, self.metric)
            if exclude_self:
                distances[self._left_out(candidates, rows.start)] = np.inf
            yield as_lists(best(distances, candidates))

    def _warn_of_more(self, counts):
        """Warn where all candidates are within the radius."""
        n_full = sum(count == self.rerank for count in counts)
        if n_full:
            warn(
                f"All rerank={self.rerank} candidates of {n_full:,} queries are within "
                "the radius, so more vectors may be; raise rerank to find them.",
                stacklevel=5,
            )

    def _left_out(self, candidates, first):
        """Return which candidates are no neighbours of the fitted vectors from `first`.

        They are the vector itself, or else the last one: with a filter, a vector need
        not be among its own candidates.
        """
        itself = candidates == first + np.arange(len(candidates))[:, None]
        without = ~itself.any(axis=1)
        itself[without, -1:] = candidates.shape[1] > self.rerank
        return itself

    def _own_vectors(self, store):
        """Return all fitted vectors, as queries; they may be in a file."""
        if not store.has("vectors"):
            raise ValueError(
                "X=None asks for the neighbours of the fitted vectors, which were not "
                "kept; pass them again: kneighbors(X, exclude_self=True)."
            )
        store.check_all_live()
        return store["vectors"]

    @property
    def _has_vectors(self):
        return self.index_._store.has("vectors")

    def _check_saved(self):
        if self.encoder_.n_features_in_ != self.n_features_in_:
            raise ValueError(f"encoder_ is not for {self.n_features_in_} columns.")
        fitted = getattr(self.index_, "metric", self.metric_)
        if self.metric_ != fitted or fitted not in get_args(Metric):
            raise ValueError(f"metric_={self.metric_!r} does not suit index_.")
        if self.rerank is not None and not self._has_vectors:
            raise ValueError(f"rerank={self.rerank} needs vectors, but none are saved.")

    def _check_options(self):
        """Raise ``ValueError`` for parameters that do not go together."""
        if (self.rerank is None) == bool(self.vectors):
            raise ValueError(
                f"rerank={self.rerank!r} and vectors={self.vectors!r} do not go "
                "together: re-ranking needs the number of candidates and the vectors. "
                "Set both, vectors to True or to the path of a file of X, or neither."
            )
        if not isinstance(self.index, BaseIndex | None):
            raise ValueError(
                f"index={self.index!r} is no index of codes; pass a HammingNeighbors, "
                "JaccardNeighbors, AsymmetricNeighbors or None."
            )
        for name, default in {"metric": "euclidean", "n_neighbors": 5}.items():
            of_index = getattr(self.index, name, default)
            of_search = getattr(self, name)
            if of_index not in (default, of_search):
                raise ValueError(
                    f"The index has {name}={of_index!r}, and the search {of_search!r}; "
                    f"set HashedNeighbors({name}={of_index!r}), which sets that of the "
                    "index too."
                )

    def _check_metric(self):
        """Raise ``ValueError`` if `metric` has changed, and needs other codes."""
        metrics = {self.metric, self.metric_}
        if len(metrics) == 2 and ("cosine" in metrics or by_decoder(self.index_)):
            raise ValueError(
                f"metric={self.metric!r}, but the search was fitted with "
                f"metric={self.metric_!r}; set it back, or fit again."
            )

    def _new_encoder(self):
        if not isinstance(self.encoder, Integral):
            return clone(self.encoder)
        from skhash.quantization import AdditiveQuantizer

        options = {"n_jobs": self.n_jobs, "verbose": self.verbose}
        return AdditiveQuantizer(self.encoder, **options)

    def _new_index(self):
        index = self.index
        if index is None:
            is_quantizer = quantizer_of(self.encoder_) is not None
            index = AsymmetricNeighbors() if is_quantizer else HammingNeighbors()
        index = clone(index).set_params(packed=True, n_neighbors=self.n_neighbors)
        if by_decoder(index):
            return index.set_params(metric=self.metric)
        if quantizer_of(self.encoder_) is not None:
            raise ValueError(
                f"{type(index).__name__} compares Hamming distances, but a quantizer's "
                "codes have no Hamming distances that mean anything; leave out the "
                "index, or use an encoder of bits such as ITQHash."
            )
        return index

    def _fitted_decoder(self, rows):
        from skhash.quantization import LinearDecoder

        decoder = LinearDecoder(n_jobs=self.n_jobs)
        _, seen = seen_by(self.encoder_, rows)
        return decoder.fit(seen, self.encoder_.transform(rows))

    def _indexed(self, index, rows, y=None, ids=None, vectors=None):
        """Return an index, fitted to the codes of rows."""
        columns = self._columns(index, rows)
        if by_decoder(index):
            columns["decoder"] = self._decoder
        return index._take_in(columns.pop("X"), y, ids, vectors=vectors, **columns)

    @property
    def _decoder(self):
        return getattr(self, "decoder_", None) or quantizer_of(self.encoder_)

    def _columns(self, index, rows):
        """Return the codes of rows, and with a decoder their errors."""
        codes = self._encode(rows)
        if not by_decoder(index):
            return {"X": codes}
        decoder, errors = read_decoder(self._decoder, index.metric), None
        _, seen = seen_by(self.encoder_, rows)
        if decoder.by_angle:
            seen = seen if hasattr(seen, "dtype") else as_array(seen)  # of a frame
            zeros = [self._are_zero(chunk, decoder) for _, chunk in dense_chunks(seen)]
            errors = np.where(np.concatenate(zeros), np.inf, 0.0)
        elif decoder.has_numbers:
            given = codes
            if quantizer_of(self.encoder_) is None:
                given = np.unpackbits(codes, axis=1, count=decoder.n_bits)
            errors = self._decoder.reconstruction_error(seen, given)
        return {"X": codes, "errors": errors}

    def _are_zero(self, rows, decoder):
        """Return which rows are zero; others must have unit length if the fit's had."""
        from skhash.quantization._base import have_unit_length

        zeros = are_zero(rows)
        is_bound = decoder.normalized and quantizer_of(self.encoder_) is not None
        if is_bound and not zeros.all() and not have_unit_length(rows):
            raise ValueError(
                "The quantizer was fitted to vectors of unit length, so the search "
                "compares directions, but these vectors have other lengths; scale them "
                "to unit length, or fit again with metric='cosine'."
            )
        return zeros

    def _over(self, X):
        """Return this search over other rows, for scorers."""
        other = as_it_is(self)
        kept = {"vectors": read_vectors(X)} if self._has_vectors else {}
        rows = self._rows_to_encode(X)
        other.index_ = self._indexed(clone(self.index_), rows, **kept)
        return other

    def _read_vectors(self, X):
        """Return the rows to keep, or the file that has them, or None."""
        if not self.vectors:
            return None
        if isinstance(self.vectors, bool | np.bool_):
            kept = read_vectors(X)
            return kept if isinstance(X, np.memmap) else np.array(kept)
        kept, n = KeptFile(self.vectors), np.shape(X)[0]
        if len(kept) != n:
            raise ValueError(
                f"{self.vectors} has {len(kept)} rows, but X has {n}; vectors names a "
                "file with exactly the rows of X, such as np.save(path, X) writes."
            )
        for rows in row_chunks(n, 16 * kept.shape[1]):
            if not are_same(kept.array[rows], check_array(as_rows(X, rows))):
                raise ValueError(
                    f"{self.vectors} holds other rows than X, in rows {rows.start} to "
                    f"{rows.stop - 1}; write it with np.save(path, X)."
                )
        return kept.summed()

    def _scaled(self, X):
        """Return rows as the encoder is given them; texts stay."""
        if self.metric != "cosine" or not is_numeric(X):
            return X
        rows = unit_rows(X)
        if hasattr(X, "iloc"):  # whose names the encoder checks
            return type(X)(rows, columns=X.columns)
        if hasattr(X, "with_columns"):
            return type(X)(rows, schema=X.columns)
        if hasattr(self, "feature_names_in_") and not isinstance(X, np.ndarray):
            validate_data(self, X, reset=False, skip_check_array=True)  # Arrow's names
        return rows

    def _rows_to_encode(self, X):
        """Return `_scaled` rows; for a quantizer, a view that scales what is read."""
        from skhash.quantization import AdditiveQuantizer

        encoder = getattr(self.encoder, "estimator", self.encoder)  # if it is frozen
        reads_views = isinstance(encoder, Integral | AdditiveQuantizer)
        is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
        if self.metric == "cosine" and reads_views and is_array:
            return RowView(X, prepare=unit_rows)
        return self._scaled(X)

    def _encode(self, rows):
        """Return the packed codes of rows."""
        if quantizer_of(self.encoder_) is not None:
            return np.asarray(self.encoder_.transform(rows))
        if hasattr(self.encoder_, "transform_packed"):
            return self.encoder_.transform_packed(rows)
        return pack_bits(self.encoder_.transform(rows))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.vectors
        if not isinstance(self.encoder, Integral):
            encoder = get_tags(self.encoder)
            tags.input_tags.sparse &= encoder.input_tags.sparse
            tags.target_tags.required = encoder.target_tags.required
        return tags


def as_it_is(estimator):
    """Return a shallow copy, without the checks that take as long as a small search."""
    other = object.__new__(type(estimator))
    vars(other).update(vars(estimator))
    return other


def _described(encoder):
    if isinstance(encoder, FrozenEstimator):
        return f"{type(encoder.estimator).__name__} as it is"
    return " ".join(repr(encoder).split())


def by_decoder(index):
    """Return whether an index compares uncompressed queries with decoded codes."""
    return isinstance(index, AsymmetricNeighbors)


def quantizer_of(encoder):
    """Return the quantizer that an encoder is, or ends in, or None."""
    from skhash.quantization import AdditiveQuantizer

    encoder, _ = seen_by(encoder, None)
    return encoder if isinstance(encoder, AdditiveQuantizer) else None


def as_rows(X, rows):
    """Return these rows of an array, a frame, a list or a file."""
    chosen = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    return np.asarray(chosen) if isinstance(chosen, KeptFile) else chosen


def are_same(kept, given):
    """Return whether rows are equal, up to the rounding of their types."""
    if kept.shape != given.shape:
        return False
    floats = [part.dtype for part in (kept, given) if part.dtype.kind == "f"]
    coarser = max(floats, key=lambda dtype: np.finfo(dtype).eps, default=None)
    with np.errstate(over="ignore"):
        return np.array_equal(kept.astype(coarser), given.astype(coarser))


def seen_by(encoder, X, checks=False):
    """Return a fitted encoder itself, and rows as it sees them.

    Parameters
    ----------
    encoder : estimator
        It may be frozen, or the last step of a Pipeline.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or None
    checks : bool, default=False
        Whether to refuse rows that the encoder would refuse.

    Returns
    -------
    encoder : estimator
    rows : {array-like, sparse matrix} of shape (n_samples, n_columns)
        With ``normalize=True`` of unit length.
    """
    if isinstance(encoder, FrozenEstimator):
        return seen_by(encoder.estimator, X, checks)
    if isinstance(encoder, Pipeline):
        if X is not None and len(encoder) > 1:
            X = encoder[:-1].transform(X)
        return seen_by(encoder[-1], X, checks)
    if X is None:
        return encoder, None
    if checks and not is_checked(encoder, X):
        X = validate_data(encoder, X, reset=False, accept_sparse="csr", dtype=None)
    return encoder, unit_rows(X) if getattr(encoder, "normalize", False) else X
