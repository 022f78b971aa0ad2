"""Decoding of codes, and terms and tables to score uncompressed queries."""

from dataclasses import dataclass, replace

import numpy as np

from skhash.codes import check_packed, packed_width
from skhash.numerics._decoder import (
    bits_of_block,
    block_values,
    check_codebook,
    scaled,
    sum_of_entries,
)
from skhash.numerics._levels import (
    FRACTION_BITS,
    base_and_last,
    keys_of,
    keys_to_levels,
    levels_to_keys,
    numbers_of,
    spare_bits,
)
from skhash.utils.arrays import check_array, is_plain
from skhash.utils.chunks import row_chunks
from skhash.utils.lazy import LateModule
from skhash.utils.threads import few_blas_threads

_products = LateModule("skhash.neighbors.kernels.products")
_kernel_law = LateModule("skhash.neighbors.kernels.law")

METRICS = ("euclidean", "inner_product", "cosine")
# Of scores by angle: what they are for an angle of 90 degrees, the factor of the
# negated cosine, and what they are where one vector is zero.
ANGLES = {"euclidean": (2, 2, 1), "inner_product": (0, 1, 0), "cosine": (1, 1, 1)}
# A sum this much shorter than its parts is zero up to rounding.
ROUNDING = 64 * np.finfo(np.float64).eps
_NOTHING = np.empty(0, dtype=np.float32)
BEYOND = (
    "Scores are beyond float32; multiply codebook, offset and queries by a constant "
    "that brings them near 1, which does not change the order."
)


def read_decoder(decoder, metric):
    """Return the `Decoder` of a fitted estimator or of a tuple (codebook, offset)."""
    scales = getattr(decoder, "scales_", None)
    if isinstance(decoder, tuple) and len(decoder) == 2:
        codebook, offset = decoder
    elif hasattr(decoder, "codebook_") and hasattr(decoder, "offset_"):
        codebook = decoder.codebook_ if scales is None else decoder.entries_
        offset = decoder.offset_
    else:
        raise ValueError(
            "decoder must have codebook_ and offset_, or be a tuple (codebook, "
            f"offset), got {decoder!r}; for the codes of any encoder, fit a "
            "skhash.quantization.LinearDecoder."
        )
    kind = np.float64 if np.ndim(codebook) <= 2 else np.float32
    kind = kind if scales is None else codebook.dtype
    options = {"dtype": kind, "input_name": "codebook", "order": "C"}
    codebook = check_array(codebook, allow_nd=True, **options)
    offset = check_array(offset, dtype=np.float64, ensure_2d=False, input_name="offset")
    n_bits = getattr(decoder, "n_bits_", None)
    if n_bits is None:
        n_bits = len(codebook) * bits_of_block(codebook)
    check_codebook(codebook, offset, n_bits, scales)
    names = "normalize", "normalized_"  # either: it was fitted to rows of unit length
    normalized = any(bool(getattr(decoder, name, False)) for name in names)
    read = Decoder(codebook, offset, scales, int(n_bits), normalized, metric)
    name = "length_bits_" if read.by_angle else "distance_bits_"
    return replace(read, fraction_bits=int(getattr(decoder, name, FRACTION_BITS)))


@dataclass(frozen=True)
class Decoder:
    """A linear decoder of codes, and the metric of the decoded vectors.

    A code is cut into blocks of 1, 4 or 8 bits. It decodes to the offset and the sum of
    an entry of the codebook for each block.

    Attributes
    ----------
    entries : ndarray of shape (n_bits, n_features), float64
        Vectors that set bits add; or of shape (n_blocks, 16 or 256, n_features), those
        that values of a block add, its first bit being the highest: in float32, or in
        whole numbers of 8 or 16 bits.
    offset : ndarray of shape (n_features,), float64
    scales : ndarray of shape (n_blocks,), float32, or None
        Of whole numbers: the codebook is their product with the scale of the block.
    n_bits : int
        Those of a code. Where they do not fill the last block, zeros follow.
    normalized : bool
        Whether this is a space of rows of unit length. Queries are brought to it, and
        so is what codes decode to.
    metric : str
    fraction_bits : int
        Those of the numbers that codes have beside them: see `skhash.numerics._levels`.
    base, last : int
        That of the levels of these numbers, and the largest level.
    """

    entries: np.ndarray
    offset: np.ndarray
    scales: np.ndarray | None
    n_bits: int
    normalized: bool
    metric: str
    fraction_bits: int = FRACTION_BITS
    base: int = 0
    last: int = 0

    def __post_init__(self):
        if bits_of_block(self.entries) == 8:
            # They are held once, as `_products` reads them.
            features = np.ascontiguousarray(self.entries.transpose(0, 2, 1))
            object.__setattr__(self, "entries", features.transpose(0, 2, 1))

    def __setstate__(self, state):
        vars(self).update(state)
        self.__post_init__()

    def check_codes(self, packed_codes, n_columns, packed):
        """Raise ``ValueError`` unless such codes can be decoded."""
        n_bits = self.n_bits
        if n_columns != (packed_width(n_bits) if packed else n_bits):
            raise ValueError(
                f"Codes have {n_columns} {'bytes' if packed else 'bits'}, but the "
                f"decoder is for {n_bits} bits; use the decoder of the same encoder."
            )
        check_packed(packed_codes, n_bits)

    def read_queries(self, X, name):
        """Return validated queries."""
        n_features = len(self.offset)
        if not is_plain(X):
            options = {"dtype": [np.float64, np.float32], "order": "C"}
            X = check_array(X, accept_sparse="csr", input_name=name, **options)
        if X.shape[1] != n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but codes decode to {n_features}."
            )
        return X

    @property
    def nbytes(self):
        """The bytes of its arrays."""
        scales = 0 if self.scales is None else self.scales.nbytes
        return self.entries.nbytes + scales + self.offset.nbytes

    @property
    def codebook(self):
        """The vectors that bits or values of blocks add, computed as floats."""
        return scaled(self.entries, self.scales)

    def of_blocks(self, blocks):
        """Return the decoder of the codes of these blocks alone."""
        scales = None if self.scales is None else self.scales[blocks]
        n_bits = len(blocks) * bits_of_block(self.entries)
        return replace(self, entries=self.entries[blocks], scales=scales, n_bits=n_bits)

    @property
    def by_angle(self):
        """Whether scores are of the directions of decoded vectors."""
        return self.normalized or self.metric == "cosine"

    @property
    def has_numbers(self):
        """Whether a search keeps a number of each code beside it."""
        return self.by_angle or self.metric == "euclidean"

    def numbers(self, packed_codes, added=None):
        """Return the number of each code that its score needs besides its sum.

        That is the length of the decoded vector, if scores are of directions, and else
        its squared distance from the offset. Inner products need none.

        added : ndarray of shape (n_codes,), default=None
            Added to squared distances. Of angles, infinity stands for a vector of
            zeros, whose number is 0 whatever its code decodes to.

        Returns
        -------
        numbers : ndarray of shape (n_codes,), float32, or None
        """
        if not self.has_numbers:
            return None
        codebook = self.codebook
        vectors = np.vstack([codebook.reshape(-1, len(self.offset)), self.offset])
        if len(vectors) < len(self.offset):
            # Lengths are those in an orthonormal basis, which has fewer axes.
            with few_blas_threads(vectors.shape[1]):
                vectors = np.linalg.qr(vectors.T, mode="r").T
        entries, offset = vectors[:-1], vectors[-1] * self.by_angle
        entries = entries.reshape(*codebook.shape[:-1], -1)
        norms = np.linalg.norm(entries, axis=-1, keepdims=True)
        block_bits = bits_of_block(entries)
        numbers = np.empty(len(packed_codes), dtype=np.float32)
        for rows in row_chunks(len(numbers), 32 * (self.n_bits + entries.shape[-1])):
            values = block_values(packed_codes[rows], block_bits, len(entries))
            beyond = sum_of_entries(values, entries)
            chunk = np.square(beyond + offset).sum(axis=1)
            # Where the parts of a vector cancel, rounding leaves a residue.
            parts = sum_of_entries(values, norms)[:, 0] + np.linalg.norm(offset)
            chunk[np.sqrt(chunk) <= ROUNDING * parts] = 0
            if self.by_angle:
                chunk = np.sqrt(chunk)
                if added is not None:
                    chunk[np.isinf(added[rows])] = 0
                _to_float32(1e4 / chunk[chunk > 0])  # factors are float32, too
            elif added is not None:
                chunk += added[rows]
            numbers[rows] = _to_float32(2 * chunk) / 2
        return numbers

    def keys(self, packed_codes, added=None):
        """Return the keys of the numbers of codes, int64, or None; see `numbers`."""
        numbers = self.numbers(packed_codes, added)
        return None if numbers is None else keys_of(numbers, self.fraction_bits)

    def with_levels(self, keys):
        """Return the decoder with the base of these keys, and their levels.

        Returns
        -------
        decoder : Decoder
        levels : ndarray of shape (n_codes, n_bytes), uint8, or None
        """
        if keys is None:
            return self, None
        base, last = base_and_last(keys)
        return replace(self, base=base, last=last), keys_to_levels(keys, base, last)

    def keys_of_levels(self, levels):
        """Return the keys of levels, or None."""
        return None if levels is None else levels_to_keys(levels, self.base, self.last)

    def terms_and_factors(self, keys):
        """Return what is added to the sums of codes, and by what these are multiplied.

        Returns
        -------
        terms, factors : ndarray of shape (n_codes,), float32
        """
        numbers = numbers_of(keys, self.fraction_bits)
        if not self.by_angle:
            return numbers, np.ones_like(numbers)
        term, times, nothing = map(np.float32, ANGLES[self.metric])
        is_some = numbers > 0
        factors = np.divide(times, numbers, where=is_some, out=np.zeros_like(numbers))
        return np.where(is_some, term, nothing), factors

    def law(self):
        """Return how kernels make a score of a sum and a level: see `kernels.law`."""
        term, times, nothing = ANGLES[self.metric] if self.by_angle else (0, 0, 0)
        lowest = -np.inf if self.metric == "inner_product" else 0  # of all scores
        numbers = np.float32([term, times, nothing, lowest])
        shift = FRACTION_BITS - self.fraction_bits
        return _kernel_law.Law(spare_bits(self.last), self.base, shift, *numbers)

    @property
    def zero_excess(self):
        """By how much the scores of queries of zeros are too large.

        A sum of 0 stands for a right angle, and among rows of unit length distances
        from zero are shorter than those at a right angle.
        """
        term, _, nothing = ANGLES[self.metric] if self.by_angle else (0, 0, 0)
        return np.float32(term - nothing)

    def tables(self, X, n_bytes):
        """Return lookup tables: what each value of a byte adds to the sum of a code.

        They have shape (n_queries, n_bytes, 256), float32. Terms common to all codes
        are in those of the first byte.
        """
        X = np.array(X, dtype=np.float64, order="C")
        from_offset = self.metric == "euclidean" and not self.by_angle
        kind = self.offset, self.by_angle, from_offset
        times = np.float32(-2 if from_offset else -1)
        if bits_of_block(self.entries) < 8:
            starts = np.empty(len(X))
            _products.prepare(X, *kind, starts)
            return self._tables_of_bits(X, times, starts, n_bytes)
        scales = _NOTHING if self.scales is None else self.scales
        features = self.entries.transpose(0, 2, 1)
        source = _products.Source(*kind, features, scales, times)
        tables = np.empty((len(X), n_bytes, 256), dtype=np.float32)
        if not _products.write_tables(X, source, tables):
            raise ValueError(BEYOND)
        return tables

    @np.errstate(over="ignore", invalid="ignore")  # infinite values are refused
    def _tables_of_bits(self, X, times, starts, n_bytes):
        """Return the tables of blocks of 1 or 4 bits, from their products."""
        products = X @ self.codebook.reshape(-1, X.shape[1]).T
        products = (times * products).reshape(len(X), *self.entries.shape[:-1])
        most = np.abs(products) if products.ndim == 2 else np.abs(products).max(axis=2)
        _to_float32(2 * (most.sum(axis=1) + np.abs(starts)))
        return tables_of_bytes(products.astype(np.float32), starts, n_bytes)


def tables_of_bytes(summands, starts, n_bytes):
    """Return tables by byte, summed up from those by bit or by block.

    summands : float32 (n_queries, n_bits) or (n_queries, n_blocks, 16); starts :
    (n_queries,), what the first byte adds besides
    """
    n, n_blocks, *n_entries = summands.shape
    starts = starts.astype(np.float32)
    tables = np.zeros((n, n_bytes, 256), dtype=np.float32)
    if not n_entries:  # a table doubles with each bit, from the last one on
        weights = np.zeros((n, 8 * n_bytes), dtype=np.float32)
        weights[:, :n_blocks] = summands
        weights = weights.reshape(n, n_bytes, 8)
        tables[:, 0, 0] = starts
        for bit in range(8):
            place = 1 << bit
            added = tables[..., :place] + weights[..., 7 - bit, None]
            tables[..., place : 2 * place] = added
        return tables
    if n_entries == [16]:
        halves = np.zeros((n, 2 * n_bytes, 16), dtype=np.float32)
        halves[:, :n_blocks] = summands
        first, second = halves[:, ::2, :, None], halves[:, 1::2, None]
        summands = (first + second).reshape(n, n_bytes, 256)
    tables[:, : summands.shape[1]] = summands
    tables[:, 0] += starts[:, None]
    return tables


def _to_float32(values):
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(BEYOND)
    return values
