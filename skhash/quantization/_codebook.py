"""Vectors from codes, codes near vectors, and codebooks by least squares.

Codes are the values of their blocks, (n_samples, n_blocks), uint8; where a block is one
bit, its bits. See `skhash.numerics._decoder`.
"""

import numpy as np

from skhash.codes import check_codes_of
from skhash.numerics._decoder import sum_of_entries
from skhash.numerics._projection import column_means
from skhash.persistence.schema import reals
from skhash.quantization._beam import BeamSearch
from skhash.quantization._blocks import least_squares
from skhash.quantization._descent import BlockDescent
from skhash.utils.arrays import check_magnitude
from skhash.utils.chunks import dense_chunks, row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.torch import inference_device

_beam_torch = LateModule("skhash.quantization._beam_torch")

# Share of ridge in the least squares, on bits of variance at most a quarter. It only
# matters where bits are constant or copies of each other.
RIDGE = 1e-6


def fit_blocks(X, values, block_bits: int, ridge, prior=None) -> tuple:
    """Return the codebook and offset of least squares for given codes of rows.

    ridge, prior : those of `BlockMoments.solve`, for blocks of several bits
    """
    if block_bits == 1:
        return fit_codebook(X, values)
    return least_squares(X, values, block_bits).solve(ridge, prior)


def fit_codebook(X, bits) -> tuple[np.ndarray, np.ndarray]:
    """Minimize ``|X - offset - bits codebook|_F^2`` by the normal equations.

    Moments are summed in float64 about the means, one chunk of rows at a time.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    bits : ndarray of shape (n_samples, n_bits)
        0 and 1.

    Returns
    -------
    codebook : ndarray of shape (n_bits, n_features), float32
        The vector that each bit adds; zeros for a constant bit.
    offset : ndarray of shape (n_features,), float64
        The decoded code of zeros.
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
    return codebook.astype(np.float32), offset


def decode(values, codebook, offset) -> np.ndarray:
    """Return the vectors of codes, (n_samples, n_features), of the offset's dtype.

    Where a block is one bit, real numbers may stand for bits.
    """
    decoded = np.empty((len(values), len(offset)), dtype=offset.dtype)
    for rows in row_chunks(len(values), 8 * (values.shape[1] + len(offset))):
        decoded[rows] = sum_of_entries(values[rows], codebook, offset)
    return decoded


def squared_errors(X, values, codebook, offset) -> np.ndarray:
    """Return the squared distance of each row from its decoded code, float64."""
    errors = np.empty(X.shape[0])
    for rows, residual in residuals(X, values, codebook, offset):
        errors[rows] = np.einsum("ij,ij->i", residual, residual, dtype=np.float64)
    return errors


def residuals(X, values, codebook, offset):
    """Yield rows and what their decoded codes leave of them, chunk by chunk."""
    for rows, chunk in dense_chunks(X):
        yield rows, chunk - decode(values[rows], codebook, offset)


def find_codes(X, codebook, offset, width, n_jobs=None, device="cpu") -> np.ndarray:
    """Return codes of a small squared error, block by block; see `BeamSearch`.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    codebook : ndarray of shape (n_blocks, n_values, n_features), float32
    offset : ndarray of shape (n_features,)
    width : int
    n_jobs : int or None
    device : str
        As of `AdditiveQuantizer`.

    Returns
    -------
    values : ndarray of shape (n_samples, n_blocks), uint8
    """
    values = np.empty((X.shape[0], len(codebook)), dtype=np.uint8)
    device = inference_device(device)
    if device == "cpu":
        search = BeamSearch(codebook, width, n_jobs)
    else:
        search = _beam_torch.TorchBeamSearch(codebook, width, device)
    for rows, centered in centered_chunks(X, offset):
        search.search(centered, values[rows])
    return values


def refine(X, values, codebook, offset, **options) -> np.ndarray:
    """Lower the squared distance of each row from its decoded code.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    values : ndarray of shape (n_samples, n_blocks), uint8
        Where to start.
    codebook : ndarray of shape (n_bits, n_features) or (n_blocks, n_values, n_features)
    offset : ndarray of shape (n_features,)
    **options
        Of `BlockDescent`.

    Returns
    -------
    refined : ndarray of shape (n_samples, n_blocks), uint8
    """
    descent, refined = BlockDescent(codebook, **options), values.copy()
    for rows, centered in centered_chunks(X, offset):
        descent.improve(centered, refined[rows])
    return refined


def centered_chunks(X, offset):
    """Yield rows and what they are without the offset, float64, chunk by chunk."""
    for rows, chunk in dense_chunks(X):
        centered = chunk - offset.astype(np.float64)
        check_magnitude(centered, smallest=0)
        yield rows, centered


class LinearDecoderMixin:
    """Encoders whose codes decode as ``offset_ + bits codebook_``."""

    codebook_: np.ndarray  # (n_bits, n_features), float32
    offset_: np.ndarray  # (n_features,), float64

    _saved = {
        "codebook_": reals("n_bits", "n_features"),
        "offset_": reals("n_features"),
    }

    def inverse_transform(self, X) -> np.ndarray:
        """Decode bits into vectors, ``offset_ + bits codebook_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_bits)
            Bits, 0 and 1.

        Returns
        -------
        decoded : ndarray of shape (n_samples, n_features), float64
            Decoded vectors.
        """
        bits = check_codes_of(self, X, self._n_features_out)
        return decode(bits, self.codebook_, self.offset_)

    def reconstruction_error(self, X) -> np.ndarray:
        """Return the squared distance of each vector from its decoded code.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Vectors, one per row.

        Returns
        -------
        error : ndarray of shape (n_samples,), float64
            Squared Euclidean distance between each row (scaled to unit length, with
            `normalize`) and ``inverse_transform(transform(row))``.
        """

        def errors(chunk):
            bits = self._bits(chunk)
            return squared_errors(chunk, bits, self.codebook_, self.offset_)

        return self._by_chunks(X, errors)
