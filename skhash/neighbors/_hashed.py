"""`HashedNeighbors`: an encoder and an index as one estimator."""

from copy import copy
from numbers import Integral
from os import PathLike

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
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skhash.codes import pack_bits, packed_width
from skhash.neighbors._asymmetric import AsymmetricNeighbors
from skhash.neighbors._graphs import GraphMixin
from skhash.neighbors._hamming import HammingNeighbors
from skhash.neighbors._index import BaseIndex, score_codes, score_search
from skhash.neighbors.store.decoder import read_decoder
from skhash.neighbors.store.kept_file import KeptFile
from skhash.persistence.estimators import load_estimator, save_estimator
from skhash.persistence.schema import Part, optional
from skhash.utils._sklearn import HasMethods, Interval, StrOptions, fit_context
from skhash.utils.arrays import are_zero, check_array, unit_rows, validate_data
from skhash.utils.chunks import row_chunks
from skhash.utils.steps import steps_of


class HashedNeighbors(GraphMixin, BaseEstimator):
    """Nearest neighbours of real vectors, found by their codes.

    An encoder makes the codes, and an index searches them: `HammingNeighbors` by codes
    of the queries, `AsymmetricNeighbors` by uncompressed queries. The latter uses a
    `skhash.quantization.LinearDecoder`, which is fitted to the codes and refines them,
    or with `keep_vectors` the real vectors.

    Decoded vectors are those that the encoder sees: of unit length with its
    ``normalize=True``, and after the other steps of a Pipeline. Queries are transformed
    in the same way. Rows of unit length are compared by the angle, with any `metric`
    of the index. `keep_vectors` keeps vectors unchanged;
    set the `metric` of the index to the one that the codes follow.

    Parameters
    ----------
    encoder : estimator
        It has `transform`, to bits 0/1, or `transform_packed`, and may be a Pipeline.
        It is cloned and fitted, even if it is fitted already. To use a fitted one, wrap
        it in `sklearn.frozen.FrozenEstimator`.
    index : HammingNeighbors, AsymmetricNeighbors or PrefixNeighbors, default=None
        It is cloned, and always holds packed codes. None stands for
        ``HammingNeighbors()``.
    n_neighbors : int, default=None
        Default number of neighbours. None uses the `n_neighbors` of the index.
    decoder : LinearDecoder, AdditiveQuantizer or "encoder", default=None
        Decoder of the codes, for `AsymmetricNeighbors`. It is cloned, fitted to the
        encoder's codes, and refines those of the database: they decode nearer to the
        vectors, and their Hamming distances say less. Its `n_alternations` and
        `n_restarts` set the time of this. "encoder" uses the codebook of the encoder,
        if it has one, without refining codes. None stands for
        `skhash.AdditiveQuantizer`, which makes codes of the encoder's length for
        uncompressed queries only. If the index has `n_candidates`, found by Hamming
        distance, None stands for ``LinearDecoder(n_alternations=1)``: its codes serve
        both.
    keep_vectors : bool or path-like, default=False
        For `AsymmetricNeighbors`, whether it compares real vectors: those of its
        `n_candidates`, found by a `decoder`, or without one by Hamming distance. True
        keeps all vectors, with the bytes of `X`, in memory and in the saved index; with
        a decoder, after the steps of the encoder. A path names your own ``.npy`` file
        of these rows, which is read in place, and never copied.
    verbose : bool, default=False
        Whether `fit` prints its steps, with the time that has passed, and the error
        after each alternation of a decoder that is not given.

    Attributes
    ----------
    encoder_ : estimator
        The fitted encoder.
    index_ : HammingNeighbors, AsymmetricNeighbors or PrefixNeighbors
        The fitted index.
    decoder_ : LinearDecoder or AdditiveQuantizer
        The fitted decoder; only if the index has one, and not that of the encoder.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    HammingNeighbors : Search among codes from any source.
    AsymmetricNeighbors : The same, with real vectors as queries.
    sklearn.neighbors.NearestNeighbors : Exact search by real vectors.

    Examples
    --------
    >>> from skhash import HashedNeighbors, ITQHash
    >>> from skhash.datasets import load_digits_retrieval
    >>> from skhash.neighbors import AsymmetricNeighbors
    >>> data = load_digits_retrieval()
    >>> encoder = ITQHash(32, random_state=0)
    >>> search = HashedNeighbors(encoder, AsymmetricNeighbors(10)).fit(data.train)
    >>> distances, positions = search.kneighbors(data.query)
    >>> positions.shape
    (297, 10)

    The 100 codes that are nearest by Hamming distance, in the order of their vectors:

    >>> index = AsymmetricNeighbors(10, n_candidates=100)
    >>> search = HashedNeighbors(encoder, index, keep_vectors=True).fit(data.train)

    The 100 codes that decode to the nearest vectors, ordered by the real vectors:

    >>> from skhash.quantization import LinearDecoder
    >>> search = HashedNeighbors(
    ...     encoder, index, decoder=LinearDecoder(), keep_vectors=True
    ... ).fit(data.train)

    An encoder that was fitted before, as it is:

    >>> from sklearn.frozen import FrozenEstimator
    >>> fitted = FrozenEstimator(encoder.fit(data.train))
    >>> search = HashedNeighbors(fitted, AsymmetricNeighbors(10)).fit(data.database)
    >>> search.encoder_ is fitted
    True
    """

    _parameter_constraints: dict = {
        "encoder": [HasMethods(["fit", "transform"])],
        "index": [HasMethods(["fit", "kneighbors"]), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "decoder": [HasMethods("reconstruction_error"), StrOptions({"encoder"}), None],
        "keep_vectors": ["boolean", str, PathLike],
        "verbose": ["boolean"],
    }
    _saved = {
        "encoder_": Part("transform"),
        "index_": Part("remove"),
        "decoder_": optional(Part("reconstruction_error")),
    }

    def __init__(
        self,
        encoder,
        index=None,
        *,
        n_neighbors=None,
        decoder=None,
        keep_vectors=False,
        verbose=False,
    ):
        self.encoder = encoder
        self.index = index
        self.n_neighbors = n_neighbors
        self.decoder = decoder
        self.keep_vectors = keep_vectors
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, ids=None, **fit_params):
        """Fit the encoder, and index the codes of the same rows.

        :doc:`/benchmarks/encoding` has the seconds of fits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors. With `keep_vectors` the index keeps them as they are.
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
            The fitted search.

        Raises
        ------
        ValueError
            If encoder or index refuse what they are given; if the index has no use for
            a decoder or for vectors; if the file of vectors has other rows.
        """
        validate_data(self, X, skip_check_array=True)
        index = HammingNeighbors() if self.index is None else clone(self.index)
        index.set_params(packed=True)
        if self.n_neighbors is not None:
            index.set_params(n_neighbors=self.n_neighbors)
        self._check_index(index)
        if not isinstance(self.keep_vectors, bool):
            self._kept_file(X)  # before minutes are spent
        if "pairs" in fit_params:
            fit_params["ids"] = ids
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).encoder.fit
        with steps_of("HashedNeighbors", self.verbose) as begin:
            begin(f"encoder, {_described(self.encoder)}")
            self.encoder_ = clone(self.encoder).fit(X, y, **fit_params)
            vars(self).pop("decoder_", None)
            if self._decodes(index) and self.decoder != "encoder":
                begin("decoder of the codes")
                self._fit_decoder(X, index)
            begin("codes of all rows")
            self.index_ = self._indexed(index, X, y, ids)
        return self

    def partial_fit(self, X, y=None, *, ids=None):
        """Append vectors; the encoder stays as it is.

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
        if hasattr(self.index_, "vectors_"):
            arguments["vectors"] = check_array(self._compared(X))
        codes, errors = self._encode_database(X, self.index_)
        self.index_.partial_fit(codes, y, **arguments, **errors)
        return self

    def remove(self, ids):
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

    def compact(self):
        """Free the memory of removed vectors; the others move up to fill the gaps.

        Returns
        -------
        self : HashedNeighbors
            The search, whose answers are the same but for the positions.
        """
        check_is_fitted(self)
        self.index_.compact()
        return self

    def kneighbors(self, X=None, n_neighbors=None, return_distance=True, **question):
        """Find the vectors nearest to each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Real vectors. None asks for the neighbours of each fitted vector, itself
            left out; but for an index that needs the vectors and does not keep them:
            pass them once more, with ``own=True``.
        n_neighbors : int, default=None
            The default is the one of the index.
        return_distance : bool, default=True
            Whether to return the distances too.
        **question
            Other parameters of the index's `kneighbors`, such as `mask` and `ids`.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Hamming distances, or the scores of `AsymmetricNeighbors`. Only if
            `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors), int64
            Positions among the fitted vectors, ordered by (distance, position).
        """
        return self._find("kneighbors", X, n_neighbors, return_distance, question)

    def radius_neighbors(self, X=None, radius=None, return_distance=True, **question):
        """Find all vectors within a radius of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            As in `kneighbors`.
        radius : int or float, default=None
            The largest distance, inclusive: a Hamming distance, or a score of
            `AsymmetricNeighbors`. The default is the one of the index.
        return_distance : bool, default=True
            Whether to return the distances too.
        **question
            Other parameters of the index's `radius_neighbors`.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of arrays
            Those of `kneighbors`, ascending. Only if `return_distance`.
        indices : ndarray of shape (n_queries,) of int64 arrays
            Positions among the fitted vectors, ordered by (distance, position).
        """
        return self._find("radius_neighbors", X, radius, return_distance, question)

    @available_if(lambda self: self.index is None or isinstance(self.index, BaseIndex))
    def score(self, X, y):
        """Return the mean average precision of what the search finds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Real vectors.
        y : array-like of shape (n_queries,) or (n_queries, n_labels)
            Their labels. A fitted vector that shares one is relevant.

        Returns
        -------
        score : float
            That of the ranking of all fitted vectors, or of the `n_candidates`, as
            `kneighbors` orders them; by Hamming distance in expectation over the order
            of equally near codes. See `skhash.metrics.mean_average_precision_score`.

        Raises
        ------
        ValueError
            If the search was fitted without labels.
        """
        check_is_fitted(self)
        if isinstance(self.index_, AsymmetricNeighbors):
            return score_search(self, X, y)
        return score_codes(self.index_, self._encode(X), y)

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
    def load(cls, path, *, mmap=False, verify=True):
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
            If `path` holds nothing that was saved, or the file of `keep_vectors` is
            gone.
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

    def get_metadata_routing(self):
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

    def _find(self, search, X, reach, return_distance, question):
        """Ask the index by one of its methods."""
        check_is_fitted(self)
        index = self.index_
        if X is None:
            pass
        elif self._decodes(index) and not index._finds_by_codes(index._store):
            _, X = seen_by(self.encoder_, X, checks=True)
        elif isinstance(index, AsymmetricNeighbors):
            question["codes"], X = self._encode(X), self._compared(X)
        else:
            X = self._encode(X)
        return getattr(index, search)(X, reach, return_distance, **question)

    def _check_saved(self):
        if self.encoder_.n_features_in_ != self.n_features_in_:
            raise ValueError(f"encoder_ is not for {self.n_features_in_} columns.")

    def _check_index(self, index):
        """Raise ``ValueError`` for parameters that the index does not support."""
        given = [name for name in ("decoder", "keep_vectors") if getattr(self, name)]
        if given and not isinstance(index, AsymmetricNeighbors):
            raise ValueError(
                f"{given[0]} says what AsymmetricNeighbors compares queries with, and "
                f"{type(index).__name__} compares codes; leave it out, or use an "
                "AsymmetricNeighbors as index."
            )
        if len(given) == 2 and index.n_candidates is None:
            raise ValueError(
                "With keep_vectors=True the decoder finds candidates, whose vectors "
                "are then compared, and the index says how many: set its n_candidates."
            )

    def _decodes(self, index):
        """Return whether the index compares decoded codes."""
        by_vectors = self.keep_vectors and self.decoder is None
        return isinstance(index, AsymmetricNeighbors) and not by_vectors

    def _indexed(self, index, X, y=None, ids=None):
        """Return an index, fitted to the codes of rows and what compares them."""
        arguments = {} if ids is None else {"ids": ids}
        if self._decodes(index):
            decoder = getattr(self, "decoder_", None)
            arguments["decoder"] = decoder or seen_by(self.encoder_, X)[0]
        if self.keep_vectors:
            arguments["vectors"] = self._kept_vectors(X, index.metric)
        codes, errors = self._encode_database(X, index)
        return index.fit(codes, y, **arguments, **errors)

    def _over(self, X):
        """Return this search over other rows, for scorers."""
        other = copy(self)
        other.keep_vectors = bool(self.keep_vectors)
        other.index_ = other._indexed(clone(self.index_), X)
        return other

    def _kept_vectors(self, X, metric):
        """Return the rows to keep, or the file that has them."""
        if isinstance(self.keep_vectors, bool):
            return check_array(self._compared(X))
        kept = self._kept_file(X).summed()
        for rows in row_chunks(len(kept), 16 * kept.shape[1]):
            part = X[rows]
            given = self._compared(part)
            how = {"by_angle": metric == "cosine", "computed": given is not part}
            if not are_same(kept.array[rows], check_array(given), **how):
                raise ValueError(
                    f"{self.keep_vectors} holds other rows than X, as the encoder sees "
                    f"them, in rows {rows.start} to {rows.stop - 1}."
                )
        return kept

    def _kept_file(self, X):
        """Return the file to keep, of as many rows as `X`."""
        kept, n = KeptFile(self.keep_vectors), np.shape(X)[0]
        if len(kept) != n:
            raise ValueError(
                f"{self.keep_vectors} has {len(kept)} rows, and X {n}. keep_vectors "
                "names a file of the rows to fit: np.save(path, X)."
            )
        return kept

    def _compared(self, X):
        """Return rows as the index compares them: as they are, or for a decoder."""
        if self.keep_vectors and self.decoder is None:
            return X
        return seen_by(self.encoder_, X)[1]

    def _encode(self, X):
        if hasattr(self.encoder_, "transform_packed"):
            return self.encoder_.transform_packed(X)
        return pack_bits(self.encoder_.transform(X))

    def _encode_database(self, X, index):
        """Return the codes that the index holds, and their errors as arguments."""
        if not hasattr(self, "decoder_"):
            return self._encode(X), {}
        _, rows = seen_by(self.encoder_, X)
        if hasattr(self.decoder_, "transform"):  # a quantizer
            codes = self.decoder_.transform(rows)
            told = rows, codes
        else:
            bits = self.decoder_.refine(rows, self.encoder_.transform(X))
            codes, told = pack_bits(bits), (rows, bits)
        decoder, errors = read_decoder(self.decoder_, index.metric), {}
        if decoder.by_angle:
            errors["errors"] = np.where(are_zero(rows), np.inf, 0.0)
        elif decoder.has_numbers:
            errors["errors"] = self.decoder_.reconstruction_error(*told)
        return codes, errors

    def _fit_decoder(self, X, index):
        _, rows = seen_by(self.encoder_, X)
        from skhash.quantization import AdditiveQuantizer, LinearDecoder

        decoder, bits = self.decoder, self.encoder_.transform(X)
        if decoder is None:
            kinds = {"n_jobs": index.n_jobs, "verbose": self.verbose}
            decoder = LinearDecoder(n_alternations=1, **kinds)
            if index.n_candidates is None:
                decoder = AdditiveQuantizer(packed_width(bits.shape[1]), **kinds)
        self.decoder_ = clone(decoder).fit(rows, bits)

    @property
    def _n_neighbors(self):
        check_is_fitted(self)
        return int(self.index_.n_neighbors)

    @property
    def _n_features_out(self):
        return self.index_.n_samples_fit_

    def __sklearn_tags__(self):
        tags, encoder = super().__sklearn_tags__(), get_tags(self.encoder)
        tags.input_tags.sparse = encoder.input_tags.sparse and not self.keep_vectors
        tags.target_tags.required = encoder.target_tags.required
        return tags


def _described(encoder):
    if isinstance(encoder, FrozenEstimator):
        return f"{type(encoder.estimator).__name__} as it is"
    return " ".join(repr(encoder).split())


def are_same(own, given, by_angle, computed):
    """Return whether rows are those that are given, up to the rounding to their types.

    by_angle : whether lengths may differ
    computed : whether they were computed apart, and so may round otherwise
    """
    if own.shape != given.shape:
        return False
    floats = [part.dtype for part in (own, given) if part.dtype.kind == "f"]
    coarser = max(floats, key=lambda dtype: np.finfo(dtype).eps, default=None)
    if by_angle:
        own, given = unit_rows(own), unit_rows(given)
    elif not computed:
        with np.errstate(over="ignore"):
            return np.array_equal(own.astype(coarser), given.astype(coarser))
    gaps, norms = (np.linalg.norm(part, axis=1) for part in (own - given, given))
    return bool((gaps <= min(64 * np.finfo(coarser).eps, 1e-3) * norms).all())


def seen_by(encoder, X, checks=False):
    """Return a fitted encoder itself, and rows as it sees them.

    Parameters
    ----------
    encoder : estimator
        It may be frozen, or the last step of a Pipeline.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
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
        X = encoder[:-1].transform(X) if len(encoder) > 1 else X
        return seen_by(encoder[-1], X, checks)
    if checks:
        X = validate_data(encoder, X, reset=False, accept_sparse=True, dtype=None)
    return encoder, unit_rows(X) if getattr(encoder, "normalize", False) else X
