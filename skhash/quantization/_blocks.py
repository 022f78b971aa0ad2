"""The least-squares codebook of blocks of bits; see `skhash.numerics._decoder`.

An *entry* is a value of a block, the vector C_m[v] that stands for it, or its place
``m K + v`` among the ``M K`` rows of the codebook, ``K = 2^g``.
"""

import numpy as np
import scipy.linalg
from scipy import sparse

from skhash.numerics._decoder import sum_of_entries
from skhash.numerics._projection import column_means
from skhash.utils.chunks import dense_chunks, dense_rows
from skhash.utils.threads import few_blas_threads

# Ridge on what single bits add, as a share of the rows: it matters only where bits are
# constant or copies of each other.
RIDGE = 1e-6


def least_squares(X, values, block_bits):
    """Return `BlockMoments`, or for few rows `RowProducts`, which take less time."""
    n_entries = values.shape[1] * 2**block_bits
    kind = RowProducts if 2 * len(values) < n_entries else BlockMoments
    return kind(X, values, block_bits)


class BlockMoments:
    """Moments of rows and the values of their blocks, for least squares.

    Counts and sums are about the means: how often two entries are found together, less
    how often they would be by chance, and the sum of the centred rows with an entry.

    Parameters
    ----------
    X : {ndarray, CSR array} of shape (n_samples, n_features), float32 or float64
    values : ndarray of shape (n_samples, n_blocks), uint8
    block_bits : int
    """

    def __init__(self, X, values, block_bits):
        self.n_blocks, self.block_bits = values.shape[1], block_bits
        self.mean, self.n_rows = column_means(X), len(values)
        self.moments = self._count_pairs(values)
        self.shares = np.diagonal(self.moments) / self.n_rows
        for row, share in zip(self.moments, self.shares, strict=True):
            row -= self.n_rows * share * self.shares
        self.sums = self._sum_rows(X, values)

    def _count_pairs(self, values):
        """Count the rows in which two entries are found together."""
        n_values = 2**self.block_bits
        counts = np.empty((self.n_blocks, n_values) * 2)
        for a in range(self.n_blocks):
            first = n_values * values[:, a].astype(np.int64)
            for b in range(a, self.n_blocks):
                pairs = np.bincount(first + values[:, b], minlength=n_values**2)
                counts[a, :, b] = pairs.reshape(n_values, n_values)
                counts[b, :, a] = counts[a, :, b].T
        return counts.reshape(2 * (self.n_blocks * n_values,))

    def _sum_rows(self, X, values):
        """Return the sum of the centred rows that have each entry."""
        n_entries = self.n_blocks * 2**self.block_bits
        # The place of each value among all entries.
        entries = values + 2**self.block_bits * np.arange(self.n_blocks, dtype=np.int32)
        sums = np.zeros((n_entries, X.shape[1]))
        for rows, chunk in dense_chunks(X):
            part = entries[rows]
            starts = np.arange(0, part.size + 1, self.n_blocks)
            one_hot = sparse.csr_array(
                (np.ones(part.size), part.ravel(), starts), shape=(len(part), n_entries)
            )
            sums += one_hot.T @ (chunk - self.mean)
        # What rounding of the mean leaves of rows far from the origin would grow.
        return sums - np.outer(self.shares, sums[: 2**self.block_bits].sum(axis=0))

    def solve(self, ridge: float, prior=None) -> tuple[np.ndarray, np.ndarray]:
        """Return codebook, (n_blocks, n_values, n_features), float32, and offset.

        `ridge`, in rows, shrinks an entry towards the sum of its single bits, or with
        a codebook `prior` towards its entry there: half way if it is found in as many
        rows.
        """
        moments, sums = self.moments.copy(), self.sums
        penalty = departure_penalty(self.block_bits, ridge, RIDGE * self.n_rows)
        if prior is not None:
            penalty = ridge * np.eye(len(penalty))
            sums = sums + ridge * prior.reshape(sums.shape)
        for block in range(self.n_blocks):
            span = slice(block * len(penalty), (block + 1) * len(penalty))
            moments[span, span] += penalty
        options = {"check_finite": False}
        with few_blas_threads(len(moments)):
            factor = scipy.linalg.cho_factor(moments.T, overwrite_a=True, **options)
            codebook = scipy.linalg.cho_solve(factor, sums, **options)
        codebook = codebook.reshape(self.n_blocks, len(penalty), -1)
        shares = self.shares.reshape(self.n_blocks, len(penalty))
        codebook -= np.einsum("mk,mkd->md", shares, codebook)[:, None]
        return codebook.astype(np.float32), self.mean


class RowProducts:
    """The same least squares as those of `BlockMoments`, by a system of as many rows.

    The ridge makes entries sums of what rows weigh (kernel ridge regression).
    """

    def __init__(self, X, values, block_bits):
        self.values, self.block_bits = values, block_bits
        self.mean = column_means(X)
        self.rows = dense_rows(X[:]) - self.mean
        self.rows -= self.rows.mean(axis=0)  # as in `BlockMoments`

    def solve(self, ridge: float, prior=None) -> tuple[np.ndarray, np.ndarray]:
        """Return what `BlockMoments.solve` does."""
        n_rows, penalty, rows = len(self.values), RIDGE * len(self.values), self.rows
        # It is diagonal in an orthogonal basis, so that this is its inverse.
        inverse = departure_penalty(self.block_bits, 1 / ridge, 1 / penalty)
        if prior is not None:
            inverse = np.eye(len(inverse)) / ridge
            prior = prior.astype(np.float64)
            for indices, entries in zip(self.values.T, prior, strict=True):
                entries -= entries[indices].mean(axis=0)
            rows = rows - sum_of_entries(self.values, prior)
        products = np.zeros((n_rows, n_rows))
        for indices in self.values.T:
            products += inverse[indices[:, None], indices]
        products -= products.mean(axis=0)
        products -= products.mean(axis=1, keepdims=True)
        products[np.diag_indices(n_rows)] += 1
        with few_blas_threads(n_rows):
            weights = scipy.linalg.solve(products, rows, assume_a="pos")
        codebook = np.zeros((self.values.shape[1], len(inverse), rows.shape[1]))
        for indices, entries in zip(self.values.T, codebook, strict=True):
            np.add.at(entries, indices, weights)
            entries[:] = inverse @ entries
            entries -= entries[indices].mean(axis=0)
        if prior is not None:
            codebook += prior
        return codebook.astype(np.float32), self.mean


def departure_penalty(block_bits: int, ridge: float, bits_ridge: float) -> np.ndarray:
    """Return the quadratic form of the ridge on the entries of one block.

    In Walsh's basis, products of the signs of some of the bits, it is diagonal: `ridge`
    for products of several and the constant, `bits_ridge` for single ones.
    """
    walsh = scipy.linalg.hadamard(2**block_bits)
    n_factors = np.bitwise_count(np.arange(2**block_bits))
    weights = np.where(n_factors == 1, bits_ridge, ridge)
    return walsh * weights @ walsh.T / len(walsh)
