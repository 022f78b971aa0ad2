"""The base of all encoders: validation, chunked encoding, packing, saving.

A subclass defines `_fit_codes` and, unless it is linear, `_logits`. Encoders that are
trained by gradient descent derive from `BaseNeuralHasher`, which lists its hooks.
`with_parameters` makes constructors from the annotated attributes of a class.
"""

import warnings
from abc import ABCMeta, abstractmethod
from dataclasses import field
from typing import Self

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from skhash.codes import packed_width
from skhash.numerics._perceptron import check_layers, mlp_forward
from skhash.persistence.estimators import SaveMixin
from skhash.persistence.schema import Group, optional, reals
from skhash.utils._sklearn import CodesOutMixin, fit_context
from skhash.utils.arrays import (
    check_magnitude,
    contiguous_rows,
    unit_rows,
    validate_rows,
)
from skhash.utils.chunks import column_range, even_chunks, row_chunks
from skhash.utils.parameters import Count, RandomState, with_parameters
from skhash.utils.threads import MIN_SHARED_WORK, map_in_threads
from skhash.utils.torch import check_device, encoding_threads, threads_that_pay


@with_parameters(kw_only=True)
class BaseHasher(SaveMixin, CodesOutMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all encoders: ``X -> logits -> bits``, where bit = 1 if logit > 0.

    A subclass defines `_fit_codes(X, y, random_state)`, `_logits(X)` and
    `_n_features_out`. The first two get rows scaled to unit length if `normalize` is
    set.
    """

    n_bits: Count = field(default=64, kw_only=False)
    normalize: bool = False
    device: str = "auto"
    random_state: RandomState = None

    # Whether `_logits` computes each row by itself, for any type of float in any
    # thread, and returns no finite value for a row with NaN or infinity.
    _rowwise = False

    @abstractmethod
    def _fit_codes(self, X, y, random_state: np.random.RandomState) -> None:
        """Learn from validated `X` and set the fitted attributes."""

    @abstractmethod
    def _logits(self, X) -> np.ndarray:
        """Return the float32 logits of one chunk of validated rows."""

    def fit(self, X, y=None) -> Self:
        """Learn the hash functions.

        For fit times, see :doc:`/benchmarks/encoding`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self : object
            The fitted encoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, if all its rows are equal, or if the method
            cannot make `n_bits` bits from it.

        Warns
        -----
        UserWarning
            If most bits are the same for nearly all rows.
        """
        return self._fit(X, y)

    @fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, y, **known):
        """Validate and fit; leaves may pass more than `y`."""
        X = self._prepare_all(self._validate(X, reset=True))
        self._check_rows(X)
        check_device(self.device)
        y = self._validate_targets(X, y, **known)
        with threads_that_pay():
            self._fit_codes(X, y, check_random_state(self.random_state))
        self._warn_of_dead_bits(X)
        return self

    def decision_function(self, X) -> np.ndarray:
        """Return the logits, whose signs are the bits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_bits), float32
            A bit is 1 if its logit is above 0. The further from 0, the more certain the
            bit.
        """
        return self._encode(X, np.float32, self._n_features_out, np.asarray)

    def transform(self, X) -> np.ndarray:
        """Encode vectors as bits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        bits : ndarray of shape (n_samples, n_bits), uint8
            Bits 0 and 1. Rows are encoded in chunks, so the extra memory is bounded;
            the chunk size does not affect the result.
        """
        return self._encode(X, np.uint8, self._n_features_out, signs)

    def transform_packed(self, X) -> np.ndarray:
        """Encode vectors as packed bytes, an eighth of the size of `transform`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        packed : ndarray of shape (n_samples, ceil(n_bits / 8)), uint8
            The first bit is the highest of the first byte; padding bits are 0.
        """
        width = packed_width(self._n_features_out)
        return self._encode(
            X, np.uint8, width, lambda logits: np.packbits(signs(logits), axis=1)
        )

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """The number of bits of the fitted encoder, even if `n_bits` has changed."""

    def _validate(self, X, *, reset: bool, all_finite: bool = True):
        return validate_rows(
            self,
            X,
            reset=reset,
            all_finite=all_finite,
            accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
            ensure_min_samples=2 if reset else 1,
        )

    def _validate_targets(self, X, y, *, is_part=False):
        """Return validated targets: None, unless a leaf overrides this.

        is_part : whether the rows are a part of a stream
        """
        return None

    def _prepare(self, X):
        """Return rows ready for computing: contiguous, in unit length if asked."""
        X = contiguous_rows(X)
        if not self.normalize:
            return X
        with config_context(assume_finite=True):
            return unit_rows(X)

    def _check_computed(self, values, X) -> None:
        """Raise ``ValueError`` if a result is not finite."""
        if not np.isfinite(values).all():
            name = type(self).__name__
            assert_all_finite(X, estimator_name=name, input_name="X")
            raise ValueError(
                f"The largest magnitude in X is {max(X.max(), -X.min()):.3g}, which "
                f"{name} cannot compute with. Check X for wrong values, or multiply "
                "all rows by a constant, in fit and transform."
            )

    def _prepare_all(self, X):
        """Return all rows to fit, ready for computing."""
        return self._prepare(X)

    def _check_rows(self, X) -> None:
        """Raise ``ValueError`` if nothing can be learned from prepared rows."""
        low, high = column_range(X)
        check_magnitude(np.array([low, high]))
        # Rows of one direction are equal up to rounding once they have unit length.
        rounding = 4 * np.finfo(X.dtype).eps if self.normalize else 0
        if (high - low).max() <= rounding:
            directions = ", of unit length," if self.normalize else ""
            raise ValueError(
                f"All {X.shape[0]} rows of X{directions} are equal, but "
                f"{type(self).__name__} learns from how they differ. Check how X was "
                "made."
            )

    def _warn_of_dead_bits(self, X) -> None:
        """Warn if most bits are the same for nearly all rows, in a sample of them."""
        rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLE_ROWS).astype(int))
        counts = np.count_nonzero(self._bits(X[rows]), axis=0)
        rarer = np.minimum(counts, len(rows) - counts)
        n_dead = np.count_nonzero(rarer <= len(rows) * DEAD_SHARE)
        if 2 * n_dead > len(counts):
            warnings.warn(
                f"{n_dead} of {len(counts)} bits are the same for nearly all rows, so "
                "they carry no information. Check X for outliers, which you can remove "
                "or clip, and for many equal rows; or train for longer.",
                stacklevel=6,
            )

    def _validate_fitted(self, X):
        check_is_fitted(self)
        return self._validate(X, reset=False)

    def _by_chunks(self, X, function) -> np.ndarray:
        """Return ``function(chunk)`` of all rows, in chunks ready for `_logits`."""
        X = self._validate_fitted(X)
        chunks = (self._prepare(X[rows]) for rows in self._slices(X))
        return np.concatenate([function(chunk) for chunk in chunks])

    def _slices(self, X, threads=1) -> list[slice]:
        """Return slices of rows, each for one call of `_logits`."""
        n, n_bits = X.shape[0], self._n_features_out
        # Rows in float32 and float64, and their logits: at most a sixteenth of the
        # whole, so that they stay in the cache.
        values = X.nnz / n if sparse.issparse(X) and self._rowwise else X.shape[1]
        slices = list(row_chunks(n, max(12 * values, 60 * n_bits) + 4 * n_bits))
        paying = int(n * values * n_bits // MIN_SHARED_WORK)
        n_shares = 0 if threads == 1 else min(SHARES * threads, paying)
        return slices if len(slices) >= n_shares else even_chunks(n, n_shares)

    def _bits(self, X) -> np.ndarray:
        """Return the code of one chunk of validated rows."""
        return signs(self._logits(X))

    def _encode(self, X, dtype, width, convert) -> np.ndarray:
        """Encode all rows; `convert` turns logits into the result."""
        check_is_fitted(self)
        # Logits show which rows are not finite; checking rows is as slow as a product.
        X = self._validate(X, reset=False, all_finite=not self._rowwise)
        in_memory = isinstance(X, np.ndarray) or sparse.issparse(X)
        rowwise = self._rowwise and in_memory
        encoded = np.empty((X.shape[0], width), dtype=dtype)

        def encode(rows):
            chunk = X[rows]
            as_it_is = rowwise and not self.normalize
            with np.errstate(over="ignore", invalid="ignore"):  # logits are checked
                logits = self._logits(chunk if as_it_is else self._prepare(chunk))
            self._check_computed(logits, chunk)
            encoded[rows] = convert(logits)

        threads = encoding_threads(self.device) if rowwise else 1
        map_in_threads(encode, self._slices(X, threads), threads)
        return encoded


def signs(logits) -> np.ndarray:
    """Return the bits of logits."""
    return logits > 0


# Shares of the rows that each thread gets in turn, as threads differ in speed.
SHARES = 4
# Rows in which `fit` looks for dead bits: those alike in all but this share of them.
SAMPLE_ROWS, DEAD_SHARE = 1000, 0.002


class FittedBitsMixin:
    """Base of encoders that learn an array with one row per bit, from any rows.

    A subclass names that attribute in `_learned`.
    """

    _learned: str

    def __sklearn_is_fitted__(self):
        return hasattr(self, self._learned)

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return len(getattr(self, self._learned))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearLogitsMixin(FittedBitsMixin):
    """Logits ``(x - mean_) components_^T + intercept_``, without torch on the CPU.

    The mean is subtracted from the data, not folded into the intercept, so that data
    far from the origin keep their precision. Sparse rows are never made dense; for
    them, the mean is folded into the intercept.
    """

    mean_: np.ndarray  # (n_features,), float64
    components_: np.ndarray  # (n_bits, n_features), float32
    intercept_: np.ndarray  # (n_bits,), float32

    _learned = "components_"
    _saved = {
        "mean_": reals("n_features"),
        "components_": reals("n_bits", "n_features"),
        "intercept_": reals("n_bits"),
    }
    _rowwise = True

    def _logits(self, X) -> np.ndarray:
        layer = [self.components_.T], [self.intercept_]
        return mlp_forward(X, *layer, self.mean_, self.device)


class MLPLogitsMixin(FittedBitsMixin):
    """Logits of linear layers with ReLU between them, of rows minus ``mean_``.

    As in `LinearLogitsMixin`, the mean is subtracted from dense rows, and folded into
    the first intercept for sparse rows. Encoding on the CPU does not need torch.
    """

    mean_: np.ndarray | None  # (n_features,), float64; None where nothing is centred
    coefs_: list[np.ndarray]  # one (n_inputs, n_outputs) a layer, float32
    intercepts_: list[np.ndarray]  # one (n_outputs,) a layer, float32

    _learned = "coefs_"
    _saved = {
        "mean_": optional(reals("n_features")),
        "coefs_": Group(list),
        "intercepts_": Group(list),
    }
    _rowwise = True

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self.coefs_[-1].shape[1]

    def _check_saved(self):
        check_layers(self.n_features_in_, self.coefs_, self.intercepts_, self.mean_)

    def _logits(self, X) -> np.ndarray:
        return mlp_forward(X, self.coefs_, self.intercepts_, self.mean_, self.device)
