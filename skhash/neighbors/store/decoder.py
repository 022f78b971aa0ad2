"""Decoding of codes, and terms and tables to score real-valued queries."""

from dataclasses import dataclass

import numpy as np

from skhash.codes import check_packed, packed_width
from skhash.numerics._decoder import (
    bits_of_block,
    block_values,
    check_codebook,
    sum_of_entries,
)
from skhash.utils.arrays import check_array, unit_rows
from skhash.utils.chunks import row_chunks
from skhash.utils.late import LateModule

_products = LateModule("skhash.neighbors.kernels.products")

METRICS = ("euclidean", "inner_product", "cosine")
# A sum this much shorter than its parts is zero up to rounding.
ROUNDING = 64 * np.finfo(np.float64).eps


def read_decoder(decoder, metric):
    """Return the `Decoder` of a fitted estimator or of a tuple (codebook, offset)."""
    if isinstance(decoder, tuple) and len(decoder) == 2:
        codebook, offset = decoder
    elif hasattr(decoder, "codebook_") and hasattr(decoder, "offset_"):
        codebook, offset = decoder.codebook_, decoder.offset_
    else:
        raise ValueError(
            "decoder must have codebook_ and offset_, or be a tuple (codebook, "
            f"offset), got {decoder!r}; for the codes of any encoder, fit a "
            "skhash.linear.LinearDecoder."
        )
    kind = np.float64 if np.ndim(codebook) <= 2 else np.float32
    options = {"dtype": kind, "input_name": "codebook", "order": "C"}
    codebook = check_array(codebook, allow_nd=True, **options)
    offset = check_array(offset, dtype=np.float64, ensure_2d=False, input_name="offset")
    n_bits = getattr(decoder, "n_bits_", None)
    if n_bits is None:
        n_bits = len(codebook) * bits_of_block(codebook)
    check_codebook(codebook, offset, n_bits)
    normalized = bool(getattr(decoder, "normalize", False))
    return Decoder(codebook, offset, int(n_bits), normalized, metric)


def items_per_code(metric) -> int:
    """Return how many floats per code `Decoder.items` has."""
    return 2 if metric == "cosine" else 1


@dataclass(frozen=True)
class Decoder:
    """A linear decoder of codes, and the metric of the decoded vectors.

    A code is cut into blocks of 1, 4 or 8 bits. It decodes to the offset and the sum of
    an entry of the codebook for each block.

    Attributes
    ----------
    codebook : ndarray of shape (n_bits, n_features), float64
        Vectors that set bits add; or of shape (n_blocks, 16 or 256, n_features),
        float32, those that values of a block add, its first bit being the highest.
    offset : ndarray of shape (n_features,), float64
    n_bits : int
        Those of a code. Where they do not fill the last block, zeros follow.
    normalized : bool
        Whether this is a space of rows of unit length, to which queries are brought.
    metric : str
    """

    codebook: np.ndarray
    offset: np.ndarray
    n_bits: int
    normalized: bool
    metric: str

    def __post_init__(self):
        if bits_of_block(self.codebook) == 8:
            # It is held once, as `_features` has it.
            features = np.ascontiguousarray(self.codebook.transpose(0, 2, 1))
            object.__setattr__(self, "codebook", features.transpose(0, 2, 1))

    def __setstate__(self, state):
        vars(self).update(state)
        self.__post_init__()

    def check_codes(self, packed_codes, n_columns, packed):
        """Raise ``ValueError`` unless such codes can be decoded."""
        n_bits = self.n_bits
        if n_columns != (packed_width(n_bits) if packed else n_bits):
            raise ValueError(
                f"Codes have {n_columns} {'bytes' if packed else 'bits'}, but the "
                f"decoder is for {n_bits} bits; use the one of the same encoder."
            )
        check_packed(packed_codes, n_bits)

    def read_queries(self, X, name):
        """Return validated queries, in the space of the codebook."""
        n_features = len(self.offset)
        if not is_plain(X, n_features):
            options = {"dtype": [np.float64, np.float32], "order": "C"}
            X = check_array(X, accept_sparse="csr", input_name=name, **options)
        if X.shape[1] != n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but codes decode to {n_features}."
            )
        return unit_rows(X) if self.normalized else X

    @property
    def nbytes(self):
        """The bytes of its arrays."""
        return self.codebook.nbytes + self.offset.nbytes

    def items(self, packed_codes, added=None):
        """Return the terms and factors of the scores of codes, float32.

        added : ndarray of shape (n_codes,), default=None
            Terms added to their squared distances.

        Returns
        -------
        items : ndarray of shape (n_codes, 1), or (n_codes, 2) for "cosine"
            Terms added to the sums of the blocks, and factors of the sums before.
        """
        items = np.zeros((len(packed_codes), items_per_code(self.metric)), np.float32)
        if self.metric == "inner_product":
            return items
        # Lengths are those in an orthonormal basis, which may have fewer axes.
        vectors = np.vstack([self._entries(), self.offset])
        vectors = np.linalg.qr(vectors.T, mode="r").T
        entries, offset = vectors[:-1], vectors[-1]
        entries = entries.reshape(*self.codebook.shape[:-1], -1)
        row_bytes = 32 * (self.n_bits + entries.shape[-1])
        for rows in row_chunks(len(packed_codes), row_bytes):
            values = block_values(
                packed_codes[rows], bits_of_block(entries), len(entries)
            )
            beyond = sum_of_entries(values, entries)
            if self.metric == "cosine":
                parts = angles_to(offset, beyond)
            else:
                squares = np.square(beyond).sum(axis=1)
                parts = (squares if added is None else squares + added[rows],)
            items[rows] = np.stack([_to_float32(2 * part) for part in parts], axis=1)
            items[rows] /= 2
        return items

    @np.errstate(over="ignore", invalid="ignore")  # infinite values are refused
    def tables(self, X, n_bytes):
        """Return lookup tables: what each value of a byte adds to the sum of a code.

        They have shape (n_queries, n_bytes, 256), float32. Terms common to all codes
        are in those of the first byte.
        """
        X = np.array(X, dtype=np.float64, order="C")
        if self.metric == "euclidean":
            X -= self.offset
            starts, times = np.square(X).sum(axis=1), -2
        elif self.metric == "inner_product":
            starts, times = -(X @ self.offset), -1
        else:
            X = unit_rows(X)
            length = np.linalg.norm(self.offset)
            towards = self.offset / length if length > 0 else self.offset
            is_zero = ~X.any(axis=1)
            X -= towards
            starts = length * np.where(is_zero, 1.0, np.square(X).sum(axis=1) / 2)
            times = -1
        own = times * self._products(X)
        # No sum of them may be beyond float32, nor one with the float of a code.
        most = np.abs(own) if own.ndim == 2 else np.abs(own).max(axis=2)
        _to_float32(2 * (most.sum(axis=1) + np.abs(starts)))
        return tables_of_bytes(own.astype(np.float32, copy=False), starts, n_bytes)

    def _entries(self):
        return self.codebook.reshape(-1, self.codebook.shape[-1])

    def _products(self, X):
        """Return the products of queries and entries, shaped as the codebook is."""
        if bits_of_block(self.codebook) < 8:
            return (X @ self._entries().T).reshape(len(X), *self.codebook.shape[:-1])
        products = np.empty((len(X), len(self.codebook), 256), dtype=np.float32)
        _products.multiply(X.astype(np.float32), self._features, products)
        return products

    @property
    def _features(self):
        """The codebook, with the entries of a feature side by side."""
        return np.ascontiguousarray(self.codebook.transpose(0, 2, 1))


def is_plain(X, n_features):
    """Return whether scikit-learn would return `X` as it is; its check is slow."""
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.flags.c_contiguous
        and X.shape[1:] == (n_features,)
        and len(X) > 0
        and bool(np.isfinite(X).all())
    )


def tables_of_bytes(own, starts, n_bytes):
    """Return tables by byte, summed up from those by bit or by block.

    own : float32 (n_queries, n_bits) or (n_queries, n_blocks, 2**g); starts :
    (n_queries,), what the first byte adds besides
    """
    n, n_blocks, *n_entries = own.shape
    starts = starts.astype(np.float32)
    tables = np.zeros((n, n_bytes, 256), dtype=np.float32)
    if not n_entries:  # a table doubles with each bit, from the last one on
        weights = np.zeros((n, 8 * n_bytes), dtype=np.float32)
        weights[:, :n_blocks] = own
        weights = weights.reshape(n, n_bytes, 8)
        tables[:, 0, 0] = starts
        for bit in range(8):
            place = 1 << bit
            added = tables[..., :place] + weights[..., 7 - bit, None]
            tables[..., place : 2 * place] = added
        return tables
    if n_entries == [16]:
        halves = np.zeros((n, 2 * n_bytes, 16), dtype=np.float32)
        halves[:, :n_blocks] = own
        first, second = halves[:, ::2, :, None], halves[:, 1::2, None]
        own = (first + second).reshape(n, n_bytes, 256)
    tables[:, : own.shape[1]] = own
    tables[:, 0] += starts[:, None]
    return tables


def angles_to(offset, beyond):
    """Return the terms and factors of cosines to vectors ``x = offset + beyond``.

    With unit vectors u along the offset and q of the query, the score
    ``1 - q^T x / |x|`` is ``(|x| - u^T x) / |x|``, which is of x alone, plus
    ``(u - q)^T x / |x|``. Where the offset is much longer than what is beyond it, all
    of it is small, and neither part is a difference of large numbers.

    Parameters
    ----------
    offset : ndarray of shape (n_axes,), float64
    beyond : ndarray of shape (n, n_axes), float64

    Returns
    -------
    terms, factors : ndarrays of shape (n,), float64
        1 less the cosine of u and x, and ``1 / |x|``; 1 and 0 where x is zero.
    """
    length = np.linalg.norm(offset)
    towards = offset / length if length > 0 else offset
    across = beyond - np.outer(beyond @ towards, towards)
    along = length + beyond @ towards
    squares = np.square(across).sum(axis=1)
    lengths = np.sqrt(along**2 + squares)
    # The change of basis leaves something of a vector that is zero.
    longest = length + np.linalg.norm(beyond, axis=1)
    lengths[lengths <= ROUNDING * longest] = 0.0
    factors = 1 / np.where(lengths > 0, lengths, np.inf)
    # lengths - along, of which one is nearly the other where along is positive.
    ratios = squares / np.where(along > 0, lengths + along, 1)
    excess = np.where(along > 0, ratios, lengths - along)
    return np.where(lengths > 0, excess * factors, 1.0), factors


def _to_float32(values):
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(
            "Scores are beyond float32; multiply codebook, offset and queries by a "
            "small constant, which changes no order."
        )
    return values
