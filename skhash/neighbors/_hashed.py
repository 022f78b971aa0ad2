"""`HashedNeighbors`: vectors in, neighbours out."""

from copy import copy
from dataclasses import field
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Annotated, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skhash.codes import pack_bits
from skhash.neighbors._asymmetric import AsymmetricNeighbors, chained
from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._index import BaseIndex, score_codes, score_search
from skhash.neighbors._params import check_candidates, check_params, check_radius
from skhash.neighbors.search.algorithm import as_lists
from skhash.neighbors.search.asymmetric import largest_score, to_distances, within
from skhash.neighbors.search.vectors import VectorScorer
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.kept_file import KeptFile
from skhash.neighbors.store.rows import read_vectors
from skhash.neighbors.store.select import select
from skhash.numerics._nearest import smallest
from skhash.persistence.estimators import load_estimator, save_estimator
from skhash.persistence.schema import Part, optional
from skhash.utils._sklearn import HasMethods, fit_context
from skhash.utils.arrays import (
    are_zero,
    as_array,
    check_array,
    is_numeric,
    unit_rows,
    validate_data,
)
from skhash.utils.chunks import row_chunks
from skhash.utils.parameters import AnyInt, Count, Metric, with_parameters
from skhash.utils.steps import steps_of


@with_parameters(kw_only=True)
class HashedNeighbors(GraphMixin, BaseEstimator):
    """Nearest neighbours of vectors, kept in a few bytes each.

    A quantizer or an encoder makes a code of each vector, and an index searches the
    codes. ``HashedNeighbors(8)`` keeps eight bytes a vector, and compares queries with
    the vectors that the codes decode to. With `rerank`, the nearest of these are
    compared by the vectors themselves.

    Parameters
    ----------
    encoder : int or estimator, default=8
        A number of bytes, of a `skhash.AdditiveQuantizer`. Or a quantizer; or an
        encoder, such as `ITQHash`, with `transform` to bits 0/1 or `transform_packed`;
        or a Pipeline that ends in one. An estimator is cloned and fitted, even if it is
        fitted already. To use a fitted one, wrap it in
        `sklearn.frozen.FrozenEstimator`.
    n_neighbors : int, default=5
        Neighbours that `kneighbors` and `transform` find.
    metric : {"euclidean", "inner_product", "cosine"}, default="euclidean"
        How vectors are compared. With "cosine", rows and queries are scaled to unit
        length before they are encoded. Codes of bits are compared by Hamming distance
        all the same.
    rerank : int, default=None
        How many of the nearest codes are compared by their vectors, for each query. It
        needs `vectors`.
    vectors : bool or path-like, default=None
        The vectors that `rerank` compares. True keeps a copy of `X`, in memory and in
        the saved search; a memory map stays on disk. A path names your own file of the
        rows of `X`, ``.npy`` or another that `skhash.datasets.open_vectors` maps, but
        for HDF5. It is read in place, and never copied.
    index : HammingNeighbors or AsymmetricNeighbors, default=None
        It is cloned, and always holds packed codes. None stands for
        ``AsymmetricNeighbors()`` with a quantizer, and for ``HammingNeighbors()`` with
        an encoder. ``AsymmetricNeighbors()`` with an encoder compares uncompressed
        queries with its codes, by a `skhash.quantization.LinearDecoder` that is fitted
        to these.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.
    verbose : bool, default=False
        Whether `fit` prints its steps, with the time that has passed.

    Attributes
    ----------
    encoder_ : estimator
        The fitted encoder or quantizer.
    index_ : HammingNeighbors or AsymmetricNeighbors
        The fitted index.
    decoder_ : LinearDecoder
        The decoder of the codes; only with an encoder and an `AsymmetricNeighbors`.
    n_samples_fit_ : int
        The number of positions: of vectors, including those removed since the last
        `compact`.
    live_ : ndarray of shape (n_samples_fit_,), bool
        False for a vector that was removed.
    ids_ : ndarray of shape (n_samples_fit_,), int64 or str
        The ids; only if they were given.
    nbytes_ : int
        Bytes of the index: of the codes with all that is kept beside them, the decoder,
        and kept vectors. Memory-mapped files count.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    skhash.AdditiveQuantizer : Codes of so many bytes.
    HammingNeighbors, AsymmetricNeighbors : Search among codes from any source.
    sklearn.neighbors.NearestNeighbors : Exact search by vectors.

    Examples
    --------
    Four bytes a vector:

    >>> from skhash import HashedNeighbors
    >>> from skhash.datasets import load_digits_retrieval
    >>> data = load_digits_retrieval()
    >>> search = HashedNeighbors(4).fit(data.database)
    >>> distances, positions = search.kneighbors(data.query, 10)
    >>> positions.shape
    (297, 10)

    The 100 nearest of these, by their vectors, whose distances are exact:

    >>> search = HashedNeighbors(4, rerank=100, vectors=True).fit(data.database)
    >>> distances, positions = search.kneighbors(data.query, 10)

    Bits, by Hamming distance, of an encoder that is fitted to other rows:

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
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, ids=None, **fit_params) -> Self:
        """Fit the encoder, and index the codes of the same rows.

        :doc:`/benchmarks/encoding` has the seconds of fits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Labels, for the encoder and the index.
        ids : array-like of shape (n_samples,), default=None
            Names of the vectors, as in `HammingNeighbors.fit`. An encoder that accepts
            `pairs` gets them too.
        **fit_params
            Other parameters of the encoder's `fit`, such as `pairs` and `pair_labels`.
            With metadata routing enabled, those that it requests.

        Returns
        -------
        self : HashedNeighbors
            The fitted search. If the call fails, it is as before.

        Raises
        ------
        ValueError
            If encoder or index refuse what they are given; if one of `rerank` and
            `vectors` is given without the other; if the file of vectors has other rows.
        """
        validate_data(self, X, skip_check_array=True)
        self._check_options()
        kept = self._read_vectors(X)  # before minutes are spent
        if "pairs" in fit_params:
            fit_params["ids"] = ids
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).encoder.fit
        rows = self._scaled(X)
        with steps_of("HashedNeighbors", self.verbose) as begin:
            encoder = self._new_encoder()
            begin(f"encoder, {_described(encoder)}")
            self.encoder_ = encoder.fit(rows, y, **fit_params)
            index = self._new_index()
            vars(self).pop("decoder_", None)
            if by_decoder(index) and quantizer_of(self.encoder_) is None:
                begin("decoder of the codes")
                self.decoder_ = self._fitted_decoder(rows)
            begin("codes of all rows")
            self.index_ = self._indexed(index, rows, y, ids, kept)
        return self

    def partial_fit(self, X, y=None, *, ids=None) -> Self:
        """Append vectors; the encoder stays as it is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors.
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
        return self._add(X, y, ids)

    def replace(self, X, y=None, *, ids) -> Self:
        """Replace the vectors with these ids by others, in one step.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The new vectors.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Their labels, if the vectors have labels, and only then.
        ids : array-like of shape (n_samples,)
            The ids of the vectors to replace, which the new ones keep.

        Returns
        -------
        self : HashedNeighbors
            The search with these vectors replaced, as by `HammingNeighbors.replace`.

        Raises
        ------
        ValueError
            If the search has no ids, or one of `ids` is not in it or occurs twice. Then
            none is replaced.
        """
        check_is_fitted(self)
        return self._add(X, y, ids, replaces=True)

    def remove(self, ids) -> Self:
        """Remove vectors: no search finds them any more.

        The positions of the other vectors stay as they are, until `compact`.

        Parameters
        ----------
        ids : array-like of shape (n_ids,)
            Ids of the vectors, or their positions where no ids were given.

        Returns
        -------
        self : HashedNeighbors
            The search without these vectors.

        Raises
        ------
        ValueError
            If one is not in the index. Then none is removed.
        """
        check_is_fitted(self)
        self.index_.remove(ids)
        return self

    def compact(self) -> Self:
        """Free the memory of removed vectors; the others move up to fill the gaps.

        Returns
        -------
        self : HashedNeighbors
            The search, whose answers are the same but for the positions.
        """
        check_is_fitted(self)
        self.index_.compact()
        return self

    def kneighbors(
        self, X=None, n_neighbors=None, return_distance=True, **question
    ) -> Any:
        """Find the vectors nearest to each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Vectors. None asks for the neighbours of each fitted vector, itself left
            out; except where codes are decoded and no `vectors` are kept: pass them
            once more, with ``exclude_self=True``.
        n_neighbors : int, default=None
            The default is the parameter.
        return_distance : bool, default=True
            Whether to return the distances too.
        **question
            `exclude_self`, whether row i of `X` is the fitted vector at position i, for
            all of them, and each is left out of its answer; `radius`, `mask`, `ids`,
            `exclude` and `return_ids`, as in `HammingNeighbors.kneighbors`. A `radius`
            limits the distances that are returned.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances by `metric`, from decoded codes or, with `rerank`, from vectors:
            Euclidean, 1 less the cosine, or minus the inner product. Of bits, Hamming
            distances. Only if `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions among the fitted vectors, ordered by (distance, position). With
            `return_ids`, their ids.

        Raises
        ------
        ValueError
            If there are fewer vectors to find than `n_neighbors`, and no `radius` is
            given.
        """
        return self._find("nearest", X, n_neighbors, return_distance, **question)

    def radius_neighbors(
        self, X=None, radius=None, return_distance=True, **question
    ) -> Any:
        """Find all vectors within a radius of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            As in `kneighbors`.
        radius : int or float, default=None
            The largest distance, inclusive, as `kneighbors` returns it. The default is
            the one of the index. With `rerank`, only so many codes are looked at.
        return_distance : bool, default=True
            Whether to return the distances too.
        **question
            As in `kneighbors`, but for its `radius`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of arrays
            Those of `kneighbors`, ascending. Only if `return_distance`.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions among the fitted vectors, ordered by (distance, position).
        """
        return self._find("within", X, radius, return_distance, **question)

    @available_if(lambda self: self.index is None or isinstance(self.index, BaseIndex))
    def score(self, X, y):
        """Return the mean average precision of what the search finds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Vectors.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Their labels. A fitted vector that shares one is relevant.

        Returns
        -------
        score : float
            That of the ranking of all fitted vectors, or with `rerank` of so many, as
            `kneighbors` orders them; by Hamming distance in expectation over the order
            of equally near codes. See `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the search was fitted without labels.
        """
        check_is_fitted(self)
        if by_decoder(self.index_) or self.rerank is not None:
            return score_search(self, self.index_, X, y, self.rerank)
        return score_codes(self.index_, self._encode(self._scaled(X)), y)

    @property
    def n_samples_fit_(self) -> int:
        """The number of positions."""
        return self.index_.n_samples_fit_

    @property
    def live_(self) -> np.ndarray:
        """Whether the vector at each position was not removed."""
        return self.index_.live_

    @property
    def ids_(self) -> np.ndarray:
        """The ids by position, where they were given."""
        return self.index_.ids_

    @property
    def nbytes_(self) -> int:
        """Bytes of the index and of kept vectors."""
        return self.index_.nbytes_

    def save(self, path) -> None:
        """Write the search to a directory, in a file of JSON and safetensors.

        The file is data only: loading it runs no code. A search that was there
        before is replaced at once, or not at all if writing fails or the process is
        killed.

        Parameters
        ----------
        path : path-like
            A directory; made if it is missing.

        Raises
        ------
        FileExistsError
            If `path` is a file, or a directory with other content.
        TypeError
            If encoder, index or decoder are none that skhash can save, such as a
            Pipeline. Then nothing is written.
        ValueError
            If labels are neither numbers nor strings.

        Notes
        -----
        As in every ``save``, parameters that are not plain data are left out with a
        warning.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @classmethod
    def load(cls, path, *, mmap=False, verify=True) -> Self:
        """Load a search that `save` wrote.

        Parameters
        ----------
        path : path-like
            The directory that was given to `save`.
        mmap : bool, default=False
            Whether to map the arrays of the index into memory instead of reading them,
            as `HammingNeighbors.load` does. Encoder and decoder are read.
        verify : bool, default=True
            Whether to compare the content of the index with its checksums; with
            `mmap`, before the first answer. All else is always checked.

        Returns
        -------
        search : HashedNeighbors
            The search that was saved. Its parameters are estimators that are not
            fitted, but for a FrozenEstimator.

        Raises
        ------
        FileNotFoundError
            If `path` holds nothing that was saved, or the file of vectors is gone.
        ValueError
            If a file is damaged, changed, a link, or was written by another version.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> from skhash import HashedNeighbors, ITQHash
        >>> X, _ = load_digits(return_X_y=True)
        >>> search = HashedNeighbors(ITQHash(32, random_state=0)).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     search.save(folder)
        ...     loaded = HashedNeighbors.load(folder)
        >>> loaded
        HashedNeighbors(encoder=ITQHash(n_bits=32, random_state=0))
        >>> bool((loaded.kneighbors(X)[1] == search.kneighbors(X)[1]).all())
        True
        """
        return load_estimator(path, cls, mmap=mmap, verify=verify)

    def get_metadata_routing(self) -> Any:
        """Return the metadata that `fit` requests for itself and for the encoder.

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

    def _add(self, X, y, ids, **options):
        columns = self._columns(self.index_, self._scaled(X))
        if self._has_vectors:
            columns["vectors"] = read_vectors(X)
        self.index_._add(columns.pop("X"), y, ids, **columns, **options)
        return self

    def _find(self, what, X, reach, return_distance, exclude_self=False, **question):
        """Ask the index by codes or by vectors; what : "nearest" or "within"."""
        if not hasattr(self, "index_"):
            check_is_fitted(self)  # takes as long as a small search
        check_params(self)
        if what == "nearest":
            reach = self.n_neighbors if reach is None else reach
        if self.rerank is not None:
            return self._rerank(
                what, X, reach, return_distance, exclude_self, **question
            )
        if X is None and by_decoder(self.index_):
            X, exclude_self = self._own_vectors(self.index_._store), True
            X = np.asarray(X)
        asked, options = self._question(X, exclude_self)
        index = self.index_
        search = index.kneighbors if what == "nearest" else index.radius_neighbors
        return search(asked, reach, return_distance, **options, **question)

    def _question(self, X, exclude_self):
        """Return what the index is asked with, and options."""
        if by_decoder(self.index_):
            _, rows = seen_by(self.encoder_, self._scaled(X), checks=True)
            return rows, {"exclude_self": exclude_self}
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
        index = copy(self.index_)  # another thread may change it meanwhile
        store = index._store
        if not store.has("vectors"):
            raise ValueError(
                f"rerank={self.rerank} compares vectors, and the search was fitted "
                "without; fit it with vectors=True, or with the path of a file."
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
            most = largest_score(radius, self.metric, VectorScorer.dtype)
            best = partial(within, radius=most)
        n_found = min(self.rerank + exclude_self, selected.n)
        parts = self._reranked(index, X, exclude_self, n_found, best, **filters)
        parts = zip(*parts, strict=True)  # distances, and positions
        if radius is None:
            neighbors = map(np.concatenate, parts)
        else:
            neighbors = ([row[:k] for row in chained(part)] for part in parts)
        return index._answer(store, neighbors, return_distance, return_ids)

    def _reranked(self, index, X, exclude_self, n_found, best, **filters):
        """Yield distances and positions of the best candidates, by their vectors.

        X is read in chunks, as it may be in a file.
        """
        vectors, known = index._store["vectors"], None
        if exclude_self:
            index._store.check_all_live()
            check_consistent_length(X, vectors)
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
            if exclude_self:
                scores[self._left_out(candidates, rows.start)] = np.inf
            scores, positions = as_lists(best(scores, candidates))
            yield to_distances(scores, self.metric), positions

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
                "X=None asks for the neighbours of the fitted vectors, and they are "
                "not kept; pass them, kneighbors(X, exclude_self=True)."
            )
        store.check_all_live()
        return store["vectors"]

    @property
    def _has_vectors(self):
        return self.index_._store.has("vectors")

    def _check_saved(self):
        if self.encoder_.n_features_in_ != self.n_features_in_:
            raise ValueError(f"encoder_ is not for {self.n_features_in_} columns.")
        if self.rerank is not None and not self._has_vectors:
            raise ValueError("It has no vectors, which rerank needs.")

    def _check_options(self):
        """Raise ``ValueError`` for parameters that do not go together."""
        if (self.rerank is None) == bool(self.vectors):
            raise ValueError(
                f"rerank={self.rerank!r} and vectors={self.vectors!r}: how many codes "
                "are compared by their vectors, and these, are given together. Set "
                "vectors=True, or to the path of a file of X, or leave out both."
            )
        own = getattr(self.index, "metric", "euclidean")
        if own not in ("euclidean", self.metric):
            raise ValueError(
                f"The index has metric={own!r}, and the search {self.metric!r}; set "
                f"HashedNeighbors(metric={own!r}), which sets that of the index."
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
        if self.n_jobs is not None:
            index.set_params(n_jobs=self.n_jobs)
        if by_decoder(index):
            return index.set_params(metric=self.metric)
        if quantizer_of(self.encoder_) is not None:
            raise ValueError(
                f"The codes of a quantizer have no Hamming distances, which "
                f"{type(index).__name__} compares; leave out the index, or use an "
                "encoder of bits."
            )
        return index

    def _fitted_decoder(self, rows):
        from skhash.quantization import LinearDecoder

        decoder = LinearDecoder(n_alternations=0, n_jobs=self.n_jobs)
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
            errors = np.where(are_zero(seen), np.inf, 0.0)
        elif decoder.has_numbers:
            given = np.unpackbits(codes, axis=1, count=decoder.n_bits)
            given = codes if quantizer_of(self.encoder_) is not None else given
            errors = self._decoder.reconstruction_error(seen, given)
        return {"X": codes, "errors": errors}

    def _over(self, X):
        """Return this search over other rows, for scorers."""
        other = copy(self)
        kept = {"vectors": read_vectors(X)} if self._has_vectors else {}
        other.index_ = self._indexed(clone(self.index_), self._scaled(X), **kept)
        return other

    def _read_vectors(self, X):
        """Return the rows to keep, or the file that has them, or None."""
        if not self.vectors:
            return None
        if isinstance(self.vectors, bool):
            kept = read_vectors(X)
            return kept if isinstance(X, np.memmap) else np.array(kept)
        kept, n = KeptFile(self.vectors), np.shape(X)[0]
        if len(kept) != n:
            raise ValueError(
                f"{self.vectors} has {len(kept)} rows, and X {n}. vectors names a file "
                "of the rows to fit: np.save(path, X)."
            )
        for rows in row_chunks(n, 16 * kept.shape[1]):
            if not are_same(kept.array[rows], check_array(as_rows(X, rows))):
                raise ValueError(
                    f"{self.vectors} holds other rows than X, in rows {rows.start} to "
                    f"{rows.stop - 1}."
                )
        return kept.summed()

    def _scaled(self, X):
        """Return rows as the encoder is given them; texts stay."""
        return unit_rows(X) if self.metric == "cosine" and is_numeric(X) else X

    def _encode(self, rows):
        """Return the packed codes of rows."""
        if quantizer_of(self.encoder_) is not None:
            return np.asarray(self.encoder_.transform(rows))
        if hasattr(self.encoder_, "transform_packed"):
            return self.encoder_.transform_packed(rows)
        return pack_bits(self.encoder_.transform(rows))

    @property
    def _n_neighbors(self):
        check_is_fitted(self)
        return int(self.n_neighbors)

    @property
    def _n_features_out(self):
        return self.index_.n_samples_fit_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.vectors
        if not isinstance(self.encoder, Integral):
            encoder = get_tags(self.encoder)
            tags.input_tags.sparse &= encoder.input_tags.sparse
            tags.target_tags.required = encoder.target_tags.required
        return tags


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
    if checks:
        X = validate_data(encoder, X, reset=False, accept_sparse=True, dtype=None)
    return encoder, unit_rows(X) if getattr(encoder, "normalize", False) else X
