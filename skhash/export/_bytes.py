"""Bytes in the conventions of other engines."""

import numpy as np

from skhash.codes import check_packed

_REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    axis=1,
)[:, 0]


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
