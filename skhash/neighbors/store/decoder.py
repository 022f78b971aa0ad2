"""What codes decode to, and what scoring real queries against them takes."""

from dataclasses import dataclass

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import check_array

from skhash.codes import check_packed, packed_width
from skhash.utils.chunks import row_chunks

METRICS = ("euclidean", "inner_product", "cosine")


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
    codebook = check_array(codebook, dtype=np.float64, input_name="codebook")
    offset = check_array(offset, dtype=np.float64, ensure_2d=False, input_name="offset")
    if offset.shape != codebook.shape[1:]:
        raise ValueError(
            f"offset must have shape {codebook.shape[1:]}, as the codebook has shape "
            f"{codebook.shape}, got {offset.shape}."
        )
    normalized = bool(getattr(decoder, "normalize", False))
    return Decoder(codebook, offset, normalized, metric)


def items_per_code(metric) -> int:
    """Return how many floats `Decoder.items` has of a code."""
    return 2 if metric == "cosine" else 1


@dataclass(frozen=True)
class Decoder:
    """What codes decode to, ``offset + bits @ codebook``, and how that is compared.

    Attributes
    ----------
    codebook : ndarray of shape (n_bits, n_features), float64
    offset : ndarray of shape (n_features,), float64
    normalized : bool
        Whether this is a space of rows of unit length, to which queries are brought.
    metric : str
    """

    codebook: np.ndarray
    offset: np.ndarray
    normalized: bool
    metric: str

    def check_codes(self, packed_codes, n_columns, packed):
        """Raise ``ValueError`` unless such codes can be decoded."""
        n_bits = len(self.codebook)
        if n_columns != (packed_width(n_bits) if packed else n_bits):
            raise ValueError(
                f"Codes have {n_columns} {'bytes' if packed else 'bits'}, but the "
                f"decoder is for {n_bits} bits; take the one of the same encoder."
            )
        check_packed(packed_codes, n_bits)

    def read_queries(self, X, name):
        """Return validated queries, in the space of the codebook."""
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name
        )
        n_features = self.codebook.shape[1]
        if X.shape[1] != n_features:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but codes decode to {n_features}."
            )
        return normalize(X) if self.normalized else X

    def items(self, packed_codes):
        """Return what scoring takes of each code, float32.

        Returns
        -------
        items : ndarray of shape (n_codes, 1), or (n_codes, 2) for "cosine"
            What is added to the sum of the bits' weights, and what that is multiplied
            with before.
        """
        n_bits, n_items = len(self.codebook), items_per_code(self.metric)
        items = np.zeros((len(packed_codes), n_items), dtype=np.float32)
        if self.metric == "inner_product":
            return items
        # Lengths are those in an orthonormal basis, which is no larger than the codes.
        vectors = np.vstack([self.codebook, self.offset])
        vectors = np.linalg.qr(vectors.T, mode="r").T
        codebook, offset = vectors[:n_bits], vectors[n_bits]
        for rows in row_chunks(len(packed_codes), 32 * len(vectors)):
            bits = np.unpackbits(packed_codes[rows], axis=1, count=n_bits)
            beyond = bits.astype(np.float64) @ codebook
            if self.metric == "cosine":
                parts = angles_to(offset, beyond)
            else:
                parts = (np.square(beyond).sum(axis=1),)
            items[rows] = np.stack([_to_float32(2 * part) for part in parts], axis=1)
            items[rows] /= 2
        return items

    def weights(self, X, n_planes):
        """Return what each bit that is set adds, and what a code of zeros has.

        They have shapes (n_queries, n_planes) and (n_queries,), float32.
        """
        X = X.astype(np.float64)
        if self.metric == "euclidean":
            X -= self.offset
            starts, times = np.square(X).sum(axis=1), -2
        elif self.metric == "inner_product":
            starts, times = -(X @ self.offset), -1
        else:
            X = normalize(X)
            length = np.linalg.norm(self.offset)
            towards = self.offset / length if length > 0 else self.offset
            is_zero = ~X.any(axis=1)
            X -= towards
            starts = length * np.where(is_zero, 1.0, np.square(X).sum(axis=1) / 2)
            times = -1
        own = times * (X @ self.codebook.T)
        # No sum of them may be beyond float32, nor one with the float of a code.
        _to_float32(2 * (np.abs(own).sum(axis=1) + np.abs(starts)))
        weights = np.zeros((len(X), n_planes), dtype=np.float32)
        weights[:, : len(self.codebook)] = own
        return weights, starts.astype(np.float32)


def angles_to(offset, beyond):
    """Return what the cosine of a query takes of vectors ``x = offset + beyond``.

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
    factors = 1 / np.where(lengths > 0, lengths, np.inf)
    # lengths - along, of which one is nearly the other where along is positive.
    excess = np.where(along > 0, squares / (lengths + along + (lengths == 0)), 0)
    excess = np.where(along > 0, excess, lengths - along)
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
