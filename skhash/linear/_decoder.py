"""Vectors from codes: a linear decoder, its least-squares fit, and better codes."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skhash.codes import check_bits
from skhash.linear._projection import column_means
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


def decode(bits, codebook, offset) -> np.ndarray:
    """Return ``offset + bits codebook``, (n_samples, n_features), float32."""
    n_bits, n_features = codebook.shape
    decoded = np.empty((len(bits), n_features), dtype=np.float32)
    for rows in row_chunks(len(bits), 4 * (n_bits + n_features)):
        decoded[rows] = bits[rows].astype(np.float32) @ codebook
        decoded[rows] += offset
    return decoded


def squared_errors(X, bits, codebook, offset) -> np.ndarray:
    """Return ``|x - offset - bits codebook|^2`` of each row, float64."""
    residual = dense_rows(X) - decode(bits, codebook, offset)
    return np.einsum("ij,ij->i", residual, residual, dtype=np.float64)


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
            bits = self._logits(chunk) > 0
            error[rows] = squared_errors(chunk, bits, self.codebook_, self.offset_)
        return error
