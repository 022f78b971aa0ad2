"""Vectors from codes: a linear decoder, its least-squares fit, and better codes."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from skhash.algebra._projection import column_means
from skhash.codes import check_bits
from skhash.linear._block_descent import BlockDescent
from skhash.linear._blocks import (
    BlockMoments,
    bits_to_values,
    decode_values,
    values_to_bits,
)
from skhash.linear._descent import descend
from skhash.persistence import save_estimator
from skhash.utils._sklearn import Interval, Options, fit_context
from skhash.utils.chunks import dense_chunks, dense_rows, row_chunks

# Share of ridge in the least squares, on bits of variance at most a quarter. It only
# matters where bits are constant or copies of each other.
RIDGE = 1e-6


def fit_codebook(X, bits) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``|X - offset - bits codebook|_F^2`` by the normal equations.

    Moments are summed in float64 about the means, one chunk of rows at a time.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits)
        0 and 1.

    Returns
    -------
    codebook : ndarray of shape (n_bits, n_features), float32
        What each bit adds to the decoded vector; zeros for a bit that is constant.
    offset : ndarray of shape (n_features,), float32
        What a code of zeros decodes to.
    """
    n_bits = bits.shape[1]
    mean, mean_bits = column_means(X), bits.mean(axis=0, dtype=np.float64)
    moments = RIDGE * X.shape[0] * np.eye(n_bits)
    cross = np.zeros((n_bits, X.shape[1]))
    for rows, chunk in dense_chunks(X):
        centered_bits = bits[rows] - mean_bits
        moments += centered_bits.T @ centered_bits
        cross += centered_bits.T @ (chunk - mean)
    codebook = np.linalg.solve(moments, cross)
    offset = mean - mean_bits @ codebook
    return codebook.astype(np.float32), offset.astype(np.float32)


def fit_blocks(X, bits, block_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``|X - offset - sum_m C_m[v_m]|_F^2`` over the entries of blocks.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits)
        0 and 1.
    block_bits : {4, 8}

    Returns
    -------
    codebook : ndarray of shape (n_blocks, 2**block_bits, n_features), float32
        C.
    offset : ndarray of shape (n_features,), float32
    """
    return BlockMoments(X, bits_to_values(bits, block_bits), block_bits).solve(1.0)


def block_bits_of(codebook) -> int:
    return 1 if codebook.ndim == 2 else codebook.shape[1].bit_length() - 1


def decode(bits, codebook, offset) -> np.ndarray:
    """Return the vectors of bits, (n_samples, n_features), float32.

    They are ``offset + bits codebook``, and for blocks of bits
    ``offset + sum_m codebook[m, v_m]``.
    """
    if codebook.ndim == 3:
        values = bits_to_values(bits, block_bits_of(codebook))
        return decode_values(values, codebook, offset)
    n_bits, n_features = codebook.shape
    decoded = np.empty((len(bits), n_features), dtype=np.float32)
    for rows in row_chunks(len(bits), 4 * (n_bits + n_features)):
        decoded[rows] = bits[rows].astype(np.float32) @ codebook
        decoded[rows] += offset
    return decoded


def squared_errors(X, bits, codebook, offset) -> np.ndarray:
    """Return the squared distance of each row from what its bits decode to, float64."""
    residual = dense_rows(X) - decode(bits, codebook, offset)
    return np.einsum("ij,ij->i", residual, residual, dtype=np.float64)


def refine_bits(X, bits, codebook, offset, **options) -> np.ndarray:
    """Lower ``|x - offset - bits codebook|^2`` of each row by better bits.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits)
        Where to start, 0 and 1.
    codebook : ndarray of shape (n_bits, n_features)
    offset : ndarray of shape (n_features,)
    **options
        Of `descend`.

    Returns
    -------
    refined : ndarray of shape (n_samples, n_bits), uint8
    """
    codewords, origin = codebook.T.astype(np.float64), offset.astype(np.float64)
    gram = codewords.T @ codewords
    refined = np.empty(bits.shape, dtype=np.uint8)
    for rows, chunk in dense_chunks(X):
        products = (chunk - origin) @ codewords
        refined[rows] = descend(products, gram, bits[rows], **options)
    return refined


def refine_blocks(X, bits, codebook, offset, **options) -> np.ndarray:
    """Do as `refine_bits` for a codebook of blocks, with options of `BlockDescent`."""
    block_bits, n_bits = block_bits_of(codebook), bits.shape[1]
    descent = BlockDescent(codebook, n_bits, **options)
    refined = np.empty(bits.shape, dtype=np.uint8)
    for rows, chunk in dense_chunks(X):
        values = bits_to_values(bits[rows], block_bits)
        descent.improve(chunk - offset.astype(np.float64), values)
        found = values_to_bits(values, block_bits, n_bits)
        before, after = (
            squared_errors(chunk, codes, codebook, offset)
            for codes in (bits[rows], found)
        )
        refined[rows] = np.where((after < before)[:, None], found, bits[rows])
    return refined


class LinearDecoderMixin:
    """Encoders whose codes decode as ``offset_ + bits codebook_``."""

    codebook_: np.ndarray  # (n_bits, n_features), float32
    offset_: np.ndarray  # (n_features,), float32

    def inverse_transform(self, X) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float32
            The mean of the decoder.
        """
        check_is_fitted(self)
        bits = check_bits(X)
        self._check_code_length(bits)
        return decode(bits, self.codebook_, self.offset_)

    def reconstruction_error(self, X) -> np.ndarray:
        """Return how far each vector lies from what its code decodes to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distance between a row (of unit length, with
            `normalize`) and ``inverse_transform(transform(row))``.
        """
        X = self._validate_fitted(X)
        error = np.empty(X.shape[0])
        for rows, chunk in self._chunks(X):
            bits = self._bits(chunk)
            error[rows] = squared_errors(chunk, bits, self.codebook_, self.offset_)
        return error


class LinearDecoder(BaseEstimator):
    """Least-squares vectors for the codes of any encoder, and codes that fit vectors.

    Minimises ``sum_i |x_i - offset - h_i codebook|^2`` over codebook and offset, for
    given codes h_i, and with `n_alternations` over the codes too, in turns. It gives an
    encoder without a codebook what asymmetric search needs; `refine` finds codes that
    serve it better.

    Parameters
    ----------
    block_bits : {1, 4, 8}, default=1
        Bits of a block.
    n_alternations : int, default=0
        How often the codes are refined and the codebook fitted to them anew.
    n_restarts : int, default=32
        Restarts of the search for the best code of a row: the more, the lower the
        error, in time in proportion.
    n_jobs : int, default=None
        Threads, as in `HammingNeighbors`.

    Attributes
    ----------
    codebook_ : ndarray, float32
        For ``block_bits=1`` of shape (n_bits, n_features): what each bit adds to the
        decoded vector; zeros for a bit that was constant. Else of shape
        (ceil(n_bits / block_bits), 2**block_bits, n_features): what each block adds
        that has this value, its first bit being the highest.
    offset_ : ndarray of shape (n_features,), float32
        What the rest is added to.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where `X` has names that are all strings.

    See Also
    --------
    skhash.SGHEncoder : An encoder with a decoder of its own.
    skhash.AsymmetricNeighbors : Searches by decoded codes.

    Notes
    -----
    Refined codes are for asymmetric search only, queries being real vectors. Their
    Hamming distances follow the distances of vectors less well than those of the codes
    that they were made from: near vectors may get codes that differ in many bits.

    `X` has to be what the encoder sees: with ``normalize=True``, scale the rows before.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash import ITQHash
    >>> from skhash.linear import LinearDecoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> bits = ITQHash(n_bits=32, random_state=0).fit_transform(X)
    >>> decoder = LinearDecoder(n_alternations=5).fit(X, bits)
    >>> refined = decoder.refine(X, bits)
    >>> plain = LinearDecoder().fit(X, bits).reconstruction_error(X, bits)
    >>> bool(decoder.reconstruction_error(X, refined).mean() < 0.8 * plain.mean())
    True
    """

    _unsaved_attributes = ()
    _parameter_constraints: dict = {
        "block_bits": [Options(Integral, {1, 4, 8})],
        "n_alternations": [Interval(Integral, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    def __init__(self, *, block_bits=1, n_alternations=0, n_restarts=32, n_jobs=None):
        self.block_bits = block_bits
        self.n_alternations = n_alternations
        self.n_restarts = n_restarts
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, bits):
        """Fit the codebook, and refine the codes in turn if asked.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real vectors.
        bits : array-like of shape (n_samples, n_bits)
            Their codes, 0 and 1.

        Returns
        -------
        self : object
            The fitted decoder.

        Raises
        ------
        ValueError
            If `X` holds NaN or infinity, or `bits` other values than 0 and 1 or another
            number of rows.
        """
        X = self._validate(X, reset=True)
        bits = check_bits(bits)
        check_consistent_length(X, bits)
        self.n_bits_ = bits.shape[1]
        self._fit_codebook(X, bits)
        for turn in range(self.n_alternations):
            bits = self._refine(X, bits, seed=turn)
            self._fit_codebook(X, bits)
        return self

    def inverse_transform(self, bits) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        bits : array-like of shape (n_samples, n_bits)
            0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float32
        """
        return decode(self._check_bits(bits), self.codebook_, self.offset_)

    def reconstruction_error(self, X, bits) -> np.ndarray:
        """Return how far each vector lies from what its code decodes to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        bits : array-like of shape (n_samples, n_bits)
            0 and 1.

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distances.
        """
        bits = self._check_bits(bits)
        X = self._validate(X, reset=False)
        check_consistent_length(X, bits)
        error = np.empty(X.shape[0])
        for rows, chunk in dense_chunks(X):
            error[rows] = squared_errors(
                chunk, bits[rows], self.codebook_, self.offset_
            )
        return error

    def refine(self, X, bits=None) -> np.ndarray:
        """Return codes that decode to vectors nearer to `X`.

        Coordinate descent over the bits, and `n_restarts` times again from the best
        code with some bits flipped.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        bits : array-like of shape (n_samples, n_bits) or None, default=None
            Codes to start from, 0 and 1. None starts from zeros: with some restarts,
            codes about as good are found without an encoder.

        Returns
        -------
        refined : ndarray of shape (n_samples, n_bits), uint8
            Codes whose error is not larger than that of `bits`. They do not depend on
            the rows beside them or on the number of threads.
        """
        if bits is not None:
            bits = self._check_bits(bits)
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        if bits is None:
            bits = np.zeros((X.shape[0], self.n_bits_), dtype=np.uint8)
        check_consistent_length(X, bits)
        return self._refine(X, bits)

    def save(self, path) -> None:
        """Write the fitted decoder to a directory of JSON and safetensors.

        Parameters
        ----------
        path : path-like
            A new directory, or one that `save` wrote before.

        See Also
        --------
        skhash.load : Reads the directory without running code.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    def _fit_codebook(self, X, bits):
        if self.block_bits == 1:
            self.codebook_, self.offset_ = fit_codebook(X, bits)
        else:
            self.codebook_, self.offset_ = fit_blocks(X, bits, self.block_bits)

    def _refine(self, X, bits, seed=0):
        options = {"n_restarts": self.n_restarts, "n_jobs": self.n_jobs, "seed": seed}
        refine = refine_bits if self.codebook_.ndim == 2 else refine_blocks
        return refine(X, bits, self.codebook_, self.offset_, **options)

    def _validate(self, X, *, reset):
        return validate_data(
            self, X, reset=reset, dtype=[np.float32, np.float64], accept_sparse="csr"
        )

    def _check_bits(self, bits):
        check_is_fitted(self)
        bits = check_bits(bits)
        if bits.shape[1] != self.n_bits_:
            raise ValueError(
                f"Codes have {bits.shape[1]} bits, but this LinearDecoder was fitted "
                f"for {self.n_bits_}."
            )
        return bits
