"""Bytes in the conventions of other engines."""

import numpy as np

from skhash.codes import check_packed
from skhash.utils.arrays import as_array

_REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    axis=1,
)[:, 0]
_INT8 = ("view", "offset")


def reverse_bits(packed) -> np.ndarray:
    """Reverse the order of the bits in each byte.

    The packed codes of skhash have the first bit highest, as NumPy, PostgreSQL, Vespa
    and Elasticsearch do; faiss's encoders and sqlite-vec have it lowest. Distances do
    not depend on it, as long as both sides have the same order.

    Parameters
    ----------
    packed : array-like of shape (n_samples, n_bytes), uint8

    Returns
    -------
    reversed : ndarray of shape (n_samples, n_bytes), uint8
        Reversed twice, they are as before.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.export import reverse_bits
    >>> reverse_bits(np.array([[0b00101011]], dtype=np.uint8)) == 0b11010100
    array([[ True]])
    """
    return _REVERSED[check_packed(packed)]


def to_int8(packed, convention) -> np.ndarray:
    """Convert packed bytes to signed ones.

    Parameters
    ----------
    packed : array-like of shape (n_samples, n_bytes), uint8
    convention : {"view", "offset"}
        "view" reads the same bits as a signed number, as Vespa, Elasticsearch and
        OpenSearch do. "offset" subtracts 128, as the "binary" embeddings of
        sentence-transformers, Voyage and vLLM are, and thereby flips the first bit of
        each byte. Codes of both kinds must not be compared.

    Returns
    -------
    signed : ndarray of shape (n_samples, n_bytes), int8

    See Also
    --------
    from_int8 : The inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.export import to_int8
    >>> packed = np.array([[0, 128, 255]], dtype=np.uint8)
    >>> to_int8(packed, "view")
    array([[   0, -128,   -1]], dtype=int8)
    >>> to_int8(packed, "offset")
    array([[-128,    0,  127]], dtype=int8)
    """
    _check_convention(convention)
    packed = check_packed(packed)
    return (packed if convention == "view" else packed ^ np.uint8(128)).view(np.int8)


def from_int8(signed, convention) -> np.ndarray:
    """Convert signed bytes to packed codes.

    Parameters
    ----------
    signed : array-like of shape (n_samples, n_bytes), int8
    convention : {"view", "offset"}
        As in `to_int8`.

    Returns
    -------
    packed : ndarray of shape (n_samples, n_bytes), uint8

    Raises
    ------
    ValueError
        If they are not ``int8``.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.export import from_int8
    >>> from_int8(np.array([[-128, 0]], dtype=np.int8), "offset")
    array([[  0, 128]], dtype=uint8)
    """
    _check_convention(convention)
    signed = as_array(signed)
    if signed.dtype != np.int8:
        raise ValueError(f"Signed codes are int8, got {signed.dtype}.")
    packed = np.ascontiguousarray(signed).view(np.uint8)
    return check_packed(packed if convention == "view" else packed ^ np.uint8(128))


def _check_convention(convention):
    if convention not in _INT8:
        raise ValueError(f"convention must be one of {_INT8}, got {convention!r}.")
